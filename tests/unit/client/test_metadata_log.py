"""How does a tool find the quorum's leader and read its log?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.client.metadata_log import CommittedPart, MetadataLogReader, SnapshotNeeded
from headrace.client.talk import Address, Answered, Ask
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.offsets import OffsetAndEpoch
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.wire.messages import fetch, fetch_snapshot
from tests.support.conversation import FIRST, Cluster, message_of, session

LEADER = Address(host="leader", port=9093)


def batch(offset: int) -> bytes:
    rows = [NewRecord(None, b"x", 0), NewRecord(None, b"y", 0)]
    return bytes(build_batch(rows, placement=Placement(base_offset=offset, leader_epoch=5)))


def fetched(error: int = 0, *, is_hinted: bool = True, **part: Any) -> fetch.FetchResponse:
    hint = fetch.LeaderIdAndEpoch(leader_id=7, leader_epoch=5) if is_hinted else fetch.LeaderIdAndEpoch()
    nodes = (fetch.NodeEndpoint(node_id=7, host=LEADER.host, port=LEADER.port),) if is_hinted else ()
    data = fetch.PartitionData(error_code=error, current_leader=hint, **part)
    return fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(partitions=(data,)),), node_endpoints=nodes)


def test_it_follows_the_hint_of_who_does_not_lead_and_asks_in_the_newest_epoch() -> None:
    """S4-14, S4-23, S4-28: a fenced answer brings the newer leader."""

    epochs: list[int] = []

    def answer(ask: Ask) -> Any:
        epochs.append(message_of(ask, 17).topics[0].partitions[0].current_leader_epoch)
        if ask.address == FIRST:
            return Answered(response=fetched(ErrorCode.FENCED_LEADER_EPOCH), version=17)
        return Answered(response=fetched(records=batch(0), high_watermark=2), version=17)

    found, reader = session(is_controller=True), MetadataLogReader()
    cluster = Cluster(found, answer)
    part = cluster.hold(reader.fetch_committed(found, 0, 0))
    assert isinstance(part, CommittedPart)
    assert (bytes(part.records), part.high_watermark) == (batch(0), 2)
    assert (epochs, cluster.paused_ms) == ([0, 5], 0)


def test_only_whole_batches_below_the_high_watermark_count() -> None:
    """R1: what is not committed may be taken back."""
    data = batch(0) + batch(2) + batch(4)
    found = session(is_controller=True)
    cluster = Cluster(found, lambda _: Answered(response=fetched(records=data, high_watermark=5), version=17))
    part = cluster.hold(MetadataLogReader().fetch_committed(found, 0, 0))
    assert isinstance(part, CommittedPart)
    assert bytes(part.records) == batch(0) + batch(2)


def test_without_a_leader_it_asks_again_after_a_pause() -> None:
    """S4-30: nobody knows one yet."""
    answers = [fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER, is_hinted=False), fetched(high_watermark=0)]
    found = session(is_controller=True)
    cluster = Cluster(found, lambda _: Answered(response=answers.pop(0), version=17))
    cluster.hold(MetadataLogReader().fetch_committed(found, 0, 0))
    assert len(cluster.asked) == 2
    assert cluster.paused_ms > 0


def test_a_log_that_begins_later_needs_a_snapshot() -> None:
    """B-S06: it comes in pieces, each asked for where the last one ended."""
    told = fetched(snapshot_id=fetch.SnapshotId(end_offset=40, epoch=3))

    def piece(position: int, data: bytes) -> fetch_snapshot.FetchSnapshotResponse:
        part = fetch_snapshot.ResponsePartitionSnapshot(
            size=5, position=position, unaligned_records=data,
            current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=7, leader_epoch=5),
        )  # fmt: skip
        return fetch_snapshot.FetchSnapshotResponse(topics=(fetch_snapshot.ResponseTopicSnapshot(partitions=(part,)),))

    answers: list[Any] = [told, piece(0, b"abc"), piece(3, b"de")]
    found, reader = session(is_controller=True), MetadataLogReader()
    cluster = Cluster(found, lambda _: Answered(response=answers.pop(0), version=1))
    needed = cluster.hold(reader.fetch_committed(found, 0, 0))
    assert needed == SnapshotNeeded(snapshot_id=OffsetAndEpoch(40, 3))
    assert cluster.hold(reader.read_snapshot(found, needed.snapshot_id)) == b"abcde"
    positions = [message_of(ask, 1).topics[0].partitions[0].position for ask in cluster.asked[1:]]
    assert positions == [0, 3]
    answers[:] = [piece(2, b"x")]
    with pytest.raises(PeerError, match="another piece"):
        cluster.hold(reader.read_snapshot(found, needed.snapshot_id))
    answers[:] = [piece(0, b"")]
    with pytest.raises(PeerError, match="nothing more"):
        cluster.hold(reader.read_snapshot(found, needed.snapshot_id))


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_listener_that_does_not_know_the_log_is_no_controllers(code: ErrorCode) -> None:
    """KIP-919: that of a broker was named; it was asked for a minute."""
    found = session(is_controller=True)
    cluster = Cluster(found, lambda _: Answered(response=fetched(code, is_hinted=False), version=17))
    with pytest.raises(OperatorError, match="one:9092 is the listener of a broker"):
        cluster.hold(MetadataLogReader().fetch_committed(found, 0, 0))
    assert len(cluster.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        fetch.FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        fetch.FetchResponse(),
        fetched(diverging_epoch=fetch.EpochEndOffset(epoch=3, end_offset=9)),
    ],
    ids=["refused", "for nothing", "another history"],
)
def test_what_no_trying_again_would_mend_is_an_error(answer: fetch.FetchResponse) -> None:
    """B78."""
    found = session(is_controller=True)
    with pytest.raises(PeerError):
        Cluster(found, lambda _: Answered(response=answer, version=17)).hold(
            MetadataLogReader().fetch_committed(found, 10, 4)
        )
