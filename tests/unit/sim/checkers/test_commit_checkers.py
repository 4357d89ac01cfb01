"""Made-up commits, snapshots, voters and misaddressed requests: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

import pytest

from headrace.core.ids import ZERO_UUID
from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.image import EMPTY_IMAGE
from headrace.metadata.snapshot import snapshot_content
from headrace.raft.events import QuorumState, RaftRequestArrived, TimeAdvanced
from headrace.raft.roles import Follower, Leader, Prospective, Unattached
from headrace.raft.snapshots import build_snapshot
from headrace.raft.voters import Voter, VoterSet
from headrace.sim.checkers.high_watermarks import HighWatermarks
from headrace.sim.checkers.misaddressed_requests import MisaddressedRequests
from headrace.sim.checkers.snapshots import Snapshots
from headrace.sim.checkers.voters import CheckQuorum, VoterChanges
from headrace.sim.observation import (
    BatchApplied,
    LogAppended,
    LogDurable,
    LogStartMoved,
    LogTruncated,
    MachineStep,
    QuorumStateDurable,
    Received,
    ResponseSent,
    SnapshotAppeared,
    SnapshotApplied,
    SnapshotRemoved,
)
from headrace.wire.messages import fetch, vote
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.frame import encode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from tests.support.histories import (
    CLUSTER_ID,
    MadeUpRaft,
    Story,
    breaks,
    directory,
    leader_change,
    records_batch,
    voter_set,
    voters_batch,
)

NO_OP = encode_record(NoOpRecord(), 0)


def _story(*groups: type) -> Story:
    """Node 1 leads epoch 1, its first record is committed with node 2."""
    story = Story(*(groups or (HighWatermarks,)))
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.follow(3, 1, 1)
    story.commit(1, leader_change(0, 1))
    return story


def _written(story: Story, base: int = 1) -> LogAppended:
    batch = records_batch(base, 1, NO_OP)
    story.step(1, batch)
    return batch


# R7


def test_a_leader_whose_log_is_too_short_is_flagged() -> None:
    """inv:R7: node 3 has nothing of what is committed."""
    story = _story()
    with breaks("R7"):
        story.lead(3, 2)


def test_a_leader_whose_log_is_another_one_is_flagged() -> None:
    """inv:R7: as long, other epoch."""
    story = _story()
    story.start(3, leader_change(0, 0), role=Unattached(epoch=1))
    with breaks("R7"):
        story.lead(3, 2)


def test_a_leader_with_all_that_is_committed_is_fine() -> None:
    """inv:R7: what is not committed may be missing."""
    story = _story()
    _written(story)
    story.step(1, LogDurable(2))
    story.lead(2, 2)
    assert story.ghost.committed.end == 1


def test_a_leader_that_comes_late_need_not_have_what_a_later_one_committed() -> None:
    """inv:R7: its votes are from before; all that was committed before its epoch it must have."""
    story = _story()
    story.replicate(3, leader_change(0, 1))
    story.lead(2, 3)
    story.step(1, role=Follower(epoch=3, leader_id=2))
    story.commit(2, leader_change(1, 3), followers=(1,))
    assert story.ghost.committed.end == 2
    story.lead(3, 2)
    assert story.markers.counts["leader of an epoch that is over"] == 1


def test_a_leader_commits_in_its_epoch_what_a_majority_held_before_the_next_one() -> None:
    """inv:R8, inv:R9: its own disk is the last of the majority, and it does not know yet that another leads a later epoch."""
    story = _story()
    story.replicate(2, _written(story))
    story.lead(2, 2)
    story.step(1, LogDurable(2), high_watermark=2)
    assert story.ghost.committed.end == 2


# R9


def test_a_high_watermark_above_what_a_majority_has_on_disk_is_flagged() -> None:
    """inv:R9: node 2 has the batch, not on disk."""
    story = _story()
    batch = _written(story)
    story.step(1, LogDurable(2))
    story.step(2, batch)
    with breaks("R9"):
        story.step(1, high_watermark=2)


def test_a_high_watermark_that_a_majority_has_on_disk_is_fine() -> None:
    """inv:R9: the leader's own disk counts only when it is synced."""
    story = _story()
    batch = _written(story)
    story.replicate(2, batch)
    assert story.ghost.committed.end == 1
    story.step(1, LogDurable(2))
    story.step(1, high_watermark=2)


