"""Made-up logs: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import Destination
from headrace.raft.events import RaftResponseArrived, SendRaftRequest
from headrace.raft.roles import Follower, Leader, Unattached
from headrace.sim.checkers.high_watermarks import HighWatermarks
from headrace.sim.checkers.logs import GhostLog
from headrace.sim.checkers.replication import Replication
from headrace.sim.observation import (
    LogAppended,
    LogDurable,
    LogReset,
    LogTruncated,
    MachineStep,
    RequestSent,
    SnapshotAppeared,
)
from headrace.wire.messages import fetch, vote
from tests.support.histories import Story, breaks, leader_change, records_batch

SECRET = b"x"


def _fetch(epoch: int, offset: int) -> fetch.FetchRequest:
    part = fetch.FetchPartition(current_leader_epoch=epoch, fetch_offset=offset)
    return fetch.FetchRequest(topics=(fetch.FetchTopic(partitions=(part,)),))


def _asks(story: Story, node_id: int, epoch: int, correlation: int = 1) -> None:
    """The node sends a fetch."""
    request = _fetch(epoch, story.ghost.lives[node_id].disk.log.durable)
    effect = SendRaftRequest(correlation=correlation, to=Destination(1, "h", 1), request=request, timeout_ms=1)
    story.step(node_id, machines=[MachineStep("raft", None, [effect])])


def _hears(story: Story, node_id: int, *changes: LogAppended | LogTruncated | LogReset, correlation: int = 1) -> None:
    """An answer comes, and what it brings is done to the log."""
    event = RaftResponseArrived(correlation=correlation, response=fetch.FetchResponse(), now_ms=0)
    story.step(node_id, *changes, machines=[MachineStep("raft", event, [])])


def _story() -> Story:
    return Story(Replication)


# R5


def test_a_leader_that_truncates_is_flagged() -> None:
    """inv:R5."""
    story = _story()
    story.lead(1, 1)
    story.step(1, records_batch(1, 1, SECRET))
    with breaks("R5"):
        story.step(1, LogTruncated(1))


def test_a_leader_that_appends_in_another_epoch_is_flagged() -> None:
    """inv:R5."""
    story = _story()
    story.lead(1, 2)
    with breaks("R5"):
        story.step(1, records_batch(1, 1, SECRET))


def test_a_former_leader_may_truncate_what_is_not_committed() -> None:
    """inv:R5."""
    story = _story()
    story.lead(1, 1)
    story.step(1, records_batch(1, 1, SECRET))
    story.follow(1, 2, 2)
    story.step(1, LogTruncated(1))


# R6, R13


def test_one_name_for_two_batches_is_flagged() -> None:
    """inv:R13."""
    story = _story()
    story.lead(1, 1)
    story.step(1, records_batch(1, 1, b"one"))
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    _hears(story, 2, leader_change(0, 1))
    _asks(story, 2, 1)
    with breaks("R13"):
        _hears(story, 2, records_batch(1, 1, b"two"))


def test_logs_that_agree_at_an_offset_and_differ_before_are_flagged() -> None:
    """inv:R6: the batch is the same, what lies below is not."""
    story = _story()
    story.start(1, leader_change(0, 1), records_batch(1, 1, b"a"), leader_change(2, 3))
    with breaks("R6"):
        story.start(2, leader_change(0, 1), records_batch(1, 2, b"b"), leader_change(2, 3))


def test_logs_that_differ_and_never_agree_again_are_fine() -> None:
    """inv:R6."""
    story = _story()
    story.start(1, leader_change(0, 1), records_batch(1, 1, b"a"))
    story.start(2, leader_change(0, 1), leader_change(1, 2), records_batch(2, 2, b"b"))


# R11


def test_a_truncation_below_the_high_watermark_is_flagged() -> None:
    """inv:R11, defect:K8."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET))
    story.step(2, high_watermark=2)
    with breaks("R11"):
        story.step(2, LogTruncated(1))


