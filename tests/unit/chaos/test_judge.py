"""Does the judge of histories see each anomaly, and nothing where an unknown outcome or a rebalance explains what was seen?"""

from __future__ import annotations

from typing import Final

import pytest

from headrace.sim.anomalies.history import (
    NEVER,
    NOWHERE,
    Assigned,
    Change,
    ChangeKind,
    Commit,
    Fatal,
    History,
    Outcome,
    Part,
    Poll,
    PositionRead,
    SeenRecord,
    Send,
    Start,
    TopicRead,
)
from headrace.sim.anomalies.judge import EACH, judge, summary

PART: Final = Part("t", 0)
GROUP: Final = "g"


def send(number: int, offset: int = NOWHERE, *, client: str = "p", outcome: Outcome = Outcome.OK) -> Send:
    """The call with the value `p-<number>`."""
    value = f"{client}-{number}"
    return Send(
        client=client,
        number=number,
        part=PART,
        value=value,
        digest=f"digest of {value}",
        began=float(number),
        ended=NEVER if outcome is Outcome.UNKNOWN else number + 0.5,
        outcome=outcome,
        offset=offset,
    )


def seen(offset: int, value: str) -> SeenRecord:
    """The record as it was sent."""
    return SeenRecord(PART, offset, value, f"digest of {value}")


def poll(at: float, *records: tuple[int, str], client: str = "c") -> Poll:
    """What a consumer got."""
    return Poll(client=client, at=at, records=tuple(seen(*each) for each in records))


def assigned(at: float, start: int = 0, *, client: str = "c") -> Assigned:
    """The partition, from an offset on."""
    return Assigned(client=client, at=at, positions={PART: start})


def codes(history: History) -> list[str]:
    """What the judge says, without the words."""
    return [each.code for each in judge(history)]


def test_a_history_in_which_all_is_well() -> None:
    """inv:H1 inv:H2 inv:H3 inv:H6..H9 inv:H15: also with a record of unknown outcome that is there, and one that is not."""
    history = History(
        sends=[
            send(0, 0),
            send(1, outcome=Outcome.UNKNOWN),
            send(2, 2),
            send(3, outcome=Outcome.UNKNOWN),
            send(4, outcome=Outcome.FAILED),
        ],
        assigned=[assigned(0)],
        polls=[poll(5, (0, "p-0"), (1, "p-1")), poll(6, (2, "p-2"))],
    )
    assert judge(history) == []


def test_one_offset_with_two_values() -> None:
    """inv:H1: seen by two consumers, or acknowledged and seen; the same value seen by both is fine."""
    sends = [send(0, outcome=Outcome.UNKNOWN), send(1, client="q", outcome=Outcome.UNKNOWN)]
    polls = [poll(5, (0, "p-0"), client="c"), poll(6, (0, "q-1"), client="d")]
    assert codes(History(sends=sends, polls=polls)) == ["H1"]
    assert codes(History(sends=[send(0, 0), sends[1]], polls=[poll(5, (0, "q-1"))])) == ["H1", "H3"]
    assert codes(History(sends=sends, polls=[polls[0], poll(6, (0, "p-0"), client="d")])) == []


def test_an_acknowledged_record_below_what_was_polled_that_nobody_saw() -> None:
    """inv:H2: one of unknown outcome may be missing."""
    polls = [poll(5, (0, "p-0"), (2, "p-2"))]
    assert codes(History(sends=[send(0, 0), send(1, 1), send(2, 2)], polls=polls)) == ["H2"]
    assert codes(History(sends=[send(0, 0), send(1, outcome=Outcome.UNKNOWN), send(2, 2)], polls=polls)) == []


def test_an_acknowledged_record_of_which_nobody_told_where_it_lies() -> None:
    """inv:H2 inv:H9: a client may know from a later acknowledgement that it was stored."""
    sends = [send(0, 0), send(1, NOWHERE), send(2, 2)]
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0"), (1, "p-1"), (2, "p-2"))])) == []
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0"), (2, "p-2"))])) == ["H2"]
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0"), (2, "p-2"), (3, "p-1"))])) == ["H9"]