def test_counting_without_a_record_of_the_own_epoch_is_flagged() -> None:
    """inv:R9, defect:K4: the classic "figure 8"."""
    story = Story(HighWatermarks)
    story.lead(1, 1)
    story.crash(1)
    story.start(1, leader_change(0, 1), role=Unattached(epoch=1))
    story.step(1, role=Leader(epoch=3, epoch_start_offset=1, granting_voters=(1, 2)))
    story.follow(2, 3, 1)
    story.replicate(2, leader_change(0, 1))
    with breaks("R9"):
        story.step(1, high_watermark=1)


def test_counting_with_a_record_of_the_own_epoch_is_fine() -> None:
    """inv:R9: then older records come along."""
    story = Story(HighWatermarks)
    story.lead(1, 1)
    story.crash(1)
    story.start(1, leader_change(0, 1), role=Unattached(epoch=1))
    story.lead(1, 3)
    story.follow(2, 3, 1)
    story.replicate(2, leader_change(0, 1), leader_change(1, 3))
    story.step(1, LogDurable(2))
    story.step(1, high_watermark=2)


def test_a_leader_that_counts_itself_and_is_no_voter_is_flagged() -> None:
    """inv:R9, defect:K5: after its removal, the two others must both have it."""
    story = Story(HighWatermarks, voters=voter_set(1, 2, 3, kraft_version=1))
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.follow(3, 1, 1)
    story.commit(1, leader_change(0, 1))
    without = voters_batch(1, 1, voter_set(2, 3, kraft_version=1))
    story.step(1, without)
    story.step(1, LogDurable(2))
    story.replicate(2, without)
    with breaks("R9"):
        story.step(1, high_watermark=2)


def test_a_leader_that_is_no_voter_commits_with_the_others() -> None:
    """inv:R9."""
    story = Story(HighWatermarks, voters=voter_set(1, 2, 3, kraft_version=1))
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.follow(3, 1, 1)
    story.commit(1, leader_change(0, 1), followers=(2, 3))
    without = voters_batch(1, 1, voter_set(2, 3, kraft_version=1))
    story.step(1, without)
    story.replicate(2, without)
    story.replicate(3, without)
    story.step(1, high_watermark=2)


# R10


def test_a_high_watermark_that_falls_is_flagged() -> None:
    """inv:R10: on one run of one node."""
    story = _story()
    story.step(2, high_watermark=1)
    with breaks("R10"):
        story.step(2, high_watermark=0)


def test_a_high_watermark_may_begin_anew_with_the_process() -> None:
    """inv:R10."""
    story = _story()
    story.step(2, high_watermark=1)
    story.crash(2)
    story.start(2, leader_change(0, 1), role=Unattached(epoch=1))
    story.step(2, high_watermark=0)


def test_a_process_that_begins_above_what_is_committed_is_flagged() -> None:
    """inv:R10: what a start finds on the disk counts too."""
    story = _story()
    story.crash(2)
    node = story.node(2)
    raft = MadeUpRaft(voters=story.voters, role=Unattached(epoch=1), high_watermark=2)
    with breaks("R10"):
        story.start(2, leader_change(0, 1), raft=raft)
    assert node.run == 2


def test_a_follower_above_what_is_committed_is_flagged() -> None:
    """inv:R10."""
    story = _story()
    with breaks("R10"):
        story.step(3, high_watermark=2)


def _shows(high_watermark: int, epoch: int) -> ResponseSent:
    part = fetch.PartitionData(
        high_watermark=high_watermark, current_leader=fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=epoch)
    )
    topic = fetch.FetchableTopicResponse(partitions=(part,))
    return ResponseSent(2, fetch.FetchRequest(), fetch.FetchResponse(responses=(topic,)))


