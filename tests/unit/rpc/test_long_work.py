"""Does long work leave others their turns, and come to its end?"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from headrace.net.buffers import RequestMemory
from headrace.rpc.long_work import (
    HUGE_BYTES,
    MOST_HELD_BYTES,
    MOST_UNDER_WAY_BYTES,
    LongWork,
    Steps,
    all_released,
    released,
)
from headrace.rpc.reply import NO_REPLY, OTHERS_FIRST, AnyReply, Deferred
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.broker_bench import Turns


def counting(to: int, log: list[str], name: str) -> Steps[str]:
    """Work of so many steps."""
    for number in range(to):
        log.append(f"{name}{number}")
        yield None
    return name


def _unwanted(_: None) -> None:
    raise AssertionError("nobody wants this result")


def test_works_go_on_in_turns_and_give_way_after_a_few_steps() -> None:
    """M6: three milliseconds, then the loop; each work has its share."""
    turns, log, ended = Turns(), list[str](), list[str]()
    turns.work.begin(counting(3, log, "a"), ended.append)
    turns.work.begin(counting(2, log, "b"), ended.append)
    turns.turn()
    assert log == ["a0", "b0"]
    turns.turn()
    assert log == ["a0", "b0", "a1", "b1"]
    for _ in range(3):
        turns.turn()
    assert (log, ended, turns.due) == (["a0", "b0", "a1", "b1", "a2"], ["b", "a"], [])


def test_who_asks_for_little_does_not_wait_for_all_who_ask_for_much() -> None:
    """PR8, M6: a work that is new is before those that have run for a millisecond; one of these goes on in each turn."""
    turns, log, ended = Turns(), list[str](), list[str]()
    for number in range(20):
        turns.work.begin(counting(50, log, f"a{number}-"), ended.append)
    while len(log) < 40:
        turns.turn()
    log.clear()
    turns.work.begin(counting(1, log, "b"), ended.append)
    turns.turn()
    turns.turn()
    assert [name for name in log if not name.startswith("a")] == ["b0"]
    assert len(log) == 4


def test_a_crowd_of_one_kind_is_not_before_another_kind() -> None:
    """PR8, M6: among works that have not run, one of each API in turn."""
    turns, log = Turns(), list[str]()
    for number in range(20):
        turns.work.begin(counting(1, log, f"a{number}-"), lambda _: None, kind=1)
    turns.work.begin(counting(1, log, "b"), lambda _: None, kind=2)
    turns.turn()
    assert log == ["a0-0", "b0"]


def test_what_goes_on_with_a_long_work_is_not_before_a_new_one() -> None:
    """M6: the answer of a work that took long is written, and its memory given back, behind those that have not run."""
    turns, log = Turns(), list[str]()
    for number in range(20):
        turns.work.begin(counting(1, log, f"a{number}-"), lambda _: None, goes_on=True)
    turns.work.begin(counting(1, log, "b"), lambda _: None)
    turns.turn()
    assert log == ["a0-0", "b0"]


@pytest.mark.parametrize("heavy_s", [0.002, 0.010])
def test_a_step_that_takes_long_is_behind_all_who_have_run_little(heavy_s: float) -> None:
    """PR8, M6: a hundred that look a little and have a topic made then took all turns; where one such step is all of a turn, others have the next."""
    now_s = 0.0
    due, ended = list[Callable[[], None]](), list[str]()
    work = LongWork(soon=due.append, clock=lambda: now_s)

    def steps(name: str, wants: Deferred | None, then_s: float) -> Steps[str]:
        nonlocal now_s
        now_s += 0.0001
        yield wants
        now_s += then_s
        return name

    def turn() -> None:
        turn, due[:] = list(due), []
        for each in turn:
            each()

    for _ in range(100):
        work.begin(steps("heavy", OTHERS_FIRST, heavy_s), ended.append)
    work.begin(steps("short", None, 0.0001), ended.append)
    while "short" not in ended:
        turn()
    assert len(ended) <= 10
    while due:
        turn()
    assert len(ended) == 101


def test_of_huge_works_one_is_under_way_at_a_time() -> None:
    """M2: what a request of megabytes is made into takes several times as much; small ones do not wait for it."""
    turns, log, ended = Turns(), list[str](), list[str]()
    for name in "ab":
        turns.work.begin(counting(2, log, name), ended.append, size=HUGE_BYTES + 1)
    turns.work.begin(counting(1, log, "c"), ended.append, size=HUGE_BYTES)
    while turns.due:
        turns.turn()
    assert log == ["a0", "c0", "a1", "b0", "b1"]
    assert sorted(ended) == ["a", "b", "c"]


def test_of_smaller_works_some_megabytes_are_under_way_at_a_time() -> None:
    """inv:M2: a hundred requests of a megabyte would take as much as one of a hundred; the others begin in their order."""
    turns, log, ended = Turns(), list[str](), list[str]()
    for name in "abcdef":
        turns.work.begin(counting(2, log, name), ended.append, size=MOST_UNDER_WAY_BYTES // 4)
    turns.run()
    assert [step for step in log if step.endswith("0")] == ["a0", "b0", "c0", "d0", "e0", "f0"]
    assert log.index("e0") > min(log.index(f"{name}1") for name in "abcd")
    assert sorted(ended) == list("abcdef")


def test_of_works_that_have_run_for_long_one_is_under_way_at_a_time() -> None:
    """inv:M2: a request of a few bytes may ask for much, again and again; what was made of the others waits, and short works do not."""
    turns, log, ended = Turns(), list[str](), list[str]()
    jobs = [turns.work.begin(counting(1_000, log, name), ended.append) for name in "ab"]
    while not all(job.is_long for job in jobs):
        turns.turn()
    log.clear()
    turns.work.begin(counting(1, log, "c"), ended.append)
    for _ in range(10):
        turns.turn()
    assert {entry[0] for entry in log} == {"a", "c"}
    assert ended == ["c"]
    turns.run()
    assert ended == ["c", "a", "b"]


def test_a_long_work_that_is_given_up_leaves_its_place_to_the_next() -> None:
    """PR8, M6: whether it was under way, or waited for its turn."""
    for given_up, rest in ((0, ["b", "c"]), (1, ["a", "c"])):
        turns, ended = Turns(), list[str]()
        jobs = [turns.work.begin(counting(1_000, [], name), ended.append) for name in "abc"]
        while not all(job.is_long for job in jobs):
            turns.turn()
        jobs[given_up].cancel()
        turns.run()
        assert ended == rest


def test_what_is_kept_of_requests_counts_as_memory_for_requests() -> None:
    """inv:M1, `queued.max.request.bytes`: from the beginning to the end of a work, or until it is cancelled and had its turn."""
    due, memory = list[Callable[[], None]](), RequestMemory(100)
    work = LongWork(soon=due.append, clock=lambda: 0.0, held=memory.changed)
    work.begin(counting(1, [], "a"), lambda _: None, size=60)
    other = work.begin(counting(1, [], "b"), lambda _: None, size=50)
    work.begin(counting(1, [], "c"), lambda _: None)
    assert (memory.held, memory.is_exhausted) == (110, True)
    other.cancel()
    while due:
        due.pop(0)()
    assert (memory.held, memory.is_exhausted) == (0, False)


def test_a_work_waits_for_a_reply_and_others_go_on() -> None:
    """Forwarded parts of a request are sent one after the other."""
    turns, log, ended = Turns(), list[str](), list[AnyReply | str | None]()
    waits_for = Deferred()

    def waiting() -> Steps[AnyReply | None]:
        return (yield waits_for)

    turns.work.begin(waiting(), ended.append)
    turns.work.begin(counting(1, log, "b"), ended.append)
    while turns.due:
        turns.turn()
    assert ended == ["b"]
    waits_for.complete(NO_REPLY)
    turns.turn()
    assert ended == ["b", NO_REPLY]


def test_cancelled_work_ends_and_tells_whom_it_waits_for() -> None:
    """A client that goes leaves neither work nor waiting behind."""
    turns, log = Turns(), list[str]()
    waits_for = Deferred()

    def waiting() -> Steps[None]:
        yield waits_for

    job = turns.work.begin(waiting(), _unwanted)
    other = turns.work.begin(counting(9, log, "a"), log.append, size=HUGE_BYTES + 1)
    turns.turn()
    for each in (job, other):
        each.cancel()
    while turns.due:
        turns.turn()
    assert waits_for.is_done
    assert log == ["a0"]


def test_a_huge_work_that_is_cancelled_while_it_waits_leaves_its_place_to_the_next() -> None:
    """PR8, M6: a client that goes while its large request waits for the controller must not stop all large requests for good."""
    turns, log, closed = Turns(), list[str](), list[str]()
    waits_for = Deferred()

    def waiting() -> Steps[None]:
        try:
            yield waits_for
        finally:
            closed.append("waiting")

    job = turns.work.begin(waiting(), _unwanted, size=HUGE_BYTES + 1)
    turns.work.begin(counting(1, log, "a"), log.append, size=HUGE_BYTES + 1)
    turns.turn()
    assert (job.is_waiting, log) == (True, [])
    job.cancel()
    while turns.due:
        turns.turn()
    assert (waits_for.is_done, closed, log) == (True, ["waiting"], ["a0", "a"])


def test_what_waits_for_its_turn_is_bounded_and_given_back_when_its_asker_goes() -> None:
    """inv:M1: a request that waits for its turn lies in memory whole, however many connections send such; so do those whose clients have gone."""
    turns, log = Turns(), list[str]()
    size = MOST_HELD_BYTES // 4

    def holding(body: bytearray) -> Steps[None]:
        log.append(f"begun {len(body)}")
        yield None

    bodies = [bytearray(1) for _ in range(4)]
    jobs = [turns.work.begin(holding(body), lambda _: None, size=size) for body in bodies]
    assert (turns.work.has_room(1), turns.work.has_room(0)) == (False, True)
    before = sys.getrefcount(bodies[3])
    jobs[3].cancel()
    given_back = before - sys.getrefcount(bodies[3])
    assert given_back == 1
    while turns.due:
        turns.turn()
    assert log == ["begun 1"] * 3
    assert turns.work.has_room(MOST_HELD_BYTES)


def test_a_work_that_fails_does_not_stop_the_others() -> None:
    """A bug is told, and costs its connection only."""
    turns, log = Turns(), list[str]()

    def failing() -> Steps[None]:
        yield None
        raise ValueError("a bug")

    turns.work.begin(failing(), _unwanted)
    turns.work.begin(counting(2, log, "b"), log.append)
    turns.turn()
    with pytest.raises(ValueError, match="a bug"):
        turns.turn()
    while turns.due:
        turns.turn()
    assert log == ["b0", "b1", "b"]


def test_memory_is_given_back_in_steps() -> None:
    """To free a million parts takes a tenth of a second."""
    partitions = tuple(ListOffsetsPartition(partition_index=index) for index in range(1_000))
    topics = tuple(ListOffsetsTopic(name=f"t{index}", partitions=partitions) for index in range(1_000))
    request = ListOffsetsRequest(topics=topics)
    assert sum(1 for _ in released(request)) > 1_000
    assert request.topics == ()


def test_answers_that_are_given_up_give_their_memory_back_in_steps() -> None:
    """inv:M6: a client that goes while much is answered to it."""
    messages = [ListOffsetsRequest(topics=(ListOffsetsTopic(name="t"),) * 1_000) for _ in range(3)]
    assert len(list(all_released(messages))) >= 3 * 3
    assert messages == []
