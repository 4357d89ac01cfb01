"""Events that reach the controller, and the effects that it orders.

A request goes in as `RequestArrived` and comes out as exactly one `Answer` with the same token: at once for a refusal or
when nothing is written, otherwise when its records are committed (`RecordsCommitted`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.values import value_class

if TYPE_CHECKING:
    from headrace.core.error_code import ErrorCode
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import MetadataImage

    # Any message of headrace.wire.messages; `controller.machine.HANDLED` lists the request classes it takes.
    Request = Any
    Response = Any


@value_class
class RequestCause:
    """Who asks: for messages, auditing and the version of the answer."""

    api_version: int
    principal: str = "User:ANONYMOUS"
    client_id: str | None = None
    client_host: str = ""
    listener: str = ""
    correlation_id: int = -1
    through: int = -1
    """The broker that the client asked; -1 when it asked a controller, or it is not known."""
    is_direct: bool = False
    """The client asked a controller: no broker looked at what it wants."""


# Events


@value_class
class LeadershipGained:
    """Raft says: this node leads `epoch`, `image` holds every record below `next_offset`.

    `in_transaction`: the log ends inside a metadata transaction, whose records are not in `image`. `kraft_version` is the quorum's
    own level (None = as the machine was made with).
    """

    epoch: int
    next_offset: int
    image: MetadataImage
    in_transaction: bool = False
    kraft_version: int | None = None
    now_ms: int


@value_class
class LeadershipEnded:
    """Raft says: no longer. Waiting requests are answered NOT_CONTROLLER; `image` is the last committed one."""

    image: MetadataImage
    now_ms: int


@value_class
class RecordsCommitted:
    """Every record below `upto` is committed; `image` is what became visible of them, and `delta` how it differs from the one before.

    Also told when a snapshot was loaded. A standby that is given every delta needs no look at all partitions when it becomes active.
    """

    image: MetadataImage
    upto: int
    delta: MetadataDelta | None = None
    now_ms: int


@value_class
class OffsetsTaken:
    """Raft wrote records of its own into the log of `epoch`: the next append begins at `next_offset`."""

    epoch: int
    next_offset: int
    now_ms: int


@value_class
class RequestArrived:
    """A request for the active controller. `deadline_ms` (monotonic): past it, it is refused with REQUEST_TIMED_OUT (B-C27).

    `received_ms` is when it was read from its connection; -1 = just now. What lies between is its time in the queue (S2-33).
    """

    token: int
    request: Request
    cause: RequestCause
    now_ms: int
    deadline_ms: int
    received_ms: int = -1


@value_class
class BrokerUnreachable:
    """The host of a broker refuses connections: no process serves there any more. Fences that incarnation at once.

    A guess, and a safe one: a broker that lives is unfenced by its next heartbeat. The exception to C14.
    """

    broker_id: int
    broker_epoch: int
    now_ms: int


@value_class
class KRaftVersionAnswered:
    """Raft's answer to `RequestKRaftVersion` (KIP-853): taken, or why not."""

    token: int
    error: ErrorCode
    message: str | None
    now_ms: int


@value_class
class TimeAdvanced:
    """A deadline (`ControllerMachine.next_deadline_ms`) may have passed. Monotonic milliseconds."""

    now_ms: int


ControllerEvent = (
    LeadershipGained
    | LeadershipEnded
    | RecordsCommitted
    | OffsetsTaken
    | RequestArrived
    | BrokerUnreachable
    | KRaftVersionAnswered
    | TimeAdvanced
)


# Effects


@value_class
class AppendRecords:
    """Offer these framed records to raft (`raft.events.RecordsOffered`): one batch, atomic, first offset fixed."""

    records: tuple[bytes, ...]
    base_offset: int
    epoch: int


@value_class
class Answer:
    """The answer to a `RequestArrived`; everything it tells is committed."""

    token: int
    response: Response


@value_class
class Resign:
    """A fault of ours was met in `epoch`: give up leadership (`raft.events.ResignRequested`)."""

    epoch: int
    reason: str


@value_class
class RequestKRaftVersion:
    """Raise the quorum's own level (`raft.events.KRaftVersionRequested`); `KRaftVersionAnswered` with the token comes back."""

    token: int
    epoch: int
    level: int
    validate_only: bool


ControllerEffect = AppendRecords | Answer | Resign | RequestKRaftVersion