def test_a_new_leader_that_shows_an_old_high_watermark_is_flagged() -> None:
    """inv:R10: it knows none until it has committed in its own epoch."""
    story = _story()
    story.lead(2, 2)
    with breaks("R10"):
        story.step(2, _shows(1, 2))


def test_a_new_leader_that_shows_none_is_fine() -> None:
    """inv:R10."""
    story = _story()
    story.lead(2, 2)
    story.step(2, _shows(-1, 2))


# R8


def test_a_batch_applied_out_of_order_is_flagged() -> None:
    """inv:R8: a gap."""
    story = _story()
    batch = _written(story)
    story.commit(1, batch)
    story.step(1, high_watermark=2)
    with breaks("R8"):
        story.step(1, BatchApplied(1, 2, 1, (NO_OP,)))


def test_a_batch_applied_above_the_high_watermark_is_flagged() -> None:
    """inv:R8: though it is committed in truth."""
    story = _story()
    batch = _written(story)
    story.commit(1, batch)
    story.step(1, BatchApplied(0, 1, 1, ()), high_watermark=1)
    with breaks("R8"):
        story.step(1, BatchApplied(1, 2, 1, (NO_OP,)))


def test_another_batch_than_the_committed_one_is_flagged() -> None:
    """inv:R8."""
    story = _story()
    batch = _written(story)
    story.commit(1, batch)
    story.step(1, BatchApplied(0, 1, 1, ()), high_watermark=2)
    with breaks("R8"):
        story.step(1, BatchApplied(1, 2, 1, (NO_OP, NO_OP)))


def test_batches_applied_in_order_are_fine() -> None:
    """inv:R8: and over again after a restart."""
    story = _story()
    batch = _written(story)
    story.commit(1, batch)
    story.step(1, BatchApplied(0, 1, 1, ()), BatchApplied(1, 2, 1, (NO_OP,)), high_watermark=2)
    story.crash(1)
    story.start(1, leader_change(0, 1), batch, role=Unattached(epoch=1))
    story.step(1, BatchApplied(0, 1, 1, ()), BatchApplied(1, 2, 1, (NO_OP,)), high_watermark=2)


def test_a_snapshot_that_is_applied_behind_what_was_is_flagged() -> None:
    """inv:R8."""
    story = _story()
    batch = _written(story)
    story.commit(1, batch)
    story.step(2, BatchApplied(0, 1, 1, ()), BatchApplied(1, 2, 1, (NO_OP,)), high_watermark=2)
    with breaks("R8"):
        story.step(2, SnapshotApplied(OffsetAndEpoch(1, 1)))


def test_a_leader_that_loads_a_snapshot_is_flagged() -> None:
    """inv:R16."""
    story = _story()
    with breaks("R16"):
        story.step(1, SnapshotApplied(OffsetAndEpoch(1, 1)))


# R18


def test_a_committed_record_that_only_a_minority_holds_is_flagged() -> None:
    """inv:R18: node 2 truncated it."""
    story = _story()
    story.step(2, LogTruncated(0))
    with breaks("R18"):
        story.watcher.now_and_then(story.cluster)


def test_voters_that_a_dead_leader_had_not_committed_may_have_committed_it() -> None:
    """inv:R18: of four voters one is being removed, so two of three were enough; then all die, and no log that lives names the three."""
    story = Story(HighWatermarks, voters=voter_set(1, 2, 3, 4, kraft_version=1), up=(1, 2, 3, 4))
    story.lead(1, 1)
    for node_id in (2, 3, 4):
        story.follow(node_id, 1, 1)
    story.commit(1, leader_change(0, 1), followers=(2, 3, 4))
    batch = records_batch(1, 1, NO_OP)
    story.step(1, batch)
    story.step(1, voters_batch(2, 1, voter_set(1, 2, 3, kraft_version=1)))
    story.step(1, LogDurable(3))
    story.replicate(2, batch)
    story.step(1, high_watermark=2)
    story.crash(1)
    story.watcher.now_and_then(story.cluster)
    story.step(2, LogTruncated(1))
    with breaks("R18"):
        story.watcher.now_and_then(story.cluster)