def test_a_truncation_to_the_high_watermark_is_fine() -> None:
    """inv:R11."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET))
    story.step(2, high_watermark=1)
    story.step(2, LogTruncated(1))


def test_a_truncation_below_the_newest_snapshot_is_flagged() -> None:
    """inv:R11."""
    story = _story()
    snapshot = SnapshotAppeared(OffsetAndEpoch(2, 1), is_durable=True, data=b"")
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET), records_batch(2, 1, SECRET), more=[snapshot])
    story.step(2, LogTruncated(2))
    with breaks("R11"):
        story.step(2, LogTruncated(1))


def test_a_log_that_begins_anew_below_the_high_watermark_is_flagged() -> None:
    """inv:R11."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET))
    story.step(2, high_watermark=2)
    with breaks("R11"):
        story.step(2, LogReset(1))


# P11


class _Table:
    """A log, of which the checkers read the last epoch only."""

    def __init__(self, latest_epoch: int) -> None:
        self.latest_epoch = latest_epoch


def test_an_epoch_that_stays_in_the_table_after_a_cut_is_flagged() -> None:
    """inv:P11, defect:K13: the log is cut to where that epoch began."""
    for knows, is_wrong in ((1, False), (2, True)):
        story = _story()
        node = story.start(2, leader_change(0, 1), leader_change(1, 2))
        node.log = _Table(knows)
        if is_wrong:
            with breaks("P11"):
                story.step(2, LogTruncated(1))
        else:
            story.step(2, LogTruncated(1))


# R12


def test_a_voter_that_fetches_beyond_its_disk_is_flagged() -> None:
    """inv:R12, defect:K2, defect:K7."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    _hears(story, 2, leader_change(0, 1))
    with breaks("R12"):
        story.step(2, RequestSent(1, _fetch(1, 1), 2))


def test_a_voter_that_fetches_what_it_has_on_disk_is_fine() -> None:
    """inv:R12: also from below."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    _hears(story, 2, leader_change(0, 1))
    story.step(2, RequestSent(1, _fetch(1, 0), 2))
    story.step(2, LogDurable(1))
    story.step(2, RequestSent(1, _fetch(1, 1), 3))


def _vote(last_offset: int, *, pre_vote: bool = False) -> vote.VoteRequest:
    part = vote.RequestPartitionData(
        replica_epoch=2, replica_id=2, last_offset=last_offset, last_offset_epoch=1, pre_vote=pre_vote
    )
    return vote.VoteRequest(topics=(vote.RequestTopicData(partitions=(part,)),))


def test_a_candidate_whose_log_is_not_on_disk_is_flagged() -> None:
    """inv:R12, inv:R7: who voted for it does so again after a power cut, whatever it holds by then."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    _hears(story, 2, leader_change(0, 1))
    story.step(2, RequestSent(3, _vote(1, pre_vote=True), 2))
    with breaks("R12"):
        story.step(2, RequestSent(3, _vote(1), 3))


def test_a_candidate_whose_log_is_on_disk_is_fine() -> None:
    """inv:R12: and a pre-vote binds nobody."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    _hears(story, 2, leader_change(0, 1))
    story.step(2, LogDurable(1))
    story.step(2, RequestSent(3, _vote(1), 2))


def test_a_broker_may_fetch_what_it_has_not_synced() -> None:
    """inv:R12: it never votes."""
    story = Story(Replication, up=(1, 2, 3, 10))
    story.follow(10, 1, 1)
    _asks(story, 10, 1)
    _hears(story, 10, leader_change(0, 1))
    story.step(10, RequestSent(1, _fetch(1, 1), 2))


def test_more_on_disk_than_there_is_is_flagged() -> None:
    """inv:R12: the leader counts its own log up to its durable end."""
    story = _story()
    with breaks("R12"):
        story.step(1, LogDurable(5))


# R20


