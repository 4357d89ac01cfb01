"""What happens to the controller, and what does it order?

A request goes in as `RequestArrived` and comes out as exactly one `Answer` with the same token: at once for a refusal or
when nothing is written, otherwise when its records are committed (`RecordsCommitted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage

    # Any message of headrace.wire.messages; `controller.machine.HANDLED` lists the request classes it takes.
    Request = Any
    Response = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCause:
    """Who asks: for messages, auditing and the version of the answer."""

    api_version: int
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    client_host: str = ""
    listener: str = ""


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipGained:
    """Raft says: this node leads `epoch`, `image` holds every record below `next_offset`.

    `in_transaction`: the log ends inside a metadata transaction, whose records are not in `image`.
    """

    epoch: int
    next_offset: int
    image: MetadataImage
    in_transaction: bool = False
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipEnded:
    """Raft says: no longer. Waiting requests are answered NOT_CONTROLLER; `image` is the last committed one."""

    image: MetadataImage
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsCommitted:
    """Every record below `upto` is committed; `image` is what became visible of them."""

    image: MetadataImage
    upto: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestArrived:
    """A request for the active controller. `deadline_ms` (monotonic): past it, it is refused with REQUEST_TIMED_OUT (B-C27)."""

    token: int
    request: Request
    cause: RequestCause
    now_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAdvanced:
    """A deadline (`ControllerMachine.next_deadline_ms`) may have passed. Monotonic milliseconds."""

    now_ms: int


ControllerEvent = LeadershipGained | LeadershipEnded | RecordsCommitted | RequestArrived | TimeAdvanced


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """Offer these framed records to raft (`raft.events.RecordsOffered`): one batch, atomic, first offset fixed."""

    records: tuple[bytes, ...]
    base_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a `RequestArrived`; everything it tells is committed."""

    token: int
    response: Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """A fault of ours was met in `epoch`: give up leadership (`raft.events.ResignRequested`)."""

    epoch: int
    reason: str


ControllerEffect = AppendRecords | Answer | Resign
