"""Storing, reading, deleting and forgetting positions."""

from __future__ import annotations

import pytest

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.expiry import POSITIONS_A_TURN
from headrace.coordinator.groups.group import GroupState
from headrace.coordinator.groups.image import CommittedOffset, OffsetKey, OffsetStored
from headrace.coordinator.groups.requests import DeleteGroups, TopicsDeleted
from headrace.coordinator.groups.stored import GroupRules
from headrace.coordinator.runtime.events import (
    ImageChanged,
    LoadedRecord,
    RecordsLoaded,
    Resigned,
    TimePassed,
    TransactionEnded,
    WallClockMoved,
)
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.unit.coordinator.group_bench import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    START_MS,
    Bench,
    commit_request,
    join_request,
    topics_of,
)

DAY_MS = 86_400_000
ID_A, ID_B = Uuid(b"a" * 16), Uuid(b"b" * 16)
SUBSCRIPTION_TO_T = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x01t" + b"\xff\xff\xff\xff"


def delete_offsets(bench: Bench, topic: str = "t", *partitions: int) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=(
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=p) for p in partitions or (0,)),
            ),
        ),
    )
    answer: OffsetDeleteResponse = bench.ask(request, version=0)
    return answer


def test_a_member_stores_its_position() -> None:
    """G4: what was acknowledged is read, also after a restart."""
    bench = Bench()
    (member,) = bench.stable_group()
    assert bench.commit(7, member) == ErrorCode.NONE
    assert bench.commit(8, member) == ErrorCode.NONE
    assert (bench.fetch(), bench.restarted().fetch(), bench.fetch(partition=1)) == (8, 8, -1)


def test_nobody_reads_a_position_before_it_is_committed() -> None:
    """G4, H14: a position that a failover could take back is not shown."""
    bench = Bench()
    bench.commit(1)
    bench.holds_log = True
    token = bench.start_commit(2)
    assert (bench.fetch(), token in bench.answers) == (1, False)
    bench.commit_next()
    assert (bench.fetch(), bench.answers[token].topics[0].partitions[0].error_code) == (2, 0)


def test_a_stable_fetch_waits_for_what_was_written_before() -> None:
    """KIP-447: require_stable sees every earlier commit."""
    bench = Bench()
    bench.holds_log = True
    bench.start_commit(2)
    token = bench.start_stable_fetch()
    assert token not in bench.answers
    bench.commit_next()
    assert bench.stable(token).committed_offset == 2


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_a_commit_that_failed_is_as_if_it_never_was(error: ErrorCode, heard: ErrorCode) -> None:
    """B28: the client hears where to try again."""
    bench = Bench()
    bench.commit(1)
    bench.holds_log = True
    token = bench.start_commit(2)
    bench.fail_next(error)
    assert (bench.answers[token].topics[0].partitions[0].error_code, bench.fetch()) == (heard, 1)


def test_a_stable_fetch_behind_a_failed_commit_goes_elsewhere() -> None:
    """KIP-447: consumers before 3.9 do not know COORDINATOR_NOT_AVAILABLE here."""
    bench = Bench()
    bench.holds_log = True
    bench.start_commit(2)
    token = bench.start_stable_fetch()
    bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[token] == ErrorCode.NOT_COORDINATOR


def test_a_commit_waits_no_longer_than_its_timeout() -> None:
    """M5: offsets.commit.timeout.ms; should the record be committed later after all, it counts."""
    bench = Bench()
    bench.holds_log = True
    token = bench.start_commit(2)
    bench.pass_time(5_000)
    assert bench.answers[token].topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.commit_next()
    assert bench.fetch() == 2


def test_a_consumer_outside_the_group_may_store_when_nobody_is_in_it() -> None:
    """B-P06: assigned by hand, a consumer commits with generation -1; that makes the group."""
    bench = Bench()
    assert bench.commit(3) == ErrorCode.NONE
    assert bench.machine.describe(GROUP, api_version=6).group_state == "Empty"
    bench.stable_group()
    assert bench.commit(4) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.fetch() == 3


