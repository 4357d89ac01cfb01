"""The reader of a running quorum's metadata log, as an observer without an id (KIP-595, KIP-630).

`MetadataLogReader` brings what is committed behind a position, or a whole snapshot when the log begins later. It asks the leader and
finds it by the hints of the others. The replica id is -1: nobody counts on such a reader, nobody waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.client.cluster_view import NodeView
from headrace.client.error_text import wrong_listener
from headrace.client.retry import Attempts, error_of
from headrace.client.routing import unsupported
from headrace.client.session import Session
from headrace.client.talk import Address, Answered, Ask, Call, Conversation, Lost, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID
from headrace.core.offsets import OffsetAndEpoch
from headrace.records.batch import iter_batches
from headrace.wire.messages import fetch, fetch_snapshot

METADATA_TOPIC = "__cluster_metadata"
_NO_METADATA_LOG = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""What a broker's listener answers to a fetch of it; a controller's always knows it."""
_CHUNK_BYTES = 8 << 20
_MAX_SNAPSHOT_BYTES = 4 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPart:
    """Whole record batches from the position asked for on, all committed; empty when there is no news."""

    records: memoryview
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotNeeded:
    """The log begins behind the position: this snapshot holds what is missing."""

    snapshot_id: OffsetAndEpoch


class MetadataLogReader:
    """Remembers which epoch the quorum is in and who leads it; its methods are conversations."""

    def __init__(self) -> None:
        self._epoch = 0

    def fetch_committed(
        self, session: Session, offset: int, last_epoch: int, *, max_wait_ms: int = 0
    ) -> Conversation[CommittedPart | SnapshotNeeded]:
        """What is committed from `offset` on; `last_epoch` is that of the record before it. Raises PeerError, OperatorError."""

        def build(version: int) -> fetch.FetchRequest:
            part = fetch.FetchPartition(
                partition=0,
                current_leader_epoch=self._epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                partition_max_bytes=_CHUNK_BYTES,
            )
            topic = fetch.FetchTopic(
                topic=METADATA_TOPIC if version < 13 else "",
                topic_id=METADATA_TOPIC_ID if version >= 13 else ZERO_UUID,
                partitions=(part,),
            )
            return fetch.FetchRequest(max_wait_ms=max_wait_ms, max_bytes=_CHUNK_BYTES, topics=(topic,))

        request = Call(api=fetch.FetchRequest, build=build, at_least=12)
        part = yield from self._ask_leader(session, request)
        if part.snapshot_id.end_offset >= 0:
            return SnapshotNeeded(snapshot_id=OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch))
        if part.diverging_epoch.epoch >= 0:
            raise PeerError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"the quorum's log has another history below offset {offset}"
            )
        data = memoryview(part.records or b"")
        committed = data[: _committed_bytes(data, part.high_watermark)]
        return CommittedPart(records=committed, high_watermark=part.high_watermark)

    def read_snapshot(self, session: Session, snapshot_id: OffsetAndEpoch) -> Conversation[bytes]:
        """A whole snapshot. Raises PeerError: it is gone meanwhile, or something else is wrong."""
        data = bytearray()
        while True:

            def build(_: int, position: int = len(data)) -> fetch_snapshot.FetchSnapshotRequest:
                return self._snapshot_request(snapshot_id, position)

            part = yield from self._ask_leader(session, Call(api=fetch_snapshot.FetchSnapshotRequest, build=build))
            piece = bytes(part.unaligned_records or b"")
            if part.position != len(data) or not 0 <= part.size <= _MAX_SNAPSHOT_BYTES:
                raise PeerError(
                    ErrorCode.POSITION_OUT_OF_RANGE, "the leader sent another piece of the snapshot than asked for"
                )
            data += piece
            if len(data) >= part.size:
                return bytes(data)
            if not piece:
                raise PeerError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "the leader sends nothing more of an unfinished snapshot"
                )

    def _snapshot_request(self, snapshot_id: OffsetAndEpoch, position: int) -> fetch_snapshot.FetchSnapshotRequest:
        part = fetch_snapshot.RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=self._epoch,
            snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=snapshot_id.offset, epoch=snapshot_id.epoch),
            position=position,
        )
        topic = fetch_snapshot.RequestTopicSnapshot(name=METADATA_TOPIC, partitions=(part,))
        return fetch_snapshot.FetchSnapshotRequest(max_bytes=_CHUNK_BYTES, topics=(topic,))

    def _ask_leader(self, session: Session, request: Call) -> Conversation[Any]:
        """Ask whom we take for the leader until it is it; the partition of its answer. A hint in an answer says who is."""
        attempts = Attempts(session)
        while True:
            address = _leader_address(session) or session.cluster.candidates()[0]
            outcome = yield Ask(address=address, request=request, timeout_ms=attempts.request_ms)
            if isinstance(outcome, Unsupported):
                raise unsupported(outcome, address)
            why: PeerError | Lost
            if isinstance(outcome, Answered):
                session.cluster.answered(address)
                part, error, is_news = self._take_answer(session, outcome.response)
                if error is None:
                    return part
                if error.code in _NO_METADATA_LOG and address in session.cluster.bootstrap:
                    raise OperatorError(wrong_listener(address, is_controller_wanted=True))
                if is_news:
                    continue
                if not error.code.is_retriable:
                    raise error
                why = error
                session.cluster.failed(address)
            else:
                why = outcome
                attempts.lost(address, outcome)
            session.cluster.controller_id = -1
            yield from attempts.again(why)

    def _take_answer(self, session: Session, response: Any) -> tuple[Any, PeerError | None, bool]:
        """The partition, what is wrong with the answer, and whether it knows a newer epoch or another leader than we did."""
        error = error_of(response.error_code)
        if error is not None:
            return None, error, False
        topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
        parts = [part for topic in topics for part in topic.partitions]
        if len(parts) != 1:
            error = PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "an answer for something else than the metadata log")
            return None, error, False
        error = error_of(parts[0].error_code)
        before = _leader_address(session), self._epoch
        hint = parts[0].current_leader
        for each in response.node_endpoints:
            if each.host and 0 < each.port < 65536:
                address = Address(host=each.host, port=each.port)
                session.cluster.learn_node(NodeView(node_id=each.node_id, address=address))
        if hint.leader_epoch >= self._epoch:
            self._epoch, session.cluster.controller_id = hint.leader_epoch, hint.leader_id
        after = _leader_address(session), self._epoch
        return parts[0], error, error is not None and after != before and after[0] is not None


def _committed_bytes(data: memoryview, high_watermark: int) -> int:
    size = 0
    for position, header in iter_batches(data):
        if header.next_offset > high_watermark:
            break
        size = position + header.size
    return size


def _leader_address(session: Session) -> Address | None:
    return session.cluster.address_of(session.cluster.controller_id)
