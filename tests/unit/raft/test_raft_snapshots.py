"""The content of snapshot files, what goes when, and the voters that a node finds on its own disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.events import RecordsOffered, SnapshotCreated
from headrace.raft.history import NOT_IN_LOG, VoterHistory, VotersAt, read_history
from headrace.raft.snapshots import (
    StoredSnapshot,
    build_snapshot,
    is_snapshot_due,
    log_start_after_cleaning,
    read_snapshot,
)
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet, decode_voters, encode_voters
from headrace.records.record import read_all_records
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CONFIG, DIRECTORY_ID, OTHER_DIRECTORY_ID, STATIC, RaftBench

DYNAMIC = VoterSet(
    voters=(Voter(voter_id=1, directory_id=DIRECTORY_ID, end_points=(VoterEndPoint("CONTROLLER", "h", 9093),)),),
    kraft_version=1,
)


def snapshot(*records: bytes, at: OffsetAndEpoch = OffsetAndEpoch(9, 2), voters: VoterSet | None = None) -> bytes:  # noqa: B008
    """The bytes of a snapshot file."""
    batches = build_snapshot(records, snapshot_id=at, last_contained_log_timestamp=77, now_ms=88, voters=voters)
    return b"".join(bytes(batch) for batch in batches)


def test_a_snapshot_has_a_header_records_and_a_footer() -> None:
    """B-S03: three kinds of batches with offsets from 0 on, in the snapshot's epoch."""
    batches = list(read_all_records(snapshot(b"a", b"b")))
    assert [(header.base_offset, header.is_control, header.leader_epoch) for header, _ in batches] == [
        (0, True, 2),
        (1, False, 2),
        (3, True, 2),
    ]


@given(st.lists(st.binary(max_size=40), max_size=40), st.booleans())
def test_what_is_written_is_read(records: list[bytes], has_voters: bool) -> None:
    """B-S03: records, time and voters come back."""
    voters = DYNAMIC if has_voters else None
    found = read_snapshot(snapshot(*records, voters=voters), name="s")
    assert found.records == tuple(records)
    assert found.last_contained_log_timestamp == 77
    assert found.voters == voters
    assert found.kraft_version == (1 if has_voters else 0)


def test_many_records_make_many_batches() -> None:
    """A batch is bounded in records and bytes."""
    data = snapshot(*[b"x"] * 2_500, b"y" * 2_000_000, b"z")
    sizes = [len(records) for header, records in read_all_records(data) if not header.is_control]
    assert sizes == [1_024, 1_024, 452, 1, 1]


def test_static_voters_are_not_written() -> None:
    """KIP-853: only kraft.version 1 has voters in the log."""
    assert read_snapshot(snapshot(voters=STATIC), name="s").voters is None


def test_every_cut_is_refused() -> None:
    """B-S11, input:B77: a snapshot cut at any byte."""
    data = snapshot(b"a", b"b")
    for end in range(len(data)):
        with pytest.raises(StorageFault, match="snapshot s"):
            read_snapshot(data[:end], name="s")


def test_every_changed_byte_of_a_batch_is_refused_or_harmless() -> None:
    """B-S11: a flipped byte is found by the CRC; base offset and epoch are outside of it and do not matter here."""
    data = snapshot(b"a", b"b")
    whole = read_snapshot(data, name="s")
    for position in range(len(data)):
        spoiled = bytearray(data)
        spoiled[position] ^= 0x41
        try:
            assert read_snapshot(bytes(spoiled), name="s") == whole
        except StorageFault:
            continue


def test_records_behind_the_footer_or_before_the_header_are_refused() -> None:
    """B-S11."""
    with pytest.raises(StorageFault, match="behind its footer"):
        read_snapshot(snapshot(b"a") + snapshot(b"b"), name="s")
    header = next(read_all_records(snapshot(b"a")))[0]
    with pytest.raises(StorageFault, match="does not begin with a header"):
        read_snapshot(snapshot(b"a")[header.size :], name="s")


def test_when_a_snapshot_is_due() -> None:
    """B-S01: by bytes, or by time when there is something new; 0 = never by time."""

    def due(new_bytes: int, ms: int, *, is_new: bool = True, max_ms: int = 100) -> bool:
        return is_snapshot_due(
            bytes_since=new_bytes, max_bytes=1_000, ms_since=ms, max_ms=max_ms, has_new_records=is_new
        )

    assert due(1_000, 0)
    assert not due(999, 99)
    assert due(0, 100)
    assert not due(0, 100, is_new=False)
    assert not due(0, 10_000, max_ms=0)


def stored(offset: int, size: int = 10, mtime_ms: int = 0) -> StoredSnapshot:
    """A snapshot on disk."""
    return StoredSnapshot(snapshot_id=OffsetAndEpoch(offset, 1), size=size, mtime_ms=mtime_ms)


def test_the_log_is_cut_only_below_a_snapshot_that_stays() -> None:
    """B-S04: size, age and their soft limits."""

    def cut(
        snapshots: list[StoredSnapshot], *, log_size: int = 100, max_bytes: int = -1, max_ms: int = -1
    ) -> int | None:
        return log_start_after_cleaning(snapshots, log_size=log_size, max_bytes=max_bytes, max_ms=max_ms)

    three = [stored(10), stored(20), stored(30, mtime_ms=990)]
    assert cut(three) is None
    assert cut(three, max_bytes=130) is None
    assert cut(three, max_bytes=125) == 20
    assert cut(three, max_bytes=1) == 30
    assert cut(three, max_ms=500) == 30
    assert cut(three[:1], max_bytes=1, max_ms=1) is None
    assert cut([], max_bytes=1) is None


