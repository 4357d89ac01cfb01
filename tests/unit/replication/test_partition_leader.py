"""Which records are committed, and who is let in and out of the ISR?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.replication.leader import LeaderTerms, PartitionLeader, ProposeIsr
from tests.support.fake_log import CountingLog

LAG_MS = 1000


def terms(*isr: int, replicas: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 0) -> LeaderTerms:
    """Terms of leader epoch 5."""
    return LeaderTerms(leader_epoch=5, partition_epoch=partition_epoch, replicas=replicas, isr=isr)


def leader(log: CountingLog, given: LeaderTerms, *, min_insync_replicas: int = 1) -> PartitionLeader:
    """Broker 1 leads, since time 0."""
    return PartitionLeader(
        broker_id=1,
        log=log.as_port(),
        terms=given,
        now_ms=0,
        lag_time_max_ms=LAG_MS,
        min_insync_replicas=min_insync_replicas,
    )


def fetched(machine: PartitionLeader, broker_id: int, offset: int, *, now_ms: int = 1, broker_epoch: int = 7) -> bool:
    """A follower's fetch; then the high watermark is looked at."""
    accepted = machine.follower_fetched(
        broker_id, broker_epoch=broker_epoch, fetch_offset=offset, log_start_offset=0, now_ms=now_ms
    )
    machine.advance()
    return accepted is not None


def test_a_sole_replica_commits_what_it_writes() -> None:
    log = CountingLog()
    machine = leader(log, terms(1, replicas=(1,)))
    log.grow(3)
    assert machine.is_alone
    assert machine.advance()
    assert not machine.advance()
    assert log.high_watermark == 3
    assert log.epochs == [(5, 0)]


def test_high_watermark_waits_for_the_slowest_in_sync_replica() -> None:
    """S3-81, S3-105, P6: only what the whole ISR holds is committed."""
    log = CountingLog()
    machine = leader(log, terms(1, 2, 3))
    log.grow(10)
    fetched(machine, 2, 10)
    assert log.high_watermark == 0
    fetched(machine, 3, 8)
    assert log.high_watermark == 8
    fetched(machine, 3, 10)
    assert log.high_watermark == 10


def test_a_leader_knows_of_each_follower_what_its_fetches_said() -> None:
    """S3-21, KIP-16, KIP-903: where its log begins and ends, its incarnation, when it asked last, and when it last had everything; of itself only the log."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2, 3))
    assert sorted(machine.followers) == [2, 3]
    silent = machine.followers[3]
    assert (silent.broker_epoch, silent.log_end_offset, silent.log_start_offset) == (-1, -1, -1)
    for offset, now_ms in ((7, 20), (10, 30), (10, 40)):
        machine.follower_fetched(2, broker_epoch=7, fetch_offset=offset, log_start_offset=3, now_ms=now_ms)
    known = machine.followers[2]
    assert (known.broker_id, known.broker_epoch, known.log_start_offset, known.log_end_offset) == (2, 7, 3, 10)
    assert (known.fetched_ms, known.caught_up_ms) == (40, 40)
    log.grow(5)
    machine.follower_fetched(2, broker_epoch=7, fetch_offset=12, log_start_offset=3, now_ms=50)
    assert (known.fetched_ms, known.caught_up_ms, known.log_end_offset) == (50, 40, 12)
    machine.follower_fetched(2, broker_epoch=7, fetch_offset=15, log_start_offset=3, now_ms=60)
    assert (known.fetched_ms, known.caught_up_ms) == (60, 60)


def test_high_watermark_never_goes_back() -> None:
    """S3-84: a follower that asks for less changes nothing."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2))
    fetched(machine, 2, 10)
    fetched(machine, 2, 4)
    assert log.high_watermark == 10


def test_high_watermark_stands_still_below_min_insync_replicas() -> None:
    """P6, S3-88: with fewer than m members nothing more is committed."""
    log = CountingLog()
    machine = leader(log, terms(1), min_insync_replicas=2)
    log.grow(4)
    assert not machine.advance()
    assert not machine.has_enough_replicas
    assert machine.set_min_insync_replicas(1)
    assert log.high_watermark == 4


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    machine = leader(CountingLog(), terms(1, replicas=(1,)), min_insync_replicas=3)
    assert machine.effective_min_isr == 1
    assert machine.has_enough_replicas