def test_disks_that_faults_destroyed_are_not_counted_against_it() -> None:
    """inv:R18."""
    story = _story()
    story.watcher.now_and_then(story.cluster)
    story.crash(2, is_disk_lost=True)
    story.start(2)
    story.watcher.now_and_then(story.cluster)


# R15


def _snapshot(end: int, epoch: int, *, is_durable: bool = True, records: tuple[bytes, ...] = ()) -> SnapshotAppeared:
    snapshot_id = OffsetAndEpoch(end, epoch)
    content = [*snapshot_content(EMPTY_IMAGE), *records]
    batches = build_snapshot(content, snapshot_id=snapshot_id, last_contained_log_timestamp=epoch, now_ms=0)
    return SnapshotAppeared(snapshot_id, is_durable, b"".join(batches))


def test_a_snapshot_of_a_committed_prefix_is_fine() -> None:
    """inv:R15."""
    story = _story(Snapshots)
    story.step(1, _snapshot(1, 1))


def test_a_snapshot_named_one_too_high_is_flagged() -> None:
    """inv:R15, defect:K9."""
    story = _story(Snapshots)
    with breaks("R15"):
        story.step(1, _snapshot(2, 1))


def test_a_snapshot_named_one_too_low_is_flagged() -> None:
    """inv:R15, defect:K9: there it ends inside of a batch."""
    story = _story(Snapshots)
    batch = records_batch(1, 1, NO_OP, NO_OP)
    story.step(1, batch)
    story.commit(1, batch)
    with breaks("R15"):
        story.step(1, _snapshot(2, 1))


def test_a_snapshot_with_another_epoch_is_flagged() -> None:
    """inv:R15."""
    story = _story(Snapshots)
    with breaks("R15"):
        story.step(1, _snapshot(1, 2))


def test_a_snapshot_that_shows_before_it_is_on_disk_is_flagged() -> None:
    """inv:R15, defect:K10."""
    story = _story(Snapshots)
    with breaks("R15"):
        story.step(1, _snapshot(1, 1, is_durable=False))


def test_a_snapshot_with_other_content_is_flagged() -> None:
    """inv:R15."""
    story = _story(Snapshots)
    extra = encode_record(ConfigRecord(resource_type=4, resource_name="", name="a", value="b"), 0)
    with breaks("R15"):
        story.step(1, _snapshot(1, 1, records=(extra,)))


def test_a_cut_snapshot_is_flagged() -> None:
    """inv:R15: whole, or not there."""
    story = _story(Snapshots)
    whole = _snapshot(1, 1)
    with breaks("R15"):
        story.step(1, whole._replace(data=whole.data[:-1]))


def test_a_log_cut_below_no_snapshot_is_flagged() -> None:
    """inv:R15."""
    story = _story(Snapshots)
    with breaks("R15"):
        story.step(1, LogStartMoved(1))


def test_a_log_cut_below_its_snapshot_is_fine_until_that_goes() -> None:
    """inv:R15."""
    story = _story(Snapshots)
    story.step(1, _snapshot(1, 1))
    story.step(1, LogStartMoved(1))
    with breaks("R15"):
        story.step(1, SnapshotRemoved(OffsetAndEpoch(1, 1)))


# R17


def _dynamic(*ids: int) -> Story:
    story = Story(VoterChanges, voters=voter_set(*ids, kraft_version=1), up=ids)
    story.lead(ids[0], 1)
    for each in ids[1:]:
        story.follow(each, 1, ids[0])
    return story


def test_a_voter_change_before_the_leader_committed_is_flagged() -> None:
    """inv:R17."""
    story = _dynamic(1, 2, 3)
    with breaks("R17"):
        story.step(1, voters_batch(1, 1, voter_set(1, 2, kraft_version=1)))