def test_an_acknowledged_record_that_the_last_reading_did_not_show() -> None:
    """inv:H3: without a reading to the end nothing is said of what lies above."""
    history = History(sends=[send(0, 0), send(1, 1)], polls=[poll(5, (0, "p-0"))])
    assert codes(history) == ["H3"]
    history.is_read_to_end = False
    assert codes(history) == []


def test_one_value_at_two_offsets() -> None:
    """inv:H6: told of at one offset and read at another is two as well; read twice at one offset is not."""
    sends = [send(0, outcome=Outcome.UNKNOWN)]
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0"), (1, "p-0"))])) == ["H6"]
    assert codes(History(sends=[send(0, 3)], polls=[poll(5, (4, "p-0"))])) == ["H6"]
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0")), poll(6, (0, "p-0"), client="d")])) == []


def test_a_consumer_that_jumps_over_a_record() -> None:
    """inv:H7: within a poll, between two, and at the beginning; not over an offset that nobody has, nor across a new assignment."""
    sends = [send(number, number) for number in range(3)]
    other = poll(1, (0, "p-0"), (1, "p-1"), (2, "p-2"), client="d")
    inside = [assigned(0), poll(5, (0, "p-0"), (2, "p-2"))]
    between = [assigned(0), poll(5, (0, "p-0")), poll(6, (2, "p-2"))]
    at_the_start = [assigned(0), poll(5, (1, "p-1"), (2, "p-2"))]
    rebalanced = [assigned(0), poll(5, (0, "p-0")), assigned(6, 2), poll(7, (2, "p-2"))]
    taken_away = [assigned(0), Assigned(client="c", at=1, positions={}), poll(6, (2, "p-2"))]
    for sights, expected in [
        (inside, ["H7"]),
        (between, ["H7"]),
        (at_the_start, ["H7"]),
        (rebalanced, []),
        (taken_away, []),
    ]:
        history = History(sends=sends, polls=[other])
        history.assigned = [each for each in sights if isinstance(each, Assigned)]
        history.polls += [each for each in sights if isinstance(each, Poll)]
        assert codes(history) == expected
    gap = History(sends=[send(0, 0), send(1, outcome=Outcome.UNKNOWN), send(2, 2)], assigned=[assigned(0)])
    gap.polls = [poll(5, (0, "p-0"), (2, "p-2"))]
    assert codes(gap) == []


def test_a_group_member_that_does_not_know_where_it_begins() -> None:
    """inv:H7: its first record may be any, the next may not."""
    sends = [send(number, number) for number in range(4)]
    other = poll(1, *((number, f"p-{number}") for number in range(4)), client="d")
    history = History(sends=sends, polls=[other, poll(5, (1, "p-1")), poll(6, (3, "p-3"))])
    history.assigned = [assigned(0, NOWHERE)]
    assert codes(history) == ["H7"]
    history.polls[-1] = poll(6, (2, "p-2"), (3, "p-3"))
    assert codes(history) == []


def test_a_consumer_that_is_given_a_record_again() -> None:
    """inv:H8: the same or an earlier one; after a rebalance that is usual."""
    sends = [send(0, 0), send(1, 1)]
    history = History(sends=sends, assigned=[assigned(0)], polls=[poll(5, (0, "p-0"), (1, "p-1")), poll(6, (1, "p-1"))])
    assert codes(history) == ["H8"]
    history.assigned.append(assigned(5.5, 0))
    history.polls[-1] = poll(6, (0, "p-0"))
    assert codes(history) == []


def test_records_of_a_producer_in_another_order() -> None:
    """inv:H9: also where one of them was never acknowledged; records of two producers may stand in any order."""
    polls = [poll(5, (0, "p-1"), (1, "p-0"))]
    assert codes(History(sends=[send(0, 1), send(1, 0)], polls=polls)) == ["H9"]
    assert codes(History(sends=[send(0, outcome=Outcome.UNKNOWN), send(1, 0)], polls=polls)) == ["H9"]
    two = [send(0, 1), send(1, 0, client="q")]
    assert codes(History(sends=two, polls=[poll(5, (0, "q-1"), (1, "p-0"))])) == []


