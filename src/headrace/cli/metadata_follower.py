"""The metadata log of a running quorum, followed (KIP-631: the shell of a live cluster)."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.cli.metadata_file import batches
from headrace.cli.shell import first_contact_ms
from headrace.client import metadata_log
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage, MetadataProvenance
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.raft.snapshots import read_snapshot
from headrace.records.batch import iter_batches

_NODE_KEYS = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")


class QuorumFollower:
    """An observer without an id: reads the log up to the high watermark each time it is asked."""

    def __init__(self, controllers: str | None, properties: Mapping[str, str]) -> None:
        """`controllers` as typed, else those that `properties` name. Raises OperatorError: nobody is named."""
        servers = controllers or next((properties[key] for key in _NODE_KEYS if properties.get(key)), None)
        servers = servers or properties.get("bootstrap.controllers")
        if not servers:
            raise OperatorError(
                "No controllers are named: give --controllers, or a --config with controller.quorum.bootstrap.servers"
            )
        self._client = BlockingClient(
            addresses(servers), properties=properties, is_controller=True, first_contact_ms=first_contact_ms(properties)
        )
        self._reader = metadata_log.MetadataLogReader()
        self._loader = MetadataLoader(is_any_level_read=True)
        self._offset = 0
        self._epoch = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def refresh(self) -> MetadataImage:
        """The image of all that is committed by now. Raises OperatorError, PeerError."""
        while True:
            part = self._client.run(self._reader.fetch_committed, self._offset, self._epoch)
            if isinstance(part, metadata_log.SnapshotNeeded):
                self._load_snapshot(part)
            elif not self._load(part):
                return self._loader.image

    def _load(self, part: metadata_log.CommittedPart) -> bool:
        """Take what came; whether there may be more."""
        headers = [header for _, header in iter_batches(part.records)]
        if not headers:
            return False
        try:
            self._loader.load_batches([each for each in batches(part.records) if each.base_offset >= self._offset])
        except MetadataFault as fault:
            raise OperatorError(f"the metadata log of the quorum: {fault}") from None
        self._offset, self._epoch = headers[-1].next_offset, headers[-1].leader_epoch
        return self._offset < part.high_watermark

    def _load_snapshot(self, needed: metadata_log.SnapshotNeeded) -> None:
        name = needed.snapshot_id
        data = self._client.run(self._reader.read_snapshot, name)
        snapshot = read_snapshot(data, name=f"the quorum's snapshot {name.offset}-{name.epoch}")
        self._loader = MetadataLoader(EMPTY_IMAGE, is_any_level_read=True)
        provenance = MetadataProvenance(
            last_contained_offset=name.offset - 1,
            last_contained_epoch=name.epoch,
            last_contained_log_time_ms=snapshot.last_contained_log_timestamp,
        )
        try:
            self._loader.load_snapshot(snapshot.records, provenance)
        except MetadataFault as fault:
            raise OperatorError(f"the snapshot of the quorum: {fault}") from None
        self._offset, self._epoch = name.offset, name.epoch


def addresses(servers: str) -> str:
    """`host:port,...` out of `id@host:port,...`; entries without an id stay as they are."""
    return ",".join(each.strip().rpartition("@")[2] for each in servers.split(","))