def test_a_batch_that_is_damaged_is_flagged() -> None:
    """inv:R20."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    good = leader_change(0, 1)
    data = bytearray(good.data)
    data[-1] ^= 1
    with breaks("R20"):
        _hears(story, 2, good._replace(data=bytes(data)))


def test_a_batch_behind_a_gap_is_flagged() -> None:
    """inv:R20."""
    story = _story()
    story.start(2, leader_change(0, 1), role=Unattached(epoch=1))
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    with breaks("R20"):
        _hears(story, 2, records_batch(2, 1, SECRET))


def test_an_answer_that_was_asked_for_in_an_older_epoch_is_flagged() -> None:
    """inv:R20, defect:K12."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    story.follow(2, 2, 3)
    with breaks("R20"):
        _hears(story, 2, leader_change(0, 1))


@pytest.mark.parametrize("change", [LogTruncated(1), LogReset(3)], ids=["cut", "snapshot"])
def test_a_log_that_such_an_answer_cuts_or_replaces_is_flagged(change: LogTruncated | LogReset) -> None:
    """inv:R20, defect:K12."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET), role=Follower(epoch=1, leader_id=1))
    _asks(story, 2, 1)
    story.follow(2, 2, 3)
    with breaks("R20"):
        _hears(story, 2, change)


def test_a_log_that_an_answer_in_its_epoch_cuts_or_replaces_is_fine() -> None:
    """inv:R20."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET), role=Follower(epoch=2, leader_id=1))
    _asks(story, 2, 2, correlation=1)
    _hears(story, 2, LogTruncated(1), correlation=1)
    _asks(story, 2, 2, correlation=2)
    _hears(story, 2, LogReset(3), correlation=2)


def test_a_batch_of_a_newer_epoch_than_was_asked_in_is_flagged() -> None:
    """inv:R20."""
    story = _story()
    story.follow(2, 1, 1)
    _asks(story, 2, 1)
    with breaks("R20"):
        _hears(story, 2, leader_change(0, 2))


def test_an_append_without_an_answer_is_flagged() -> None:
    """inv:R20."""
    story = _story()
    story.follow(2, 1, 1)
    with breaks("R20"):
        story.step(2, leader_change(0, 1))


def test_an_answer_in_its_epoch_is_fine() -> None:
    """inv:R20: batches of older epochs too."""
    story = _story()
    story.follow(2, 3, 1)
    _asks(story, 2, 3)
    _hears(story, 2, leader_change(0, 1), leader_change(1, 3))


# What was on disk


