"""Parts of a response that come at different times, made into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.rpc.reply import AnyReply, Deferred, HandlerResult, InSteps, Reply, begun


def gather(parts: Sequence[HandlerResult], combine: Callable[[list[Any]], object]) -> HandlerResult:
    """One result out of many, in their order: at once when every part is there, else when the last one comes. `combine` makes a message of them, or steps to one.

    The parts are replies, or deferreds that complete with replies.
    """
    if not any(isinstance(part, Deferred) for part in parts):
        return _reply(combine([_message(part) for part in parts]))
    return _Gathering(parts, combine).whole


class _Gathering:
    """Waits for the missing parts of one answer."""

    def __init__(self, parts: Sequence[HandlerResult], combine: Callable[[list[Any]], object]) -> None:
        self._combine = combine
        self._messages: list[Any] = [None] * len(parts)
        self._deferred = [part for part in parts if isinstance(part, Deferred)]
        self._missing = len(parts)
        self.whole = Deferred(on_abandoned=self._abandon)
        for index, part in enumerate(parts):
            if isinstance(part, Deferred):
                part.when_done(self._taker(index))
            else:
                self._take(index, part)

    def _taker(self, index: int) -> Callable[[AnyReply], None]:
        return lambda reply: self._take(index, reply)

    def _take(self, index: int, reply: AnyReply) -> None:
        self._messages[index] = _message(reply)
        self._missing -= 1
        if not self._missing:
            whole = begun(_reply(self._combine(self._messages)))
            assert isinstance(whole, Reply | InSteps), "steps of a message end in one"
            self.whole.complete(whole)

    def _abandon(self) -> None:
        for part in self._deferred:
            part.abandon()


def _reply(combined: object) -> Reply | InSteps:
    return combined if isinstance(combined, InSteps) else Reply(combined)


def _message(part: HandlerResult) -> Any:
    assert isinstance(part, Reply), "parts are messages"
    return part.message
