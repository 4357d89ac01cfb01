"""How many requests come, how long each stage of them takes, how large they are, and which errors they are answered with.

Only where somebody wants metrics is there a `RequestMeter`. Every request is counted; of those that follow each other closely only some are timed, each for
those since the one before: on the hot path a request that is not timed costs one addition and one comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from headrace.core.histogram import Histogram, merged
from headrace.wire.codec import LongMessage
from headrace.wire.fetch import parse_fetch
from headrace.wire.schema import fields_of
from headrace.wire.versions import APIS, ApiKey

BOUNDS_MS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
BOUNDS_BYTES: Final = tuple(1 << power for power in range(5, 28))
SPACING_MS: Final = 2.0
"""About so far apart are the requests of one API and version that are timed, when there are many: half a per mille of the loop's time."""
MOST_UNTIMED: Final = 64
FETCH_OF_CONSUMER: Final = "FetchConsumer"
FETCH_OF_FOLLOWER: Final = "FetchFollower"
FETCHES: Final = "Fetch"
"""Of both together, as Kafka shows it."""
_FIRST_WITH_STATE = 15
_STATE = b"\x01\x01\x0d"
"""How a follower's request ends: one tagged field, the replica's state, of 13 bytes."""


class ErrorPlaces(NamedTuple):
    """Whether there is an error code at this level of a message, and the lists below it that have some."""

    has_own: bool
    lists: tuple[tuple[str, ErrorPlaces], ...]


class VersionCount:
    """Requests of one name and version. `due` is the count at which one is timed again."""

    __slots__ = ("at_s", "count", "due", "request", "taken", "version")

    def __init__(self, request: str, version: int) -> None:
        self.request = request
        self.version = version
        self.count = 0
        self.due = 1
        self.taken = 0
        self.at_s = 0.0


class RequestTimes:
    """What is known of the requests of one name, all versions together: ms in each stage, and bytes.

    In order: `queued` behind others that came in the same read; `local`: handled by this node's loop; `remote`: waiting for what happens elsewhere, replicas,
    records, a commit, a thread; `response_queue`: ready, behind earlier ones of the connection and until the end of the turn; `sending`: until the
    socket had taken it. `total` is their sum.
    """

    __slots__ = ("bytes", "local", "queued", "remote", "response_queue", "sending", "total")

    def __init__(self) -> None:
        self.total = Histogram(BOUNDS_MS)
        self.queued = Histogram(BOUNDS_MS)
        self.local = Histogram(BOUNDS_MS)
        self.remote = Histogram(BOUNDS_MS)
        self.response_queue = Histogram(BOUNDS_MS)
        self.sending = Histogram(BOUNDS_MS)
        self.bytes = Histogram(BOUNDS_BYTES)


STAGES: Final = RequestTimes.__slots__


class Timing:
    """One request that is timed, through its stages. Told by `rpc.connection` and by the socket side (`sending`, `sent`)."""

    __slots__ = ("_arrived", "_began", "_handled", "_meter", "_ready", "_sending", "_times", "_weight", "is_local")

    def __init__(self, meter: RequestMeter, times: RequestTimes, weight: int, *, arrived: float, began: float) -> None:
        self._meter = meter
        self._times = times
        self._weight = weight
        self._arrived = min(arrived, began)
        self._began = began
        self._handled = self._ready = self._sending = 0.0
        self.is_local = False

    def handled(self) -> None:
        """The handler gave its answer, or said that it comes later."""
        self._handled = self._meter.clock()

    def ready(self) -> None:
        """The answer is there."""
        if not self._ready:
            self._ready = self._meter.clock()

    def sending(self) -> None:
        """It is given to the socket."""
        if not self._sending:
            self._sending = self._meter.clock()

    def sent(self) -> bool:
        """The socket has taken all that was given to it; False if this answer was not among it."""
        if not self._sending:
            return False
        times, weight = self._times, self._weight
        now = self._meter.clock()
        handled = self._handled
        ready = max(self._ready, handled)
        waited = (ready - handled) * 1_000
        local = (handled - self._began) * 1_000
        times.total.add((now - self._arrived) * 1_000, weight)
        times.queued.add((self._began - self._arrived) * 1_000, weight)
        times.local.add(local + waited if self.is_local else local, weight)
        times.remote.add(0.0 if self.is_local else waited, weight)
        times.response_queue.add((self._sending - ready) * 1_000, weight)
        times.sending.add((now - self._sending) * 1_000, weight)
        return True