def test_a_second_voter_change_before_the_first_is_committed_is_flagged() -> None:
    """inv:R17, defect:K11."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    story.step(1, voters_batch(1, 1, voter_set(1, 2, 3, 4, kraft_version=1)))
    with breaks("R17"):
        story.step(1, voters_batch(2, 1, voter_set(1, 2, 3, 4, 5, kraft_version=1)))


def test_two_voters_at_once_are_flagged() -> None:
    """inv:R17."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    with breaks("R17"):
        story.step(1, voters_batch(1, 1, voter_set(1, kraft_version=1)))


def test_another_disk_in_place_of_the_old_one_is_two_changes() -> None:
    """inv:R17: a voter is (id, directory id)."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    swapped = [*voter_set(1, 2, kraft_version=1).voters, Voter(voter_id=3, directory_id=directory(103))]
    with breaks("R17"):
        story.step(1, voters_batch(1, 1, VoterSet(voters=tuple(swapped), kraft_version=1)))


def test_voter_changes_one_after_the_other_are_fine() -> None:
    """inv:R17: each committed by its own majority."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    first = voters_batch(1, 1, voter_set(1, 2, kraft_version=1))
    story.step(1, first)
    story.commit(1, first)
    story.step(1, voters_batch(2, 1, voter_set(1, 2, 4, kraft_version=1)))
    assert story.markers.counts == {"voter removed": 1, "voter added": 1}


def test_directories_may_all_be_named_at_once_by_the_upgrade() -> None:
    """inv:R17: from kraft.version 0 to 1 the voters stay the same."""
    story = _story(VoterChanges)
    assert all(voter.directory_id == ZERO_UUID for voter in story.voters.voters)
    story.step(1, voters_batch(1, 1, voter_set(1, 2, 3, kraft_version=1)))


def test_a_change_that_its_leader_does_not_see_committed_is_counted() -> None:
    """Section 6: voter change cut short by a leader change; leader removed itself."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    story.step(1, voters_batch(1, 1, voter_set(2, 3, kraft_version=1)))
    story.crash(1)
    assert story.markers.counts["voter change cut short by a leader change"] == 1
    assert story.markers.counts["leader removed itself"] == 1


# RL4


def test_a_voter_change_that_is_known_to_some_at_the_end_is_flagged() -> None:
    """inv:RL4."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    story.step(1, voters_batch(1, 1, voter_set(1, 2, kraft_version=1)))
    with breaks("RL4"):
        story.watcher.at_end(story.cluster)


def test_a_voter_change_that_nobody_knows_at_the_end_is_fine() -> None:
    """inv:RL4."""
    story = _dynamic(1, 2, 3)
    story.commit(1, leader_change(0, 1))
    story.watcher.at_end(story.cluster)


# R14


def _fetched_by(story: Story, node_id: int, epoch: int) -> MachineStep:
    part = fetch.FetchPartition(current_leader_epoch=epoch)
    request = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=node_id), topics=(fetch.FetchTopic(partitions=(part,)),)
    )
    now_ms = story.cluster.now_us // 1_000
    event = RaftRequestArrived(token=1, request=request, api_version=17, listener="C", now_ms=now_ms)
    return MachineStep("raft", event, [])


