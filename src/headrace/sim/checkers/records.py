"""Records of clients against a ghost of each copy: acknowledged ones stay at their offsets, nobody reads anything else.  PR1 PR2 PR4 P7 P16 P17

A ghost belongs to a partition on a disk. It knows what was acknowledged there and what was read; a power cut takes from it what need not have been
synced, and a lost disk all. Each record's value is unique, so a record that comes twice, or at another place, is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.log.ports import FileSlice
from headrace.records.batch import BatchHeader, checked_batches
from headrace.records.record import Record, read_records
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.promises import hosted_on
from headrace.sim.observation import CallEnded, CallStarted, Crash, StepKind
from headrace.sim.record_clients import is_copied, is_synced
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.ids import Uuid
    from headrace.sim.checkers.ghost import Ghost, Life
    from headrace.sim.observation import ClusterView, NodeView

_READ_BYTES: Final = 1 << 20
_READS_COPIES: Final = 11
"""The version of Fetch from which on a consumer may be served by a broker that does not lead (KIP-392)."""


class Place(NamedTuple):
    """A copy: a partition on a disk."""

    topic: str
    partition: int
    node_id: int
    directory_id: Uuid


class Copy:
    """What a copy must hold: `held` by offset, of which `acknowledged` may not go while the disk lasts (or, unsynced, the power)."""

    __slots__ = ("acknowledged", "held", "losses", "offsets", "shown_end", "wipes")

    def __init__(self) -> None:
        self.held: dict[int, bytes] = {}
        self.offsets: dict[bytes, int] = {}
        self.acknowledged: set[int] = set()
        self.shown_end = 0
        """The highest high watermark that somebody was told."""
        self.losses = self.wipes = 0

    @property
    def end(self) -> int:
        """Behind the last record that must be there."""
        return max(self.held, default=-1) + 1

    def lose(self, *, keeps_acknowledged: bool) -> int:
        """The power was cut: only what was synced must be there still. The number of records that may be gone."""
        self.losses += 1
        kept = {at: self.held[at] for at in self.acknowledged} if keeps_acknowledged else {}
        gone = len(self.held) - len(kept)
        self.held = kept
        self.offsets = {value: at for at, value in kept.items()}
        if not keeps_acknowledged:
            self.acknowledged.clear()
        self.shown_end = 0
        return gone

    def wipe(self) -> None:
        """Another disk is in its place."""
        self.lose(keeps_acknowledged=False)
        self.wipes += 1


class _Begun(NamedTuple):
    """A call that goes on, and what was true when it began."""

    copy: Copy
    losses: int
    wipes: int
    end: int
    shown_end: int
    leader_epoch: int | None
    """In which the node led then."""
    version: int


class ClientRecords(Group):
    """What producers were told and consumers were shown, and at the end what lies in the logs."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._copies: dict[Place, Copy] = {}
        self._begun: dict[int, _Begun] = {}
        self._sent: set[bytes] = set()

    # --- calls ---

    def called(self, event: object) -> None:
        """A produce or a fetch begins or has ended."""
        if isinstance(event, CallStarted) and isinstance(event.request, ProduceRequest | FetchRequest):
            if is_copied(self._asked(event.request)[0]):
                return  # `copied_records` judges those
            node = self.scene.step.node
            copy = self._copy(node, event.request)
            leader_epoch = self._leader_epoch(node, *self._asked(event.request))
            self._begun[event.call_id] = _Begun(
                copy, copy.losses, copy.wipes, copy.end, copy.shown_end, leader_epoch, event.api_version
            )
            if isinstance(event.request, ProduceRequest):
                self._sent.update(values_of(event.request.topic_data[0].partition_data[0].records))
        elif isinstance(event, CallEnded) and event.call_id in self._begun:
            begun = self._begun.pop(event.call_id)
            if isinstance(event.response, ProduceResponse) and isinstance(event.request, ProduceRequest):
                self._produced(begun, event.request, event.response)
            elif isinstance(event.response, FetchResponse) and isinstance(event.request, FetchRequest):
                self._fetched(begun, event.request, event.response)

    def _copy(self, node: NodeView, request: ProduceRequest | FetchRequest) -> Copy:
        topic, partition = self._asked(request)
        return self._copies.setdefault(Place(topic, partition, node.node_id, node.directory_id), Copy())

    def _asked(self, request: ProduceRequest | FetchRequest) -> tuple[str, int]:
        return asked_partition(request, self.ghost)

    def _produced(self, begun: _Begun, request: ProduceRequest, response: ProduceResponse) -> None:
        told = response.responses[0].partition_responses[0]
        copy = begun.copy
        topic, _ = self._asked(request)
        is_void = copy.wipes != begun.wipes or (copy.losses != begun.losses and not is_synced(topic))
        if told.error_code != ErrorCode.NONE or is_void:
            return
        values = values_of(request.topic_data[0].partition_data[0].records)
        for offset, value in enumerate(values, told.base_offset):
            self._hold(copy, offset, value)
            copy.acknowledged.add(offset)
        self.hit("records acknowledged", len(values))

    def _hold(self, copy: Copy, offset: int, value: bytes) -> None:
        """A record is at an offset. No other one is, and it is at no other one."""
        node = self.scene.step.node
        if copy.held.setdefault(offset, value) != value:
            raise self.broken(
                "P16",
                f"offset {offset} at node {node.node_id} holds {copy.held[offset]!r}, and {value!r}",
                self._life(node),
            )
        if copy.offsets.setdefault(value, offset) != offset:
            if self.scene.may_have_forgotten_producers([node.node_id]):
                self.hit("record stored again by a broker whose clock ran ahead")
                return
            raise self.broken(
                "PR4",
                f"{value!r} is at offset {copy.offsets[value]} of node {node.node_id}, and at {offset}",
                self._life(node),
            )

    def _fetched(self, begun: _Begun, request: FetchRequest, response: FetchResponse) -> None:
        copy, node = begun.copy, self.scene.step.node
        if copy.losses != begun.losses or response.error_code or not response.responses:
            return
        told = response.responses[0].partitions[0]
        asked = request.topics[0].partitions[0]
        if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and asked.fetch_offset < begun.end:
            raise self.broken(
                "PR1",
                f"node {node.node_id} has nothing at offset {asked.fetch_offset}, below {begun.end}",
                self._life(node),
            )
        if told.error_code != ErrorCode.NONE:
            return
        epoch = self._leader_epoch(node, *self._asked(request))
        has_led = begun.leader_epoch is not None and begun.leader_epoch == epoch
        if not has_led and begun.version >= _READS_COPIES:
            self.hit("fetch that a copy may have answered")  # which may not know yet how much is committed
        elif told.high_watermark < max(begun.end, begun.shown_end):
            raise self.broken(
                "P7",
                f"node {node.node_id} shows a high watermark of {told.high_watermark}, below {max(begun.end, begun.shown_end)}",
                self._life(node),
            )
        copy.shown_end = max(copy.shown_end, told.high_watermark)
        self._read(copy, asked.fetch_offset, told.high_watermark, told.records or b"")

    def _read(self, copy: Copy, fetched: int, high_watermark: int, records: bytes | memoryview) -> None:
        node, expected = self.scene.step.node, -1
        for base_offset, next_offset, batch in batches_of(records):
            if expected < 0 and not base_offset <= fetched < next_offset:
                raise self.broken("P17", f"asked for offset {fetched}, got a batch at {base_offset}", self._life(node))
            if expected >= 0 and base_offset != expected:
                raise self.broken(
                    "P16", f"a batch at {base_offset} follows one that ends at {expected}", self._life(node)
                )
            if next_offset > high_watermark:
                raise self.broken("P17", f"offset {next_offset - 1} is shown above {high_watermark}", self._life(node))
            expected = next_offset
            for offset, value in batch:
                if value not in self._sent:
                    raise self.broken("PR2", f"nobody sent what is at offset {offset}: {value!r}", self._life(node))
                self._hold(copy, offset, value)
                self.hit("record read")

    # --- crashes ---

    def ended(self, life: Life, kind: StepKind) -> None:
        """What was not synced may be gone with the power, all with the disk."""
        crash = self.scene.step.event
        if kind is not StepKind.CRASHED or not isinstance(crash, Crash) or not (crash.is_lossy or crash.is_disk_lost):
            return
        for place, copy in self._copies.items():
            if place.node_id != life.node_id:
                continue
            if crash.is_disk_lost:
                copy.wipe()
            elif copy.lose(keeps_acknowledged=is_synced(place.topic)):
                self.hit("unsynced records at stake in a power cut")
            elif copy.held:
                self.hit("acknowledged records outlive a power cut")

    # --- what lies there ---

    def now_and_then(self, cluster: ClusterView) -> None:
        """No log of a leader ends before what must be in it."""
        for place, copy, log in self._led(cluster):
            if log.log_end_offset < copy.end:
                raise self.broken(
                    "PR1", f"{place} ends at {log.log_end_offset}, and had {copy.end}", self.ghost.lives[place.node_id]
                )

    def at_end(self, cluster: ClusterView) -> None:
        """Every record that must be there is, at its offset."""
        for place, copy, log in self._led(cluster):
            found: dict[int, bytes] = {}
            at = log.log_start_offset
            while at < log.log_end_offset:
                data = log.read_slice(at, _READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True)
                assert isinstance(data, FileSlice), "what lies between a log's ends can be read"
                for _, at, batch in batches_of(data.read()):  # noqa: B007 - the next read begins there
                    found.update(batch)
            for offset, value in copy.held.items():
                if found.get(offset) != value:
                    raise self.broken(
                        "PR1",
                        f"{place} holds {found.get(offset)!r} at offset {offset} in place of {value!r}",
                        self.ghost.lives[place.node_id],
                    )
            self.hit("copy compared with what clients know")

    def _led(self, cluster: ClusterView) -> Iterator[tuple[Place, Copy, Any]]:
        """The copies that are led where they lie."""
        for place, copy in self._copies.items():
            node = cluster.nodes[place.node_id]
            hosted = (
                hosted_on(node, (place.topic, place.partition)) if node.directory_id == place.directory_id else None
            )
            if hosted is not None and hosted.leader is not None and hosted.log is not None:
                yield place, copy, hosted.log

    def _leader_epoch(self, node: NodeView, topic: str, partition: int) -> int | None:
        """In which the node leads the partition now."""
        hosted = hosted_on(node, (topic, partition))
        return None if hosted is None or hosted.leader is None else int(hosted.leader_epoch)

    def _life(self, node: NodeView) -> Life:
        return self.ghost.lives[node.node_id]


