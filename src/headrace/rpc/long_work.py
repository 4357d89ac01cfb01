"""Long work in short turns: requests that name very much, and answers that say very much, hold nobody else up.

Work is a generator. Between two of its yields it does a bounded piece, a fraction of a millisecond; it may yield a `Deferred`, whose reply it is
sent, and it returns its result. `LongWork` gives each of the works that are under way a little time, then lets the event loop serve others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from headrace.rpc.reply import OTHERS_FIRST, AnyReply, Deferred
from headrace.rpc.unread import UnreadAnswers
from headrace.wire.schema import Message, fields_of

T = TypeVar("T")
Steps = Generator[Deferred | None, AnyReply | None, T]

TURN_S: Final = 0.003
"""How long works run before the loop has its turn: a small part of the 50 ms that nobody may wait for them."""
HUGE_BYTES: Final = 1 << 20
"""Of works on requests above this size one is under way at a time: what they are made into takes several times the memory."""
MOST_UNDER_WAY_BYTES: Final = 4 << 20
"""Of smaller requests so many bytes are under way at a time, others wait: together they would take as much memory as a huge one."""
CROWD_S: Final = 0.005
"""How long requests of many connections are handled in one turn as they come; what comes then is handled in later turns, as works."""
QUICK_S: Final = 0.001
"""A work that has not run for so long yet is before those that have: who asks for little does not wait for all who ask for much. Before both are those that
have not run at all, one of each kind in turn: a crowd of one API's requests is not before another API's."""
LONG_S: Final = 0.02
"""A work that has run for so long makes much of little, whatever its request's size: of such works, too, one is under way at a time."""
MOST_HELD_BYTES: Final = 128 << 20
"""Of requests that are under way or wait for their turn: beyond it a large one is refused, for each lies in memory whole (M1)."""
_LIGHTEST_BYTES: Final = 64 << 10
"""A request that is answered in steps counts at least so much among those under way, for what its answer takes."""
_OF_THE_LAST: Final = 2
_RELEASED_AT_ONCE: Final = 256


class Job:
    """One work: `cancel` when nobody wants its result."""

    __slots__ = (
        "_cancelled",
        "_go_on",
        "_waits_for",
        "answer",
        "done",
        "is_begun",
        "is_long",
        "kind",
        "size",
        "spent_s",
        "steps",
    )

    def __init__(self, steps: Steps[Any], done: Callable[[Any], object], *, size: int, kind: int) -> None:
        self.steps = steps
        self.done = done
        self.size = size
        self.kind = kind
        self.is_begun = False
        self.is_long = False
        self.spent_s = 0.0
        self.answer: AnyReply | None = None
        self._waits_for: Deferred | None = None
        self._go_on: Callable[[Job], None] = _not_waiting
        self._cancelled = False

    def wait(self, deferred: Deferred, go_on: Callable[[Job], None]) -> None:
        """Go on when the reply is there."""
        self._waits_for, self._go_on = deferred, go_on

        def there(reply: AnyReply) -> None:
            self._waits_for = None
            self.answer = reply
            go_on(self)

        deferred.when_done(there)

    def cancel(self) -> None:
        """Nobody wants it any more: it ends at its next turn."""
        self._cancelled = True
        if not self.is_begun:
            self.steps = _no_steps()  # it gives back its request now; others may be before it for long
        waits_for, self._waits_for = self._waits_for, None
        if waits_for is not None:
            waits_for.abandon()
            self._go_on(self)  # the reply will not come, and others may wait for this one's end

    @property
    def weight(self) -> int:
        """What it counts among those that are under way."""
        return max(self.size, _LIGHTEST_BYTES)

    @property
    def is_cancelled(self) -> bool:
        """Whether its result is not wanted."""
        return self._cancelled

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a reply."""
        return self._waits_for is not None


def _no_steps() -> Steps[None]:
    """What is left of a work that was cancelled before it began."""
    yield None


def _not_waiting(_: Job) -> None:
    """A work that waits for nothing has its turn anyway."""


class _Lane:
    """Works of one class of sizes: some are under way, the others wait for them in their order."""

    __slots__ = ("_most_bytes", "_under_way_bytes", "_waiting")

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` may be under way together; one larger work may be, alone."""
        self._most_bytes = most_bytes
        self._under_way_bytes = 0
        self._waiting: deque[Job] = deque()

    def enter(self, job: Job) -> bool:
        """Whether the job may begin; else it waits until `leave` gives it."""
        if self._waiting or not self._has_room(job):
            self._waiting.append(job)
            return False
        self._under_way_bytes += job.weight
        return True

    def leave(self, job: Job) -> list[Job]:
        """A job that was under way has ended: those that may begin now."""
        self._under_way_bytes -= job.weight
        following = []
        while self._waiting and self._has_room(self._waiting[0]):
            job = self._waiting.popleft()
            self._under_way_bytes += job.weight
            following.append(job)
        return following

    def _has_room(self, job: Job) -> bool:
        return not self._under_way_bytes or self._under_way_bytes + job.weight <= self._most_bytes


