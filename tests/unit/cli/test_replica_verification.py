"""What does the comparison of replicas find, and how far does it get?"""

from __future__ import annotations

from headrace.cli.replica_verification import Compared, Progress, report
from headrace.client.replica_fetch import BatchSum, ReplicaRead
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition

T0 = TopicPartition("t", 0)


def read(*batches: tuple[int, int, int], high_watermark: int, log_start_offset: int = 0) -> ReplicaRead:
    """(base offset, last offset, CRC) of each batch."""
    sums = tuple(BatchSum(base_offset=base, last_offset=last, crc=crc) for base, last, crc in batches)
    return ReplicaRead(batches=sums, high_watermark=high_watermark, log_start_offset=log_start_offset)


def compared(position: int = 0) -> Compared:
    return Compared(where=T0, replicas=(1, 2), position=position)


def test_what_all_have_is_compared_and_the_rest_is_lag() -> None:
    """B-T12: up to the high watermark that each replica knows; the next round goes on there."""
    part = compared()
    first = read((0, 4, 11), (5, 9, 12), (10, 12, 13), high_watermark=13)
    assert part.take({1: first, 2: read((0, 4, 11), (5, 9, 12), high_watermark=9)}) == []
    assert (part.position, part.lag) == (5, 8)
    assert part.take({1: read((5, 9, 12), high_watermark=13), 2: read((5, 9, 12), high_watermark=13)}) == []
    assert (part.position, part.lag) == (10, 3)


def test_another_checksum_and_another_offset_are_told_apart() -> None:
    """B-T12: Kafka's words; a difference of offsets ends the comparison of these batches."""
    part = compared()
    ours = read((0, 4, 11), (5, 9, 12), (10, 12, 13), high_watermark=13)
    theirs = read((0, 4, 99), (5, 8, 12), (9, 12, 13), high_watermark=13)
    assert part.take({1: ours, 2: theirs}) == [
        "partition t-0 has unmatched checksum at offset 4; replica 1's checksum 11; replica 2's checksum 99",
        "partition t-0: replica 1's offset 9 doesn't match replica 2's offset 8",
    ]
    assert part.position == 10


def test_records_that_one_replica_has_deleted_are_passed_over() -> None:
    """The log of one begins later."""
    part = compared()
    assert part.take({1: read((0, 4, 11), high_watermark=9), 2: read(high_watermark=9, log_start_offset=5)}) == []
    assert part.position == 5


def test_a_replica_that_cannot_be_read_holds_the_comparison_up() -> None:
    """And is named where the lag is told."""
    part = compared()
    error = PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker does not run")
    assert part.take({1: read((0, 4, 11), high_watermark=5), 2: error}) == []
    assert (part.position, part.lag) == (0, 5)
    told: list[str] = []
    report([part, Compared(where=TopicPartition("t", 1), replicas=(1,), position=7, highest=7)], told.append)
    assert told == [
        "max lag is 5 for partition t-0 at offset 0 among 2 partitions",
        "partition t-0: replica 2 cannot be read: the broker does not run",
    ]


def test_a_replica_that_is_behind_is_waited_for_and_one_that_is_away_is_not() -> None:
    """B-T12: a follower hears of the high watermark with its next fetch; four rounds of a short `--max-wait-ms` may be over before."""
    behind, away = compared(), compared()
    behind.goal = away.goal = 5
    behind.take({1: read((0, 4, 11), high_watermark=5), 2: read((0, 4, 11), high_watermark=0)})
    away.take(
        {1: read((0, 4, 11), high_watermark=5), 2: PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker does not run")}
    )
    patient, quick = Progress(100.0), Progress(100.0)
    assert [patient.is_over(101.0, [behind, away]) for _ in range(9)] == [False] * 9
    assert [quick.is_over(101.0, [away]) for _ in range(5)] == [False] * 4 + [True]
    patient.went_on(125.0)
    assert [patient.is_over(154.0, [behind]) for _ in range(9)] == [False] * 9
    assert patient.is_over(155.0, [behind])