def test_a_stale_commit_changes_nothing() -> None:
    """G3: old generation, unknown member, during an assignment."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    assert bench.commit(1, leader, generation_id_or_member_epoch=0) == ErrorCode.ILLEGAL_GENERATION
    assert bench.commit(1, leader, generation_id_or_member_epoch=-1) == ErrorCode.ILLEGAL_GENERATION
    assert bench.commit(1, leader, member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    tokens = [bench.start_join(member.member_id, protocols=(("range", b"new"),)) for member in (leader, follower)]
    again = bench.joined(tokens[0])
    assert bench.commit(1, again) == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.fetch() == -1


def test_a_member_may_store_while_others_join() -> None:
    """B-P06: in PreparingRebalance commits of the current generation count: partitions are given up after them."""
    bench = Bench()
    leader, follower = bench.stable_group(size=2)
    bench.start_join(leader.member_id)
    assert bench.commit(5, follower) == ErrorCode.NONE


def test_a_commit_of_a_member_is_a_sign_of_life() -> None:
    """GL1: as in Kafka, a commit puts the session's end off."""
    bench = Bench()
    (member,) = bench.stable_group()
    for _ in range(3):
        bench.pass_time(SESSION_MS - 1)
        assert bench.commit(1, member) == ErrorCode.NONE


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_to_an_unknown_group_with_a_generation(version: int, code: ErrorCode) -> None:
    """KIP-848: GROUP_ID_NOT_FOUND came with version 9."""
    assert Bench().commit(1, generation_id_or_member_epoch=3, member_id="m", version=version) == code


def test_metadata_has_a_largest_size() -> None:
    """B23: offset.metadata.max.bytes is counted in Java's characters; null is empty."""
    bench = Bench(GroupConfig(offset_metadata_max_size=4))
    assert bench.commit(1, metadata="abcd") == ErrorCode.NONE
    assert bench.commit(2, metadata="abcde") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.commit(2, metadata="\U0001f600\U0001f600\U0001f600") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.fetch() == 1
    assert bench.commit(3, metadata=None) == ErrorCode.NONE


def test_positions_of_a_group_are_read_all_at_once() -> None:
    """B-P06: OffsetFetch without topics."""
    bench = Bench()
    bench.commit(1, topic="a", partition=0)
    bench.commit(2, topic="b", partition=3)
    topics = topics_of(bench.machine.positions(GROUP), None)
    assert [(t.name, [(p.partition_index, p.committed_offset) for p in t.partitions]) for t in topics] == [
        ("a", [(0, 1)]),
        ("b", [(3, 2)]),
    ]
    assert topics_of(bench.machine.positions("none"), None) == ()


def test_there_are_rests_between_very_many_positions() -> None:
    """M6: those of a group were given in one turn, of 50 ms for 50,000."""
    bench = with_many_positions(1_000)
    steps = list(bench.machine.positions(GROUP).topics(None))
    assert len(steps) == 20


def test_a_position_of_an_earlier_topic_is_not_shown() -> None:
    """B27: a topic made again under the same name begins without positions."""
    bench = Bench()
    bench.commit(9, topic_id=ID_A)
    assert [bench.fetch(topic_id=each) for each in (ID_A, ID_B, ZERO_UUID)] == [9, -1, 9]


def test_positions_of_deleted_topics_are_deleted() -> None:
    """PR6: those of the deleted topic, and no others."""
    bench = Bench()
    bench.commit(1, topic="t", topic_id=ID_A)
    bench.commit(2, topic="t", partition=1, topic_id=ID_B)
    bench.commit(3, topic="u", topic_id=ID_B)
    bench.step(ImageChanged(change=TopicsDeleted(topics=(("t", ID_A),)), now_ms=bench.now_ms))
    bench.pass_time(0)
    for each in (bench, bench.restarted()):
        assert [each.fetch(), each.fetch(partition=1), each.fetch(topic="u")] == [-1, 2, 3]


def test_positions_may_be_deleted_where_nobody_reads() -> None:
    """KIP-496: the answer for a topic that a member reads is GROUP_SUBSCRIBED_TO_TOPIC."""
    bench = Bench()
    bench.commit(1)
    bench.commit(1, topic="u")
    token = bench.start_member(protocols=(("range", SUBSCRIPTION_TO_T),))[1]
    bench.pass_time(3_000)
    bench.sync_all([bench.joined(token)])
    assert delete_offsets(bench, "t").topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(bench, "u").topics[0].partitions[0].error_code == ErrorCode.NONE
    assert (bench.fetch(), bench.fetch(topic="u"), bench.restarted().fetch(topic="u")) == (1, -1, -1)