def asked_partition(request: ProduceRequest | FetchRequest, ghost: Ghost) -> tuple[str, int]:
    """The one partition that a client's request is about, by its topic's name."""
    if isinstance(request, ProduceRequest):
        written = request.topic_data[0]
        name, topic_id, partition = written.name, written.topic_id, written.partition_data[0].index
    else:
        asked = request.topics[0]
        name, topic_id, partition = asked.topic, asked.topic_id, asked.partitions[0].partition
    return name or ghost.committed.names[topic_id], partition


def batches_of(data: bytes | memoryview) -> Iterator[tuple[int, int, list[tuple[int, bytes]]]]:
    """First offset, next offset, and the records of each whole batch."""
    for position, header in checked_batches(data):
        yield header.base_offset, header.next_offset, _decoded(data, position, header)[1]


def records_in(data: bytes | memoryview) -> Iterator[list[Record]]:
    """The records of each whole batch with all that they say."""
    for position, header in checked_batches(data):
        yield _decoded(data, position, header)[0]


def values_of(data: bytes | memoryview | None) -> list[bytes]:
    """The values of a batch that is sent."""
    return [value for _, _, records in batches_of(data or b"") for _, value in records]


_MOST_KNOWN: Final = 4_096
_known: dict[tuple[int, ...], tuple[list[Record], list[tuple[int, bytes]]]] = {}
"""Batches that were decoded lately: each is looked at when it is sent, acknowledged, shown, copied and compared."""


def _decoded(
    data: bytes | memoryview, position: int, header: BatchHeader
) -> tuple[list[Record], list[tuple[int, bytes]]]:
    """The records of a batch, and their offsets and values. Its checksum was found right, so it names them."""
    key = (header.crc, header.base_offset, header.size, header.producer_id, header.base_sequence)
    found = _known.get(key)
    if found is None:
        records = read_records(data, position)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = records, [(record.offset, record.value or b"") for record in records]
    return found
