"""Does a waiting reply leave when what it waits for has moved, or when its time is up, and only once?"""

from __future__ import annotations

from itertools import pairwise

from headrace.rpc.purgatory import Purgatory
from headrace.rpc.reply import NO_REPLY, Deferred, Reply


def waiting(
    purgatory: Purgatory, *, keys: tuple[str, ...] = ("a",), deadline_ms: int | None = None
) -> tuple[Deferred, list[bool]]:
    """A deferred that completes at the first attempt after `ready` was set."""
    ready: list[bool] = []
    deferred = Deferred(deadline_ms=deadline_ms, on_timeout=lambda: Reply("late"))
    purgatory.watch(deferred, keys, lambda: bool(ready) and deferred.complete(Reply("done")))
    return deferred, ready


def test_a_reply_leaves_when_its_key_moves_and_it_is_complete() -> None:
    purgatory = Purgatory()
    deferred, ready = waiting(purgatory)
    purgatory.moved("a")
    assert not deferred.is_done
    ready.append(True)
    purgatory.moved("b")
    assert not deferred.is_done
    purgatory.moved("a")
    assert deferred.reply == Reply("done")
    assert len(purgatory) == 0


def test_a_reply_with_two_keys_is_forgotten_under_both() -> None:
    purgatory = Purgatory()
    deferred, ready = waiting(purgatory, keys=("a", "b"))
    ready.append(True)
    purgatory.moved("b")
    assert deferred.reply == Reply("done")
    purgatory.moved("a")
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None


def test_at_the_deadline_the_timeout_reply_leaves() -> None:
    purgatory = Purgatory()
    deferred, ready = waiting(purgatory, deadline_ms=100)
    assert purgatory.next_deadline_ms() == 100
    purgatory.expire(99)
    assert not deferred.is_done
    purgatory.expire(100)
    assert deferred.reply == Reply("late")
    ready.append(True)
    purgatory.moved("a")
    assert deferred.reply == Reply("late")


def test_an_abandoned_reply_is_not_kept() -> None:
    """M5: a client that goes away leaves nothing behind."""
    purgatory = Purgatory()
    deferred, _ = waiting(purgatory, deadline_ms=100)
    deferred.abandon()
    assert len(purgatory) == 0
    assert purgatory.next_deadline_ms() is None
    purgatory.expire(200)
    assert deferred.reply is None


def test_a_reply_is_given_once() -> None:
    deferred = Deferred()
    seen: list[object] = []
    assert deferred.complete(Reply(1))
    assert not deferred.complete(NO_REPLY)
    deferred.when_done(seen.append)
    assert seen == [Reply(1)]


def test_deadlines_of_replies_that_were_given_are_not_kept() -> None:
    """inv:M5: a client that asks for weeks and is answered at once, all day long."""
    purgatory = Purgatory()
    for _ in range(10_000):
        _, ready = waiting(purgatory, deadline_ms=2**31)
        ready.append(True)
        purgatory.moved("a")
    late, _ = waiting(purgatory, deadline_ms=500)
    assert len(purgatory) == 1
    assert purgatory.next_deadline_ms() == 500
    assert len(purgatory._deadlines) < 2_000
    purgatory.expire(500)
    assert late.reply == Reply("late")


def test_very_many_that_are_due_at_one_moment_are_answered_in_turns() -> None:
    """PR8: the rest is still due, so that the next turn comes at once."""
    purgatory = Purgatory()
    crowd = [waiting(purgatory, deadline_ms=100)[0] for _ in range(1_000)]
    answered = []
    while purgatory.next_deadline_ms() == 100:
        purgatory.expire(100)
        answered.append(sum(each.is_done for each in crowd))
    assert answered[-1] == 1_000
    assert max(after - before for before, after in pairwise([0, *answered])) <= 100
    assert all(each.reply == Reply("late") for each in crowd)


def test_a_reply_that_is_hastened_is_due_now_and_once() -> None:
    purgatory = Purgatory()
    told: list[int] = []
    purgatory.on_deadline = told.append
    deferred, _ = waiting(purgatory, deadline_ms=500)
    other, _ = waiting(purgatory, deadline_ms=400)
    purgatory.hasten(deferred, 100)
    purgatory.hasten(deferred, 101)
    assert (told, purgatory.next_deadline_ms()) == ([500, 400, 100], 100)
    purgatory.expire(100)
    assert (deferred.reply, other.is_done) == (Reply("late"), False)
    purgatory.hasten(deferred, 100)
    assert purgatory.next_deadline_ms() == 400


def test_a_reply_that_is_hastened_before_it_is_held_is_due_when_it_is() -> None:
    """A fetch of very many partitions begins to wait in steps."""
    purgatory = Purgatory()
    deferred = Deferred(deadline_ms=500, on_timeout=lambda: Reply("late"))
    purgatory.hasten(deferred, 100)
    purgatory.hold(deferred)
    purgatory.expire(100)
    assert deferred.reply == Reply("late")