def test_a_consumer_group_that_cannot_be_read_reads_everything() -> None:
    """KIP-496: with metadata that is no subscription nothing may be deleted."""
    bench = Bench()
    bench.commit(1)
    bench.stable_group()
    assert delete_offsets(bench).topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_positions_of_other_groups_with_members_stay() -> None:
    """KIP-496: NON_EMPTY_GROUP for a live group of another type, GROUP_ID_NOT_FOUND for none."""
    bench = Bench()
    assert delete_offsets(bench).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    bench.start_member(protocol_type="connect")
    assert delete_offsets(bench).error_code == ErrorCode.NON_EMPTY_GROUP


def test_a_group_is_deleted_with_its_positions() -> None:
    """B-P06: with members it is NON_EMPTY_GROUP; unknown ones are GROUP_ID_NOT_FOUND."""
    bench = Bench()
    (member,) = bench.stable_group()
    bench.commit(4, member)
    assert bench.delete_groups(GROUP, "none") == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    bench.leave(member)
    assert bench.delete_groups(GROUP, GROUP) == [ErrorCode.NONE]
    for each in (bench, bench.restarted()):
        assert (each.fetch(), GROUP in each.machine.shard.groups) == (-1, False)


def test_a_deletion_that_failed_leaves_the_group_as_it_was() -> None:
    """G4: and its positions."""
    bench = Bench()
    bench.commit(4)
    bench.holds_log = True
    token = bench.send(DeleteGroups(group_ids=(GROUP,)))
    bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[token][0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.fetch(), bench.group.state) == (4, GroupState.EMPTY)


def test_a_group_that_was_never_stored_does_not_come_back() -> None:
    """G4, M5: neither its first commit nor its deletion made it into the log."""
    bench = Bench()
    bench.holds_log = True
    bench.start_commit(1)
    bench.send(DeleteGroups(group_ids=(GROUP,)))
    for _ in range(2):
        bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.machine.shard.groups == {}


def retention(**changes: int) -> GroupConfig:
    return GroupConfig(offsets_retention_ms=DAY_MS, offsets_retention_check_interval_ms=60_000, **changes)