class _Row:
    """Works that wait for a step: those that have not run yet, those that have run little, and the rest."""

    __slots__ = ("_are_others_first", "_fresh", "_new", "_others_had_none", "_under_way")

    def __init__(self) -> None:
        self._are_others_first = self._others_had_none = False
        self._new: dict[int, deque[Job]] = {}
        self._fresh: deque[Job] = deque()
        self._under_way: deque[Job] = deque()

    def __bool__(self) -> bool:
        return bool(self._new or self._fresh or self._under_way)

    def add(self, job: Job) -> None:
        """It goes on behind its like."""
        if not job.spent_s:
            self._new.setdefault(job.kind, deque()).append(job)
        else:
            (self._fresh if job.spent_s < QUICK_S else self._under_way).append(job)

    def take(self, number: int) -> Job:
        """Whose step is the turn's next; `number` have been taken in it.

        The first two are for works that wait behind others by rule. Where a step of one that has run for long was all of the last turn, this one is for the others.
        """
        others = bool(self._new or self._fresh)
        if not number:
            self._are_others_first, self._others_had_none = self._others_had_none, others
        if self._under_way and not (others and (number or self._are_others_first)):
            return self._under_way.popleft()
        self._others_had_none = False
        if self._fresh and (number < _OF_THE_LAST or not self._new):
            return self._fresh.popleft()
        kind, jobs = next(iter(self._new.items()))
        del self._new[kind]
        job = jobs.popleft()
        if jobs:
            self._new[kind] = jobs  # behind the other kinds
        return job