def test_a_caught_up_follower_is_proposed_once() -> None:
    """S3-86, P9: one proposal at a time."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 9)
    assert machine.propose_join(2, is_eligible=lambda *_: True) is None
    fetched(machine, 2, 10)
    proposal = machine.propose_join(2, is_eligible=lambda *_: True)
    assert proposal == ProposeIsr(leader_epoch=5, partition_epoch=0, isr=((1, -1), (2, 7)), growth=1)
    fetched(machine, 3, 10)
    assert machine.propose_join(3, is_eligible=lambda *_: True) is None


def test_a_follower_below_the_epoch_start_is_not_proposed() -> None:
    """P8, K18: the high watermark may still be behind the start of the leader's epoch."""
    log = CountingLog(end=10, high_watermark=4)
    machine = leader(log, terms(1, 3))
    fetched(machine, 2, 6)
    assert machine.propose_join(2, is_eligible=lambda *_: True) is None


def test_a_fenced_or_older_incarnation_is_not_proposed() -> None:
    """P8, K19: KIP-841 and KIP-903."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10, broker_epoch=7)
    assert machine.propose_join(2, is_eligible=lambda broker, epoch: epoch == 8) is None
    assert not fetched(machine, 2, 3, broker_epoch=6)
    assert machine.followers[2].log_end_offset == 10


def test_the_high_watermark_waits_for_a_proposed_member() -> None:
    """K17, S3-81: the maximal ISR counts, also before the answer."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10)
    assert machine.propose_join(2, is_eligible=lambda *_: True) is not None
    log.grow(5)
    assert not machine.advance()
    fetched(machine, 2, 15)
    assert log.high_watermark == 15