@pytest.mark.parametrize("began_ms", [0, 1_000, 10**13])
def test_the_age_of_a_snapshot_is_told_by_files_times_alone(began_ms: int) -> None:
    """B-S04: a process that was started with a wrong clock neither keeps snapshots for ever nor drops fresh ones."""
    bench = RaftBench(retention_ms=500, retention_bytes=-1)
    bench.now_ms = began_ms
    bench.start()
    bench.run(RecordsOffered(records=(b"a", b"b", b"c"), base_offset=1, epoch=1, now_ms=began_ms))
    day = 1_790_000_000_000
    for end, written_ms in ((1, day), (4, day + 400)):
        bench.snapshots.put(OffsetAndEpoch(end, 1), b"s", mtime_ms=written_ms)
        bench.step(SnapshotCreated(end_offset=end, epoch=1, now_ms=began_ms))
    assert bench.snapshots.ids() == [OffsetAndEpoch(1, 1), OffsetAndEpoch(4, 1)]
    bench.run(RecordsOffered(records=(b"d",), base_offset=4, epoch=1, now_ms=began_ms))
    bench.snapshots.put(OffsetAndEpoch(5, 1), b"s", mtime_ms=day + 501)
    bench.step(SnapshotCreated(end_offset=5, epoch=1, now_ms=began_ms))
    assert bench.snapshots.ids() == [OffsetAndEpoch(4, 1), OffsetAndEpoch(5, 1)]


def test_voters_are_read_back() -> None:
    """KIP-853: the VotersRecord."""
    assert decode_voters(encode_voters(DYNAMIC)) == DYNAMIC
    assert DYNAMIC.is_voter(1, DIRECTORY_ID)
    assert not DYNAMIC.is_voter(1, OTHER_DIRECTORY_ID)
    assert not DYNAMIC.is_voter(2, DIRECTORY_ID)
    assert STATIC.is_voter(1, OTHER_DIRECTORY_ID)


def test_where_the_voters_of_a_node_come_from() -> None:
    """S4-02, S4-25, S4-26, B-S10: configured, else the 0-0 snapshot, else the log, which is newer; a new node knows nobody."""
    log, snapshots = MemoryLog(), MemorySnapshots()

    def latest(static: VoterSet) -> VotersAt:
        return read_history(log.as_port(), snapshots, static).latest

    assert latest(VoterSet()) == (NOT_IN_LOG, VoterSet())
    assert latest(STATIC) == (NOT_IN_LOG, STATIC)
    snapshots.put(OffsetAndEpoch(0, 0), snapshot(at=OffsetAndEpoch(0, 0), voters=DYNAMIC))
    assert latest(STATIC) == (NOT_IN_LOG, DYNAMIC)
    bench = RaftBench(log=log, snapshots=snapshots, voters=VoterSet())
    bench.start()
    at_home = DYNAMIC.with_voter(replace(DYNAMIC.voters[0], end_points=CONFIG.end_points))
    assert latest(STATIC) == (2, at_home)  # S4-15: a leader writes its own address
    snapshots.put(OffsetAndEpoch(3, 1), snapshot(at=OffsetAndEpoch(3, 1), voters=DYNAMIC))
    assert latest(VoterSet()) == (2, DYNAMIC)


def history(*named: tuple[int, VoterSet]) -> VoterHistory:
    """Static voters, then what records name."""
    found = VoterHistory(STATIC)
    for offset, voters in named:
        found.named(offset, voters)
    return found


OTHER = DYNAMIC.with_voter(Voter(voter_id=2, directory_id=OTHER_DIRECTORY_ID))


def test_a_truncation_takes_voters_back() -> None:
    """B-R24, inv:R17: voters that an uncommitted record named are in force, and are not any more once it is cut."""
    found = history((2, DYNAMIC), (9, OTHER))
    assert found.latest == (9, OTHER)
    assert found.uncommitted(9) == (9, OTHER)
    assert found.uncommitted(10) is None
    assert not found.truncated(10)
    assert found.truncated(9)
    assert found.latest == (2, DYNAMIC)
    assert found.truncated(0)
    assert found.latest == (NOT_IN_LOG, STATIC)
    assert not found.truncated(0)


def test_the_voters_of_an_offset_are_those_named_below_it() -> None:
    """KIP-853, inv:R15: a snapshot that ends at an offset carries the voters of the records below."""
    found = history((2, DYNAMIC), (9, OTHER))
    assert [found.at(end) for end in (0, 2, 3, 9, 10)] == [STATIC, STATIC, DYNAMIC, DYNAMIC, OTHER]
    found.forget_below(5)
    assert found.at(5) == DYNAMIC
    found.loaded(OffsetAndEpoch(9, 1), DYNAMIC)
    assert (found.at(9), found.latest) == (DYNAMIC, (8, DYNAMIC))
    found.loaded(OffsetAndEpoch(20, 1), OTHER)
    assert found.latest == (19, OTHER)
    found.loaded(OffsetAndEpoch(30, 1), None)
    assert found.latest == (NOT_IN_LOG, STATIC)


def test_one_replica_at_a_time() -> None:
    """inv:R17: sets differ by one (id, directory id); the same id on another disk is another replica."""
    moved = DYNAMIC.with_voter(Voter(voter_id=1, directory_id=OTHER_DIRECTORY_ID))
    assert DYNAMIC.differs_by_one(OTHER)
    assert OTHER.differs_by_one(DYNAMIC)
    assert DYNAMIC.differs_by_one(DYNAMIC)
    assert not DYNAMIC.differs_by_one(moved)
    assert not OTHER.without(1).differs_by_one(DYNAMIC)