def test_positions_of_an_empty_group_expire() -> None:
    """KIP-211: the retention runs from the moment the last member left, not from the commit; then the group goes too."""
    bench = Bench(retention())
    (member,) = bench.stable_group()
    bench.commit(4, member)
    for _ in range(2 * DAY_MS // 9_000):
        bench.pass_time(9_000)
        bench.heartbeat(member)
    assert bench.fetch() == 4
    bench.leave(member)
    bench.pass_time(DAY_MS - 120_000)
    assert bench.fetch() == 4
    bench.pass_time(240_000)
    for each in (bench, bench.restarted()):
        assert (each.fetch(), GROUP in each.machine.shard.groups) == (-1, False)


def test_positions_outside_group_management_expire_after_their_commit() -> None:
    """KIP-211: each partition by itself."""
    bench = Bench(retention())
    bench.commit(1)
    bench.pass_time(DAY_MS // 2)
    bench.commit(2, partition=1)
    bench.pass_time(DAY_MS // 2 + 60_000)
    assert (bench.fetch(), bench.fetch(partition=1)) == (-1, 2)


def test_positions_of_topics_that_a_live_group_left_expire() -> None:
    """KIP-496: a Stable group keeps the topics that it reads, and loses the others in time."""
    bench = Bench(retention())
    token = bench.start_member(protocols=(("range", SUBSCRIPTION_TO_T),))[1]
    bench.pass_time(3_000)
    member = bench.joined(token)
    bench.sync_all([member])
    bench.commit(1, member, topic="t")
    bench.commit(2, member, topic="old")
    for _ in range(DAY_MS // 9_000 + 20):
        bench.pass_time(9_000)
        bench.heartbeat(member)
    assert (bench.fetch(topic="t"), bench.fetch(topic="old")) == (1, -1)


def test_what_expires_in_a_live_group_is_not_counted_for_the_next_one() -> None:
    """KIP-496, G4: a position of the group that is looked at next is new, so that group stays."""
    bench = Bench(retention())
    token = bench.start_member(protocols=(("range", SUBSCRIPTION_TO_T),))[1]
    bench.pass_time(3_000)
    member = bench.joined(token)
    bench.sync_all([member])
    bench.commit(2, member, topic="old")
    bench.commit(1, group_id="other")
    for passed_ms in range(0, DAY_MS + 180_000, 9_000):
        bench.pass_time(9_000)
        bench.heartbeat(member)
        if passed_ms == DAY_MS - 9_000:
            bench.commit(3, group_id="other", partition=1)
    for each in (bench, bench.restarted()):
        assert each.fetch(topic="old") == -1
        assert (each.fetch(group="other"), each.fetch(group="other", partition=1)) == (-1, 3)
        assert "other" in each.machine.shard.groups


def test_a_commit_may_bring_its_own_retention() -> None:
    """B-P06: OffsetCommit 2 to 4, retention_time_ms."""
    bench = Bench(retention())
    bench.commit(1, version=4, retention_time_ms=3_600_000)
    bench = bench.restarted()
    bench.pass_time(3_500_000)
    assert bench.fetch() == 1
    bench.pass_time(200_000)
    assert bench.fetch() == -1


@pytest.mark.parametrize(("retention_ms", "is_kept"), [(2**63 - 1, True), (-(2**63), False), (0, False), (-2, False)])
def test_a_retention_at_its_edges(retention_ms: int, is_kept: bool) -> None:
    """B23: as far away as can be written, or over at once."""
    bench = Bench(retention())
    bench.commit(1, version=4, retention_time_ms=retention_ms)
    bench = bench.restarted()
    bench.pass_time(60_000)
    assert bench.fetch() == (1 if is_kept else -1)


def test_the_age_of_a_position_goes_by_the_wall_clock() -> None:
    """PR6: a clock that was wrong at the start does not make positions expire after the next one."""
    bench = Bench(retention())
    bench.step(WallClockMoved(ahead_ms=50 * DAY_MS))
    bench.commit(1)
    restarted = Bench(retention(), log=bench.log, now_ms=START_MS + 50 * DAY_MS)
    restarted.pass_time(DAY_MS // 2)
    assert restarted.fetch() == 1


def test_groups_that_nobody_used_are_forgotten() -> None:
    """M5: an Empty group without positions goes at the next check."""
    bench = Bench(retention())
    bench.leave(*bench.stable_group())
    bench.pass_time(60_000)
    assert bench.machine.shard.groups == {}
    assert bench.machine.describe(GROUP, api_version=5).group_state == "Dead"


def stored(partition: int, position: int, *, producer_id: int = -1) -> RecordsLoaded:
    """A loaded batch with one position of "t", in a transaction of `producer_id` unless that is -1."""
    record = OffsetStored(OffsetKey(GROUP, "t", partition), CommittedOffset(position, -1, "", START_MS))
    return RecordsLoaded(records=[LoadedRecord(9, *GroupRules().written(record))], producer_id=producer_id)


def ended(producer_id: int, *, is_committed: bool) -> TransactionEnded:
    return TransactionEnded(producer_id=producer_id, is_committed=is_committed)


def test_open_transactions_of_a_loaded_log_are_unstable() -> None:
    """E10: shown when the marker says commit, never when it says abort; a stable fetch is told to wait."""
    open_ones = [stored(0, 5, producer_id=1), stored(1, 5, producer_id=2)]
    bench = Bench(transactions=open_ones)
    unstable = bench.stable(bench.start_stable_fetch())
    assert (unstable.error_code, bench.fetch()) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    bench = Bench(transactions=[*open_ones, ended(1, is_committed=True), ended(2, is_committed=False)])
    assert (bench.fetch(), bench.fetch(partition=1)) == (5, -1)


def test_a_transaction_does_not_undo_a_later_commit() -> None:
    """E10: the record that lies later in the log counts, be it of another transaction or of none."""
    bench = Bench(transactions=[stored(0, 5, producer_id=1), stored(0, 6), ended(1, is_committed=True)])
    assert bench.fetch() == 6
    two = [stored(0, 5, producer_id=1), stored(0, 7, producer_id=2)]
    for order in ((1, 2), (2, 1)):
        assert Bench(transactions=[*two, *(ended(each, is_committed=True) for each in order)]).fetch() == 7


def test_what_a_transaction_held_is_gone_when_its_group_is_deleted() -> None:
    """E10: a deletion is in no transaction, and nothing comes back behind it."""
    bench = Bench(transactions=[stored(0, 5, producer_id=1)])
    assert bench.delete_groups(GROUP) == [ErrorCode.NONE]
    assert (bench.stable(bench.start_stable_fetch()).error_code, bench.fetch()) == (0, -1)


def test_a_partition_named_twice_is_stored_once() -> None:
    """B24: the last one counts, both are answered."""
    bench = Bench()
    one = commit_request(1).topics[0]
    two = commit_request(2).topics[0]
    response = bench.ask(commit_request(0, topics=(one, two)), version=9)
    assert ([len(t.partitions) for t in response.topics], bench.fetch(), len(bench.log)) == ([1, 1], 2, 1)


def test_commits_in_flight_count_for_decisions() -> None:
    """G4: a group deleted behind a commit in flight has no position left."""
    bench = Bench()
    bench.holds_log = True
    bench.start_commit(1)
    token = bench.send(DeleteGroups(group_ids=(GROUP,)))
    bench.commit_next()
    bench.commit_next()
    assert (bench.answers[token][0].error_code, bench.fetch()) == (ErrorCode.NONE, -1)
    bench.pass_time(REBALANCE_MS)


def with_many_positions(count: int = 3 * POSITIONS_A_TURN) -> Bench:
    """A group with so many positions in one topic, and one in another."""
    bench = Bench()
    for partition in range(count):
        bench.commit(7, partition=partition, topic_id=ID_A)
    bench.commit(8, topic="kept", topic_id=ID_B)
    return bench


def test_positions_in_a_topic_that_is_gone_are_deleted_some_a_turn() -> None:
    """M6: every group is looked at, and each position is a record. A newer topic of the same name keeps its own."""
    bench = with_many_positions()
    records = len(bench.log)
    bench.step(ImageChanged(change=TopicsDeleted(topics=(("t", ID_A),)), now_ms=bench.now_ms))
    assert len(bench.log) == records, "coordinators of a broker hear of it in one turn"
    bench.step(TimePassed(now_ms=bench.now_ms))
    assert len(bench.log) == records + POSITIONS_A_TURN - 1, "one group was looked at"
    last = 3 * POSITIONS_A_TURN - 1
    assert bench.commit(9, partition=last, topic_id=ID_B) == ErrorCode.NONE
    bench.pass_time(100)
    assert [bench.fetch(partition=each) for each in (0, 1, last - 1, last)] == [-1, -1, -1, 9]
    assert bench.fetch(topic="kept") == 8
    assert bench.restarted().fetch(partition=last) == 9


def test_a_group_of_very_many_positions_is_deleted_some_a_turn() -> None:
    """M6: meanwhile nobody joins it or commits to it, so that nothing of theirs goes with it."""
    bench = with_many_positions()
    records = len(bench.log)
    token = bench.send(DeleteGroups(group_ids=(GROUP, "none")))
    bench.step(TimePassed(now_ms=bench.now_ms))
    assert len(bench.log) == records + POSITIONS_A_TURN
    assert bench.commit(9) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.ask(join_request()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert token not in bench.answers
    bench.pass_time(100)
    codes = [result.error_code for result in bench.answers[token]]
    assert codes == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert (bench.fetch(topic="kept"), GROUP in bench.machine.shard.groups) == (-1, False)
    assert not bench.restarted().machine.shard.state.knows(GROUP)
    assert bench.commit(9) == ErrorCode.NONE


def test_a_deletion_in_turns_is_refused_where_the_log_takes_nothing() -> None:
    """It is not tried for ever."""
    bench = with_many_positions()
    bench.holds_log = True
    token = bench.send(DeleteGroups(group_ids=(GROUP,)))
    while token not in bench.answers or bench.appends:
        while bench.appends:
            bench.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
        bench.pass_time(1)
    assert [result.error_code for result in bench.answers[token]] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.holds_log = False
    assert (bench.fetch(partition=0), bench.commit(9)) == (7, ErrorCode.NONE)


def test_who_waits_for_a_deletion_in_turns_is_sent_to_the_next_coordinator() -> None:
    """The leadership went in the middle of it."""
    bench = with_many_positions()
    token = bench.send(DeleteGroups(group_ids=(GROUP,)))
    bench.step(Resigned())
    assert [result.error_code for result in bench.answers[token]] == [ErrorCode.NOT_COORDINATOR]