def _time(story: Story) -> MachineStep:
    return MachineStep("raft", TimeAdvanced(now_ms=story.cluster.now_us // 1_000), [])


def test_a_leader_that_hears_no_majority_and_stays_is_flagged() -> None:
    """inv:R14, defect:K6: 1.5 fetch timeouts, and the time to notice."""
    story = _story(CheckQuorum)
    with breaks("R14"):
        for _ in range(12):
            story.wait(500)
            story.step(1, machines=[_time(story)])


def test_a_leader_that_hears_one_of_two_others_may_stay() -> None:
    """inv:R14: it is a majority with itself."""
    story = _story(CheckQuorum)
    for _ in range(12):
        story.wait(500)
        story.step(1, machines=[_fetched_by(story, 2, 1)])


def test_a_new_voter_is_not_missed_before_it_was_one() -> None:
    """inv:R14: with five voters the majority needs one that was none before; it has 1.5 fetch timeouts from then on."""
    story = _story(CheckQuorum)
    for _ in range(12):
        story.wait(500)
        story.step(1, machines=[_fetched_by(story, 2, 1)])
    story.step(1, voters_batch(1, 1, voter_set(1, 2, 3, 4, 5)), machines=[_fetched_by(story, 2, 1)])
    for _ in range(5):
        story.wait(500)
        story.step(1, machines=[_fetched_by(story, 2, 1)])
    with breaks("R14"):
        for _ in range(6):
            story.wait(500)
            story.step(1, machines=[_fetched_by(story, 2, 1)])


def test_fetches_of_an_observer_or_of_an_older_epoch_do_not_count() -> None:
    """inv:R14."""
    story = _story(CheckQuorum)
    with breaks("R14"):
        for _ in range(12):
            story.wait(500)
            story.step(1, machines=[_fetched_by(story, 9, 1), _fetched_by(story, 2, 0)])


def test_a_leader_that_steps_down_in_time_is_fine() -> None:
    """inv:R14."""
    story = _story(CheckQuorum)
    story.wait(3_100)
    story.step(1, machines=[_time(story)])
    story.step(1, role=Unattached(epoch=2))
    story.wait(3_100)
    story.step(1, machines=[_time(story)])
    assert story.markers.counts == {"leader resigned: check quorum": 1}


# R21


@pytest.mark.parametrize("what", ["cluster", "node", "directory"])
def test_a_message_for_somebody_else_that_changes_something_is_flagged(what: str) -> None:
    """inv:R21."""
    part = vote.RequestPartitionData(
        replica_epoch=9, replica_id=2, voter_directory_id=directory(9) if what == "directory" else directory(1)
    )
    request = vote.VoteRequest(
        cluster_id="another" if what == "cluster" else CLUSTER_ID,
        voter_id=7 if what == "node" else 1,
        topics=(vote.RequestTopicData(partitions=(part,)),),
    )
    received = Received(2, 1, is_request=True, message=request, api_version=2)
    with breaks("R21"):
        Story(MisaddressedRequests).step(1, role=Unattached(epoch=9), received=received)
    arrived = RaftRequestArrived(token=1, request=request, api_version=2, listener="C", now_ms=0)
    machine = MachineStep("raft", arrived, [])
    Story(MisaddressedRequests).step(1, received=received, machines=[machine])
    with breaks("R21"):
        stored = QuorumStateDurable(QuorumState(leader_epoch=9))
        Story(MisaddressedRequests).step(1, stored, received=received, machines=[machine])


def test_a_message_for_this_node_may_change_it() -> None:
    """inv:R21: nobody in particular is this node too."""
    part = vote.RequestPartitionData(replica_epoch=9, replica_id=2)
    request = vote.VoteRequest(cluster_id=CLUSTER_ID, voter_id=1, topics=(vote.RequestTopicData(partitions=(part,)),))
    received = Received(2, 1, is_request=True, message=request, api_version=2)
    Story(MisaddressedRequests).step(1, role=Unattached(epoch=9), received=received)


def test_what_is_due_by_time_may_fall_together_with_a_message_for_somebody_else() -> None:
    """inv:R21: a pre-vote that is given up tells of no new epoch, leader or vote."""
    part = vote.RequestPartitionData(replica_epoch=9, replica_id=2)
    request = vote.VoteRequest(cluster_id="another", topics=(vote.RequestTopicData(partitions=(part,)),))
    received = Received(2, 1, is_request=True, message=request, api_version=2)
    story = Story(MisaddressedRequests)
    story.step(1, role=Prospective(epoch=3, leader_id=2, election_deadline_ms=0))
    story.step(1, role=Follower(epoch=3, leader_id=2), received=received)


def test_the_committed_prefix_stays_when_leaders_change() -> None:
    """inv:R7, inv:R8: a follower of the new leader commits on."""
    story = _story()
    story.lead(2, 2)
    story.step(1, role=Follower(epoch=2, leader_id=2))
    story.commit(2, leader_change(1, 2), followers=(1,))
    story.step(2, high_watermark=2)
    assert story.ghost.committed.end == 2