def test_a_restart_that_misses_synced_batches_is_flagged() -> None:
    """inv:D5: whatever the crash."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET))
    story.crash(2, is_lossy=True)
    with breaks("D5"):
        story.start(2, leader_change(0, 1))


def test_a_restart_that_misses_unsynced_batches_is_fine() -> None:
    """inv:D5."""
    story = _story()
    story.lead(2, 1)
    story.step(2, LogDurable(1))
    story.step(2, records_batch(1, 1, SECRET))
    story.crash(2, is_lossy=True)
    story.start(2, leader_change(0, 1), role=Unattached(epoch=1))


@pytest.mark.parametrize("left", [1, 2])
def test_a_cut_that_was_not_synced_may_be_found_or_not(left: int) -> None:
    """inv:D5: the process ends when the sync of a cut fails; both lengths are what a log may have then."""
    story = _story()
    batches = leader_change(0, 1), records_batch(1, 1, SECRET)
    story.start(2, *batches)
    story.follow(2, 2, 1)
    story.step(2, LogTruncated(1, is_durable=False))
    story.crash(2)
    story.start(2, *batches[:left], role=Unattached(epoch=2))


def test_a_new_disk_may_be_empty() -> None:
    """inv:D5."""
    story = _story()
    story.start(2, leader_change(0, 1))
    story.crash(2, is_disk_lost=True)
    story.start(2)


# Markers


def test_each_kind_of_divergence_is_counted() -> None:
    """Section 6: a follower is truncated with a shorter, a longer, an equally long log, several epochs and an empty one apart."""
    story = _story()
    story.start(1, leader_change(0, 1), leader_change(1, 4), records_batch(2, 4, SECRET))
    story.start(3, leader_change(0, 1), records_batch(1, 2, b"a"), records_batch(2, 2, b"b"), records_batch(3, 2, b"c"))
    story.start(2, leader_change(0, 1), records_batch(1, 2, b"a"))
    story.lead(1, 5)
    story.step(2, LogTruncated(1))
    story.step(3, LogTruncated(2))
    counts = story.markers.counts
    assert counts["follower truncated: shorter log"] == 1
    assert counts["follower truncated: other epoch at the same length"] == 1
    assert counts["follower truncated: several epochs apart"] == 2
    assert counts["follower truncated: an empty epoch in between"] >= 1


def test_a_late_answer_that_only_its_epoch_betrays_is_counted() -> None:
    """Section 6, inv:R20, defect:K12: not an error, not one that the log has outgrown, not one of a node that was asked who leads."""
    records = fetch.PartitionData(records=records_batch(1, 1, SECRET).data)
    diverging = fetch.PartitionData(diverging_epoch=fetch.EpochEndOffset(epoch=0, end_offset=0))
    refused = fetch.PartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, records=b"x")
    for part, leader, grown, counted in (
        (records, 1, False, 1),
        (diverging, 1, False, 1),
        (refused, 1, False, 0),
        (fetch.PartitionData(), 1, False, 0),
        (records, 1, True, 0),
        (records, 4, False, 0),
    ):
        story = _story()
        story.start(2, leader_change(0, 1), role=Follower(epoch=1, leader_id=leader))
        _asks(story, 2, 1)
        story.follow(2, 2, 3)
        if grown:
            _asks(story, 2, 2, correlation=2)
            _hears(story, 2, leader_change(1, 2), correlation=2)
        answer = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(partitions=(part,)),))
        event = RaftResponseArrived(correlation=1, response=answer, now_ms=0)
        story.step(2, machines=[MachineStep("raft", event, [])])
        assert story.markers.counts.get("late fetch answer of an older epoch dropped", 0) == counted


def test_a_snapshot_over_a_longer_log_is_counted() -> None:
    """Section 6."""
    story = _story()
    story.start(2, leader_change(0, 1), records_batch(1, 1, SECRET), records_batch(2, 1, SECRET))
    story.step(2, LogReset(2))
    assert story.markers.counts["snapshot installed over a longer stale log"] == 1


# The ghost log itself


def test_a_ghost_log_knows_how_far_it_equals_another() -> None:
    """Chains: equal up to the first difference, found from the end."""
    one, other = GhostLog(), GhostLog()
    for log in (one, other):
        log.append(leader_change(0, 1))
        log.append(records_batch(1, 1, b"a", b"b"))
    one.append(leader_change(3, 2))
    other.append(leader_change(3, 3))
    assert one.matches(other, below=one.end) == 3
    assert one.matches(other, below=2) == 1
    assert (one.epoch_below(3), one.epoch_below(4), one.epoch_below(5)) == (1, 2, None)
    one.truncate(3)
    assert one.end == 3
    one.drop_below(1)
    assert (one.start, one.bases, one.matches(other, below=3)) == (1, [1], 3)


def test_a_leader_of_another_epoch_does_not_count_as_this_one() -> None:
    """inv:R16: a snapshot may not replace the log of a leader."""
    story = Story(Replication, HighWatermarks)
    story.step(1, role=Leader(epoch=1, epoch_start_offset=0, granting_voters=(1, 2)))
    with breaks("R16"):
        story.step(1, LogReset(0))
    story = Story(Replication, HighWatermarks)
    story.step(1, role=Follower(epoch=1, leader_id=2))
    story.step(1, LogReset(0))
