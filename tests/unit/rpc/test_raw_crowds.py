"""Are larger raw requests of a crowd handled in later turns, and all others as they come?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.errors import DecodeError
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import CROWD_S, HUGE_BYTES, MOST_HELD_BYTES, LongWork
from headrace.rpc.raw_crowds import LARGER_BYTES, LONG_BYTES, in_turns
from headrace.rpc.reply import Deferred, EncodedReply, HotResult, InSteps

CONTEXT = RequestContext(api_key=1, api_version=12)
SMALL, LARGE = bytes(LARGER_BYTES - 1), bytes(LARGER_BYTES)


class Turns:
    """A loop whose turns the test takes, and a clock that each request moves by a good part of what a turn may handle."""

    def __init__(self, answer: HotResult = b"answer") -> None:
        self.answer = answer
        self.now_s = 0.0
        self.handled = 0
        self._soon: list[Callable[[], None]] = []
        self.work = LongWork(soon=self._soon.append, clock=lambda: self.now_s)
        self._handle = in_turns(self._take, self.work)

    def _take(self, body: memoryview, context: RequestContext, target: Any) -> HotResult:
        if bytes(body[:3]) == b"bad":
            raise DecodeError("no request")
        self.now_s += CROWD_S * 0.6
        self.handled += 1
        return self.answer

    def ask(self, body: bytes) -> HotResult:
        """One request, as a connection has it handled."""
        return self._handle(memoryview(body), CONTEXT, None)

    def turn(self) -> None:
        """What was left for the next turn."""
        soon, self._soon[:] = [*self._soon], []
        for each in soon:
            each()


def later(turns: Turns, result: HotResult) -> Any:
    """What comes of a request that is handled in a later turn."""
    assert isinstance(result, InSteps)
    found: list[Any] = []
    turns.work.begin(result.steps, found.append, size=result.size)
    turns.turn()
    turns.turn()
    return found[0]


@pytest.mark.parametrize("answer", [b"answer", (b"answer",), EncodedReply((b"answer",))])
def test_what_comes_when_a_turn_has_handled_enough_is_handled_later(answer: HotResult) -> None:
    """PR8: the answer is the same; small requests are handled as they come, and in the next turn all."""
    turns = Turns(answer)
    assert [turns.ask(LARGE), turns.ask(LARGE)] == [answer, answer]
    waiting = turns.ask(LARGE)
    assert turns.handled == 2
    assert turns.ask(SMALL) == answer
    assert later(turns, waiting) == EncodedReply((b"answer",))
    assert turns.handled == 4
    assert turns.ask(LARGE) == answer


def test_answers_that_take_steps_or_wait_are_handed_on() -> None:
    def steps() -> Any:
        yield None
        return EncodedReply((b"long",))

    turns = Turns(waits := Deferred())
    waiting = [turns.ask(LARGE) for _ in range(4)][2:]
    assert later(turns, waiting[0]) is waits
    turns.answer = InSteps(steps())
    assert later(turns, waiting[1]) == EncodedReply((b"long",))


def test_a_bad_request_is_refused_whenever_it_is_handled() -> None:
    turns = Turns()
    bad = b"bad" + LARGE[3:]
    with pytest.raises(DecodeError):
        turns.ask(bad)
    for _ in range(2):
        turns.ask(LARGE)
    waiting = turns.ask(bad)
    assert isinstance(waiting, InSteps)
    with pytest.raises(DecodeError):
        next(waiting.steps)


def test_a_followers_fetch_does_not_wait_for_long_requests() -> None:
    """P8, PR8: with all memory for long requests taken, and one of them under way; as it would in front of a crowd."""
    turns = Turns()

    def long_one() -> Any:
        while True:
            turns.now_s += CROWD_S / 5
            yield None

    turns.work.begin(long_one(), lambda _: None, size=MOST_HELD_BYTES - HUGE_BYTES)
    for _ in range(2):
        turns.work.begin(long_one(), lambda _: None, size=HUGE_BYTES // 2)
    for _ in range(2):
        turns.ask(LARGE)
    waiting = turns.ask(LARGE)
    assert isinstance(waiting, InSteps)
    assert turns.work.has_room(waiting.size)
    assert later(turns, waiting) == EncodedReply((b"answer",))
    for _ in range(2):
        turns.ask(LARGE)
    long = turns.ask(bytes(LONG_BYTES))
    assert isinstance(long, InSteps)
    assert not turns.work.has_room(long.size)