def test_bytes_that_differ_from_what_was_sent() -> None:
    """inv:H15: another key, header or timestamp; a value that nobody sent, or sent to another partition."""
    sends = [send(0, 0)]
    changed = Poll(client="c", at=5, records=(SeenRecord(PART, 0, "p-0", "another digest"),))
    assert codes(History(sends=sends, polls=[changed])) == ["H15"]
    assert codes(History(sends=sends, polls=[poll(5, (0, "p-0"), (1, "nobody's"))])) == ["H15"]
    assert codes(History(sends=[send(0, outcome=Outcome.UNKNOWN)], polls=[poll(5, (0, "p-0"))])) == []


def test_a_client_that_cannot_go_on() -> None:
    """inv:PR2 inv:PR4 inv:PR7: nothing of what is broken here may end an idempotent producer, leave its records without an answer, or a consumer without its place."""
    assert codes(History(fatal=[Fatal(client="p", at=1, rule="PR4", error="out of order")])) == ["PR4"]
    assert codes(History(fatal=[Fatal(client="c", at=1, rule="PR2", error="out of range")])) == ["PR2"]
    assert codes(History(fatal=[Fatal(client="p", at=1, rule="PR7", error="no answer")])) == ["PR7"]


def commit(offset: int, began: float, outcome: Outcome = Outcome.OK, *, group: str = GROUP) -> Commit:
    """A position that is set within half a millisecond."""
    ended = NEVER if outcome is Outcome.UNKNOWN else began + 0.5
    return Commit(client="m", group=group, part=PART, offset=offset, began=began, ended=ended, outcome=outcome)


def position(offset: int, began: float) -> PositionRead:
    """A position that is read within half a millisecond."""
    return PositionRead(client="r", group=GROUP, part=PART, offset=offset, began=began, ended=began + 0.5)


@pytest.mark.parametrize(
    ("commits", "read", "is_fine"),
    [
        ([commit(5, 1), commit(9, 2)], position(5, 3), False),
        ([commit(5, 1), commit(9, 2)], position(NOWHERE, 3), False),
        ([commit(5, 1), commit(9, 2)], position(7, 3), False),
        ([commit(5, 1), commit(9, 2)], position(9, 3), True),
        ([commit(5, 1), commit(9, 2, Outcome.UNKNOWN)], position(5, 3), True),
        ([commit(5, 1), commit(9, 2, Outcome.UNKNOWN)], position(9, 3), True),
        ([commit(5, 1), commit(9, 2, Outcome.FAILED)], position(5, 3), True),
        ([commit(5, 1), commit(9, 2, Outcome.FAILED)], position(9, 3), False),
        ([commit(5, 1, Outcome.UNKNOWN), commit(9, 2)], position(5, 3), True),
        ([commit(9, 1), commit(5, 2)], position(5, 3), True),
        ([commit(5, 1), commit(9, 2.9)], position(5, 3), True),
        ([commit(9, 4)], position(NOWHERE, 3), True),
        ([commit(9, 4)], position(9, 3), False),
        ([commit(5, 1, group="another")], position(NOWHERE, 3), True),
    ],
)
def test_the_position_of_a_group(commits: list[Commit], read: PositionRead, *, is_fine: bool) -> None:
    """inv:H14: the latest acknowledged one, or one that is or may still be under way."""
    assert codes(History(commits=commits, positions=[read])) == ([] if is_fine else ["H14"])


def change(kind: str, began: float, outcome: str = "ok", *, partitions: int = 2, error: str = "") -> Change:
    """A call of one millisecond on topic `t`."""
    ended = NEVER if outcome == "unknown" else began + 1
    return Change(
        client="a",
        kind=ChangeKind(kind),
        topic="t",
        partitions=partitions,
        began=began,
        ended=ended,
        outcome=Outcome(outcome),
        error=error,
    )