class LongWork:
    """The works of one listener's connections, a little of each in turn.

    `soon` calls back after others had their turn; without it a work is done at once, to its end. `clock` gives seconds. `held` is told how many
    bytes of requests are kept more, or fewer when negative.
    """

    def __init__(
        self,
        *,
        soon: Callable[[Callable[[], None]], object] | None,
        clock: Callable[[], float],
        held: Callable[[int], None] | None = None,
    ) -> None:
        self._soon = soon
        self.clock = clock
        self._held = held
        self._row = _Row()
        self._huge = _Lane(0)
        self._large = _Lane(MOST_UNDER_WAY_BYTES)
        self._long: deque[Job] = deque()
        self.unread = UnreadAnswers()
        self._is_called_soon = False
        self._held_bytes = 0
        self._spent_s = 0.0
        self._is_turn_counted = False

    @property
    def is_crowded(self) -> bool:
        """Whether this turn has handled as much as one turn may, of however many connections."""
        return self._spent_s > CROWD_S

    def spent(self, seconds: float) -> None:
        """A request was handled as it came."""
        self._spent_s += seconds
        if not self._is_turn_counted and self._soon is not None:
            self._is_turn_counted = True
            self._soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_turn_counted = False
        self._spent_s = 0.0

    def has_room(self, size: int) -> bool:
        """Whether a request of this size may be begun."""
        return self._held_bytes + size <= MOST_HELD_BYTES

    def begin(
        self, steps: Steps[T], done: Callable[[T], object], *, size: int = 0, kind: int = 0, goes_on: bool = False
    ) -> Job:
        """Do the work; `done` gets its result, in a later turn. `size` is that of its request in bytes, `kind` its API and whether it asks for all.

        What `goes_on` with a work that has taken long is not before others as a new one would be.
        """
        job = Job(steps, done, size=size, kind=kind)
        if goes_on:
            job.spent_s = QUICK_S
        if size:
            self._hold(size)
        if not size or self._lane_of(job).enter(job):
            self._go_on(job)
        return job

    def release(self, messages: list[Any]) -> None:
        """Give the memory of messages back, in steps."""
        self.begin(all_released(messages), _nothing_more, goes_on=True)

    def _hold(self, by: int) -> None:
        self._held_bytes += by
        if self._held is not None:
            self._held(by)

    def _lane_of(self, job: Job) -> _Lane:
        return self._huge if job.size > HUGE_BYTES else self._large

    def _go_on(self, job: Job) -> None:
        self._row.add(job)
        if self._soon is None:
            if not self._is_called_soon:
                self._is_called_soon = True
                while self._row:
                    following = self._row.take(0)
                    if self._step(following):
                        self._row.add(following)
                self._is_called_soon = False
        elif not self._is_called_soon:
            self._is_called_soon = True
            self._soon(self._turn)

    def _turn(self) -> None:
        """A little of each work: one that has run for long, one that has run before, then the new ones. What a work raises is raised here, when the others are seen to."""
        self._is_called_soon = False
        now = self.clock()
        give_way_at = now + TURN_S
        job: Job | None = None
        goes_on = False
        number = 0
        try:
            while True:
                before, now = now, self.clock()
                if job is not None:
                    job.spent_s += now - before
                    if goes_on:
                        self._row.add(job)
                if not self._row or now >= give_way_at:
                    break
                job = self._row.take(number)
                number += 1
                goes_on = self._step(job)
        finally:
            if self._row and not self._is_called_soon and self._soon is not None:
                self._is_called_soon = True
                self._soon(self._turn)

    def _step(self, job: Job) -> bool:
        """One step of one work; whether it is to be in the row again: it has not ended and does not wait."""
        if job.is_cancelled:
            job.steps.close()
            self._ended(job)
            return False
        if job.spent_s > LONG_S and not job.is_long:
            job.is_long = True
            self._long.append(job)
            if len(self._long) > 1:
                return False  # it goes on when those before it have ended
        job.is_begun = True
        answer, job.answer = job.answer, None
        result: list[Any] = []
        wants: Deferred | None = None
        try:
            wants = job.steps.send(answer)
        except StopIteration as end:
            result.append(end.value)
        except BaseException:
            self._ended(job)
            raise
        if result:
            self._ended(job)
            job.done(result.pop())
            return False
        if wants is OTHERS_FIRST:
            job.spent_s, wants = max(job.spent_s, QUICK_S), None
        if wants is not None:
            job.wait(wants, self._go_on)
        return wants is None

    def _ended(self, job: Job) -> None:
        if job.is_long:
            was_first = self._long[0] is job
            self._long.remove(job)
            if was_first and self._long:
                self._go_on(self._long[0])
        if job.size:
            self._hold(-job.size)
            for following in self._lane_of(job).leave(job):
                self._go_on(following)


def _nothing_more(_: None) -> None:
    """Memory was given back; nobody waits for that."""


def released(message: Message) -> Steps[None]:
    """Give a message's memory back in steps: to free a million parts at once takes as long as a hundred requests."""
    for spec in fields_of(type(message)):
        if spec.is_array and (spec.struct is not None or spec.kind in ("string", "bytes")):
            parts = list(getattr(message, spec.name) or ())
            setattr(message, spec.name, ())  # decoders fill messages this way, too
            while parts:
                for part in parts[-_RELEASED_AT_ONCE:]:
                    if spec.struct is not None:
                        yield from _released_part(part)
                del parts[-_RELEASED_AT_ONCE:]
                yield None


def all_released(messages: list[Any]) -> Steps[None]:
    """The same for many."""
    while messages:
        yield from released(messages.pop())


def _released_part(part: Any) -> Steps[None]:
    for spec in fields_of(type(part)):
        if spec.is_array:
            inner = getattr(part, spec.name)
            if inner is not None and len(inner) > _RELEASED_AT_ONCE:
                rest = list(inner)
                del inner
                setattr(part, spec.name, ())
                yield from emptied(rest)


def emptied(parts: list[Any]) -> Steps[None]:
    """The same for a list; the last few are left in it."""
    while len(parts) > _RELEASED_AT_ONCE:
        del parts[-_RELEASED_AT_ONCE:]
        yield None
