"""What a conversation with a cluster says to the driver that owns the sockets.

A conversation is a generator: it yields effects, is sent outcomes, and returns its result. The same conversation runs on blocking sockets,
on asyncio and in a test that plays the cluster with a list of answers.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a node listens for us."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request of class `api` whose form depends on the version: `build(version)` makes it.

    The version is the highest that both sides speak from `at_least` to `at_most`.
    """

    api: type[Any]
    build: Callable[[int], Any]
    at_least: int = 0
    at_most: int = 32767


def bounded(request: Any, *, at_least: int = 0, at_most: int = 32767) -> Call:
    """A request of one form, for some versions only."""
    return Call(api=type(request), build=lambda version: request, at_least=at_least, at_most=at_most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Send `request` (a message of any version, or a `Call`) to the node at `address` and bring its answer."""

    address: Address
    request: Any
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAll:
    """Send these at the same time (each in its order a node) and bring all outcomes, in this order."""

    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Let `ms` milliseconds go by."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Which versions of which APIs does the node at `address` speak? The outcome is an `Answered` with its ApiVersionsResponse."""

    address: Address
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The node answered with `response`, in API version `version`."""

    response: Any
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """No answer: the connection was refused, cut, timed out, or carried bytes that are no answer (B29).

    `may_have_arrived` tells whether the request could have been executed.
    """

    reason: str
    may_have_arrived: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """The node speaks no version of this API within the bounds asked for; nothing was sent.

    `is_controller`: it is the listener of a controller, and those of brokers serve the API.
    """

    api_key: int
    reason: str
    is_controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Elapsed:
    """The pause is over."""


Effect: TypeAlias = Ask | AskAll | Pause | Versions
Outcome: TypeAlias = Answered | Lost | Unsupported
Conversation: TypeAlias = Generator[Effect, Any, T]