class RequestMeter:
    """The counters of the requests of one node, whatever listener they come to. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.counts: dict[tuple[str, int], VersionCount] = {}
        self.times: dict[str, RequestTimes] = {}
        self.errors: dict[tuple[str, int], int] = {}
        """How often by request and error code; of Produce and Fetch the broker counts (`ErrorCounts`)."""

    def shown_times(self) -> dict[str, RequestTimes]:
        """By the names that Kafka shows: those of Fetch together, too. Cost: the names."""
        shown = {name: self.times[name] for name in sorted(self.times)}
        parts = [self.times[name] for name in (FETCH_OF_CONSUMER, FETCH_OF_FOLLOWER) if name in self.times]
        if parts:
            together = shown[FETCHES] = RequestTimes()
            for stage in STAGES:
                setattr(together, stage, merged([getattr(each, stage) for each in parts]))
        return shown

    def counts_of(self, key: int, version: int, body: memoryview | None = None) -> VersionCount:
        """Those of an API and version; `body` is that of a Fetch to a broker, which a consumer or a follower sent."""
        name = _name(key)
        if key == ApiKey.FETCH:
            is_consumers = body is not None and not _is_followers(body, version)
            name = FETCH_OF_CONSUMER if is_consumers else FETCH_OF_FOLLOWER
        found = self.counts.get((name, version))
        if found is None:
            found = self.counts[name, version] = VersionCount(name, version)
            self.times.setdefault(name, RequestTimes())
        return found

    def begin(self, counts: VersionCount, size: int, arrived: float) -> Timing:
        """Time the request that was counted last; it stands for those since the one before."""
        now = self.clock()
        weight = counts.count - counts.taken
        passed_ms = (now - counts.at_s) * 1_000
        counts.taken, counts.at_s = counts.count, now
        step = MOST_UNTIMED if passed_ms * MOST_UNTIMED <= SPACING_MS * weight else int(SPACING_MS * weight / passed_ms)
        counts.due = counts.count + max(1, step)
        times = self.times[counts.request]
        times.bytes.add(size, weight)
        return Timing(self, times, weight, arrived=arrived, began=now)

    def answered(self, key: int, message: Any) -> None:
        """Count the errors of an answer: its own, else those of what it names. Cost: what it names, a small part of what encoding it costs."""
        kind: Any = type(message)
        self._count(_name(key), message, _error_places(kind))

    def _count(self, request: str, told: Any, places: ErrorPlaces) -> None:
        if places.has_own and told.error_code:
            self._add(request, told.error_code)
            return
        for name, below in places.lists:
            for each in getattr(told, name) or ():
                if below.lists:
                    self._count(request, each, below)
                elif each.error_code:
                    self._add(request, each.error_code)

    def _add(self, request: str, code: int) -> None:
        at = (request, code)
        self.errors[at] = self.errors.get(at, 0) + 1


class ErrorCounts:
    """Errors by request and code, for what is answered as bytes: Produce and Fetch. A plain counter that handlers raise where something failed."""

    __slots__ = ("by_request",)

    def __init__(self) -> None:
        self.by_request: dict[tuple[str, int], int] = {}

    def add(self, request: str, code: int) -> None:
        """One partition, or one request, was refused."""
        at = (request, int(code))
        self.by_request[at] = self.by_request.get(at, 0) + 1


class ExpiredCounts:
    """What had waited for its whole time: partitions of Produce requests, and Fetches."""

    __slots__ = ("consumer_fetches", "follower_fetches", "produces")

    def __init__(self) -> None:
        self.produces = self.consumer_fetches = self.follower_fetches = 0


@cache
def _name(key: int) -> str:
    return APIS[key].name


def _is_followers(body: memoryview, version: int) -> bool:
    """Whether a replica sent this Fetch. The body of a long one is not read for that: its replica id stands first, or in the tagged field that ends it."""
    try:
        return parse_fetch(body, 0, version).replica_id >= 0
    except LongMessage:
        if version < _FIRST_WITH_STATE:
            return body[0] < 0x80
        return bytes(body[-16:-13]) == _STATE and body[-13] < 0x80


@cache
def _error_places(kind: Any) -> ErrorPlaces:
    """Where a message, or a part of one, has error codes."""
    has_own, lists = False, []
    for spec in fields_of(kind):
        has_own = has_own or spec.name == "error_code"
        if spec.is_array and spec.struct is not None:
            below = _error_places(spec.struct)
            if below.has_own or below.lists:
                lists.append((spec.name, below))
    return ErrorPlaces(has_own, tuple(lists))