EXISTS: Final = "TOPIC_ALREADY_EXISTS"
NOT_THERE: Final = "UNKNOWN_TOPIC_OR_PARTITION"
NOT_MORE: Final = "INVALID_PARTITIONS"


@pytest.mark.parametrize(
    ("changes", "is_fine"),
    [
        ([change("create", 1), change("create", 3)], False),
        ([change("create", 1), change("create", 1.5)], False),
        ([change("create", 1), change("delete", 3), change("create", 5)], True),
        ([change("create", 1), change("create", 3, "failed", error=EXISTS)], True),
        ([change("delete", 1)], False),
        ([change("create", 1), change("delete", 3), change("grow", 5, partitions=4)], False),
        ([change("create", 1), change("grow", 3, partitions=4), change("grow", 5, partitions=3)], False),
        ([change("create", 1), change("grow", 3, "unknown", partitions=4), change("grow", 5, partitions=3)], True),
        ([change("create", 1), change("grow", 3, "failed", partitions=2, error=NOT_MORE)], True),
        ([change("create", 1), change("grow", 3, "failed", partitions=4, error=NOT_THERE)], False),
        ([change("create", 1), change("grow", 3, "failed", partitions=4, error="REASSIGNMENT_IN_PROGRESS")], True),
        ([change("create", 1, "unknown"), change("delete", 3)], True),
        ([change("create", 1, "unknown"), change("create", 3)], True),
        ([change("create", 1), change("delete", 3, "unknown"), change("create", 5)], True),
        ([change("create", 1), change("delete", 3, "unknown"), change("delete", 5), change("delete", 7)], False),
        ([change("create", 1, "failed", error=EXISTS), change("delete", 3)], True),
        ([change("create", 1), change("delete", 3, "failed", error=NOT_THERE), change("create", 5)], True),
    ],
)
def test_changes_of_a_topic_have_an_order(changes: list[Change], *, is_fine: bool) -> None:
    """inv:H13: one that explains every answer. A forwarded call that is sent again may be refused for what it did itself."""
    assert codes(History(changes=changes)) == ([] if is_fine else ["H13"])


def read(began: float, topic_id: str, partitions: int = 2, *, broker: int = 1) -> TopicRead:
    """A read of one millisecond."""
    return TopicRead(
        client="a",
        broker=broker,
        topic="t",
        topic_id=topic_id,
        partitions=partitions,
        began=began,
        ended=began + 1,
    )


@pytest.mark.parametrize(
    ("reads", "starts", "is_fine"),
    [
        ([read(1, "A"), read(3, ""), read(5, "A")], [], False),
        ([read(1, "A"), read(3, "B"), read(5, "A")], [], False),
        ([read(1, "A", 4), read(3, "A", 2)], [], False),
        ([read(1, ""), read(3, "A", 2), read(5, "A", 4), read(7, "B", 1), read(9, "")], [], True),
        ([read(1, "A"), read(3, ""), read(5, "A", broker=2)], [], True),
        ([read(1, "A"), read(3, ""), read(5, "A")], [Start(1, 4.5)], True),
        ([read(1, "A"), read(3, ""), read(5, "A")], [Start(2, 4.5)], False),
        ([read(1, "A"), read(1.5, ""), read(2, "A")], [], True),
    ],
)
def test_a_broker_does_not_forget(reads: list[TopicRead], starts: list[Start], *, is_fine: bool) -> None:
    """inv:H13: one process of one broker, reads that do not overlap. A process that starts may know less than its former one."""
    assert codes(History(reads=reads, starts=starts)) == ([] if is_fine else ["H13"])


def test_of_one_kind_a_few_are_told() -> None:
    """The others are counted."""
    history = History(fatal=[Fatal(client=f"p{number}", at=1, rule="PR4", error="x") for number in range(EACH + 3)])
    assert summary(judge(history)) == [*(f"PR4: p{number}: x" for number in range(EACH)), "PR4: and 3 more"]