def test_all_laggards_leave_together_and_count_until_that_is_confirmed() -> None:
    """S3-82, S3-83: the old ISR counts until the controller has stored the new one (K22: then it moves)."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2, 3))
    log.grow(5)
    assert machine.propose_shrink(LAG_MS) is None
    proposal = machine.propose_shrink(LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == ((1, -1),)
    assert not machine.advance()
    machine.isr_answered(proposal, ErrorCode.NONE, terms(1, partition_epoch=1), now_ms=LAG_MS + 2)
    assert log.high_watermark == 15


def test_a_follower_that_keeps_up_under_load_is_in_sync_though_never_at_the_end() -> None:
    """S3-25, KIP-16: each of its fetches has all that the leader had at the one before; one that falls behind for longer than the lag time goes."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2))
    now_ms, had = 0, log.log_end_offset
    for _ in range(10):
        now_ms += LAG_MS // 2
        log.grow(5)
        fetched(machine, 2, had, now_ms=now_ms)
        had = log.log_end_offset
        log.grow(5)
        assert machine.propose_shrink(now_ms + 1) is None
    for late_ms in (LAG_MS // 2, LAG_MS, 2 * LAG_MS):
        fetched(machine, 2, had - 1, now_ms=now_ms + late_ms)
    assert machine.propose_shrink(now_ms + 2 * LAG_MS) is not None


def test_nobody_is_proposed_to_leave_while_another_change_is_under_way() -> None:
    """P9, S3-82: one proposal at a time, whichever way; when that is answered the laggard goes."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 3))
    fetched(machine, 3, 10)
    fetched(machine, 2, 10)
    proposal = machine.propose_join(2, is_eligible=lambda *_: True)
    assert proposal is not None
    log.grow(1)
    late_ms = LAG_MS + 2
    assert machine.propose_shrink(late_ms) is None
    assert machine.proposal is proposal
    taken = terms(1, 3, 2, partition_epoch=1)
    machine.isr_answered(proposal, ErrorCode.NONE, taken, now_ms=late_ms)
    fetched(machine, 2, 11, now_ms=late_ms)
    leaving = machine.propose_shrink(late_ms)
    assert leaving is not None
    assert [member for member, _ in leaving.isr] == [1, 2]


def test_a_follower_at_the_log_end_does_not_lag() -> None:
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2))
    fetched(machine, 2, 10, now_ms=5)
    assert machine.propose_shrink(100 * LAG_MS) is None


@pytest.mark.parametrize("refusal", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refused_proposal_is_dropped_and_a_failed_one_repeated(refusal: ErrorCode) -> None:
    """P5: what may have been stored stays pending; who is refused is not waited for."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10)
    proposal = machine.propose_join(2, is_eligible=lambda *_: True)
    assert proposal is not None
    log.grow(5)
    assert machine.isr_answered(proposal, ErrorCode.REQUEST_TIMED_OUT, None, now_ms=3) == proposal
    assert not machine.advance()
    assert machine.isr_answered(proposal, refusal, None, now_ms=4) is None
    assert machine.proposal is None
    assert log.high_watermark == 15


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_proposal_that_may_have_been_taken_counts_until_newer_terms_come(error: ErrorCode) -> None:
    """P5, S3-81, K17, KAFKA-14504: with NEW_LEADER_ELECTED the member that joined leads already, so what it has not got is not committed."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10)
    proposal = machine.propose_join(2, is_eligible=lambda *_: True)
    assert proposal is not None
    log.grow(5)
    assert machine.isr_answered(proposal, error, None, now_ms=3) is None
    assert machine.proposal is proposal
    assert not machine.advance()
    assert log.high_watermark == 10
    machine.update(terms(1, partition_epoch=1), now_ms=4)
    assert log.high_watermark == 15


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.REQUEST_TIMED_OUT])
def test_an_answer_to_an_older_proposal_leaves_the_present_one_pending(error: ErrorCode) -> None:
    """P9, P5, S3-81: metadata told the outcome before the answer came, and the next proposal was on its way by then."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10)
    first = machine.propose_join(2, is_eligible=lambda *_: True)
    assert first is not None
    machine.update(terms(1, 2, partition_epoch=1), now_ms=2)
    fetched(machine, 3, 10)
    second = machine.propose_join(3, is_eligible=lambda *_: True)
    assert second is not None
    answer = terms(1, 2, partition_epoch=1) if error is ErrorCode.NONE else None
    assert machine.isr_answered(first, error, answer, now_ms=3) is None
    assert machine.proposal is second
    log.grow(5)
    fetched(machine, 2, 15)
    assert log.high_watermark == 10
    fetched(machine, 3, 15)
    assert log.high_watermark == 15


def test_an_answer_for_another_epoch_changes_nothing() -> None:
    """P5, K21: the leader that stays got a new epoch with the change; it begins with the metadata."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1))
    fetched(machine, 2, 10)
    proposal = machine.propose_join(2, is_eligible=lambda *_: True)
    assert proposal is not None
    later = LeaderTerms(leader_epoch=6, partition_epoch=1, replicas=(1, 2), isr=(1, 2))
    assert machine.isr_answered(proposal, ErrorCode.NONE, later, now_ms=3) is None
    assert (machine.proposal, machine.isr, machine.partition_epoch) == (proposal, (1,), 0)


def test_an_isr_that_was_right_already_is_confirmed() -> None:
    """P9: nothing was written, and the proposal is over."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2))
    proposal = machine.propose_shrink(LAG_MS + 1)
    assert proposal is not None
    assert machine.isr_answered(proposal, ErrorCode.NONE, terms(1), now_ms=3) is None
    assert (machine.proposal, machine.is_alone, log.high_watermark) == (None, True, 10)


def test_newer_terms_void_a_proposal_and_older_ones_are_ignored() -> None:
    """P9, K21."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, partition_epoch=3))
    fetched(machine, 2, 10)
    assert machine.propose_join(2, is_eligible=lambda *_: True) is not None
    machine.update(terms(1, 2, partition_epoch=2), now_ms=5)
    assert 2 not in machine.isr
    machine.update(terms(1, 2, partition_epoch=4), now_ms=6)
    assert 2 in machine.isr
    assert machine.proposal is None


def test_a_write_is_answered_when_committed() -> None:
    """P10, S3-85, S3-88: told when the ISR became too small after the append."""
    log = CountingLog()
    machine = leader(log, terms(1, 2), min_insync_replicas=2)
    log.grow(3)
    assert machine.committed(3) is None
    fetched(machine, 2, 3)
    assert machine.committed(3) is ErrorCode.NONE
    machine.update(terms(1, partition_epoch=1), now_ms=2)
    assert machine.committed(3) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_stranger_is_not_a_follower() -> None:
    """K47: a replica id that is not a replica of the partition changes nothing."""
    log = CountingLog(end=10)
    machine = leader(log, terms(1, 2))
    assert not fetched(machine, 9, 10)
    assert log.high_watermark == 0
