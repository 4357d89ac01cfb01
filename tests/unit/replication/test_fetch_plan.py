"""What a follower's next fetch says of which partitions, and what it may believe of the response."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition, Uuid
from headrace.replication.fetch_plan import MOST_IN_A_REQUEST, FetchPlan, Position

A, B, C = (TopicIdPartition(Uuid(b"a topic's own id"), number) for number in range(3))
AT_0, AT_5, AT_9 = (Position(1, offset, 1, 0) for offset in (0, 5, 9))


def in_session(*keys: TopicIdPartition) -> FetchPlan:
    """A plan in session 77, which has these partitions at offset 0."""
    plan = FetchPlan()
    for key in keys:
        plan.want(key, AT_0)
    plan.next()
    assert plan.answered(77, ErrorCode.NONE)
    return plan


def test_the_first_request_begins_a_session_with_every_partition() -> None:
    """KIP-227, B-P07."""
    plan = FetchPlan()
    assert not plan.is_worth_a_request
    plan.want(A, AT_0)
    plan.want(B, AT_5)
    assert plan.next() == (0, 0, [(A, AT_0), (B, AT_5)], [], False)


def test_later_requests_name_only_what_is_wanted_otherwise() -> None:
    """KIP-227: idle partitions are not named, and cost nothing."""
    plan = in_session(A, B)
    assert plan.next() == (77, 1, [], [], False)
    assert plan.answered(77, ErrorCode.NONE)
    plan.want(B, AT_5)
    assert plan.next() == (77, 2, [(B, AT_5)], [], False)


def test_what_is_dropped_is_forgotten_once() -> None:
    plan = in_session(A, B)
    plan.drop(A)
    assert plan.next() == (77, 1, [], [A], False)
    assert plan.answered(77, ErrorCode.NONE)
    assert plan.next() == (77, 2, [], [], False)


def test_what_comes_back_before_it_was_forgotten_stays() -> None:
    """A rest shorter than a fetch leaves no trace."""
    plan = in_session(A, B)
    plan.drop(A)
    plan.want(A, AT_0)
    assert plan.next() == (77, 1, [], [], False)
    plan.drop(B)
    plan.want(B, AT_9)
    assert plan.answered(77, ErrorCode.NONE)
    assert plan.next() == (77, 2, [(B, AT_9)], [], False)


def test_a_plan_without_partitions_asks_only_to_forget() -> None:
    plan = in_session(A)
    plan.drop(A)
    assert plan.is_worth_a_request
    plan.next()
    assert not plan.is_worth_a_request


def test_a_response_is_about_what_was_asked() -> None:
    """inv:P13: what was decided since then makes it void."""
    plan = in_session(A, B)
    assert plan.is_answered(A)
    plan.want(A, AT_5)
    assert not plan.is_answered(A)
    assert plan.is_answered(B)
    plan.drop(B)
    assert not plan.is_answered(B)
    plan.next()
    assert plan.is_answered(A)


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ],
)
def test_a_refused_session_is_begun_again_and_ended_where_it_may_live(error: ErrorCode, ends: int) -> None:
    """KIP-227: error codes 70, 71 and 106."""
    plan = in_session(A, B)
    plan.drop(B)
    plan.next()
    assert not plan.answered(0, error)
    assert not plan.is_answered(A)
    assert plan.next() == (ends, 0, [(A, AT_0)], [], False)


def test_after_silence_everything_is_asked_anew() -> None:
    """The leader may have taken the request, or not."""
    plan = in_session(A, B)
    plan.want(A, AT_5)
    plan.next()
    plan.lost()
    assert plan.next() == (77, 0, [(A, AT_5), (B, AT_0)], [], False)


def test_a_leader_without_room_for_a_session_is_asked_for_everything_each_time() -> None:
    plan = FetchPlan()
    plan.want(A, AT_0)
    plan.next()
    assert plan.answered(0, ErrorCode.NONE)
    assert plan.is_answered(A)
    plan.want(A, AT_5)
    assert plan.next() == (0, 0, [(A, AT_5)], [], False)


def test_a_response_of_another_session_is_not_believed() -> None:
    plan = in_session(A)
    plan.next()
    assert not plan.answered(78, ErrorCode.NONE)
    assert plan.next().session_epoch == 0


def test_very_many_partitions_come_in_several_requests() -> None:
    """A request takes a few milliseconds at either end, however many partitions there are."""
    plan = FetchPlan()
    keys = [TopicIdPartition(A.topic_id, number) for number in range(2 * MOST_IN_A_REQUEST + 1)]
    for key in keys:
        plan.want(key, AT_0)
    asked = []
    for has_more in (True, True, False):
        request = plan.next()
        assert request.has_more is has_more
        asked += [key for key, _ in request.asks]
        assert plan.answered(77, ErrorCode.NONE)
    assert sorted(asked) == keys
    assert plan.next().asks == []


def test_without_a_session_very_many_partitions_take_turns() -> None:
    plan = FetchPlan()
    keys = [TopicIdPartition(A.topic_id, number) for number in range(MOST_IN_A_REQUEST + 1)]
    for key in keys:
        plan.want(key, AT_0)
    asked = []
    for _ in range(2):
        asked += [key for key, _ in plan.next().asks]
        assert plan.answered(0, ErrorCode.NONE)
    assert set(asked) == set(keys)
