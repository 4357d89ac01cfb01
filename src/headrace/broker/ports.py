"""What a handler, or a service beside it such as the groups, may ask of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.broker.walks import Walks
from headrace.config.node_config import NodeConfig
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.core.notice import Notice
from headrace.core.values import value_class
from headrace.metadata.image import MetadataImage
from headrace.rpc.context import RequestContext
from headrace.rpc.purgatory import Purgatory
from headrace.rpc.reply import Deferred


@value_class(kw_only=False)
class InternalAppend:
    """The outcome of an append that the broker itself made: an error, or where the records lie."""

    error: ErrorCode
    base_offset: int = -1
    last_offset: int = -1


class ControllerChannel(Protocol):
    """The way to the active controller, in this process or in another."""

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """Have the active controller answer `request`; NOT_CONTROLLER and lost connections are tried again until the deadline."""


class Clock(Protocol):
    """The driver's clocks, both in milliseconds since 1970 at the start of the process."""

    def now_ms(self) -> int:
        """Never goes back and does not follow jumps of the wall clock: for deadlines and leases."""

    def wall_ms(self) -> int:
        """The wall clock: for timestamps of records and ages of files."""


class BrokerServices(Protocol):
    """The broker as its services see it."""

    @property
    def node_id(self) -> int:
        """This node's id."""

    @property
    def config(self) -> NodeConfig:
        """The settings this node was started with."""

    @property
    def image(self) -> MetadataImage:
        """The newest published metadata."""

    @property
    def purgatory(self) -> Purgatory:
        """Where replies wait."""

    @property
    def walks(self) -> Walks:
        """Where large batches are opened."""

    @property
    def on_warning(self) -> Callable[[str], None]:
        """Takes one line for the operator."""

    @property
    def on_notice(self) -> Callable[[Notice], None]:
        """Takes one line of what happened, of which few are written."""

    @property
    def deadline_changed(self) -> Callable[[], None]:
        """To be called when a service waits for an earlier time than it did: the node sleeps until the earliest deadline that it knows."""

    def now_ms(self) -> int:
        """Milliseconds on a clock that never goes back: for deadlines."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970: for timestamps of records."""

    def new_uuid(self) -> Uuid:
        """A random id from the driver."""

    def forward(self, request: object, context: RequestContext) -> Deferred:
        """Have the active controller answer `request` (a request message); completes with `Reply(response message)`.

        Without an answer in time it is completed with the API's own error response, code REQUEST_TIMED_OUT or NOT_CONTROLLER.
        """

    def append_internal(
        self, topic: str, partition: int, batch: bytes | bytearray, on_committed: Callable[[InternalAppend], None]
    ) -> None:
        """Append one batch as the leader with acks=all and tell when the high watermark has passed it, or why it never will.

        May call `on_committed` before it returns. Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS (nothing was written then), KAFKA_STORAGE_ERROR, what the log refuses.
        """

    def when_committed(
        self, topic: str, partition: int, end_offset: int, on_committed: Callable[[ErrorCode], None]
    ) -> None:
        """Tell once when the high watermark has reached `end_offset` (NONE), or that it will not under this leader (NOT_LEADER_OR_FOLLOWER). Perhaps at once."""

    def read_internal(self, topic: str, partition: int, offset: int, *, max_bytes: int, upper_offset: int) -> bytes:
        """Whole batches from the one that holds `offset`, below `upper_offset`; at least one batch when there is one, else empty.

        Raises PeerError (NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE) and StorageFault.
        """

    def log_bounds(self, topic: str, partition: int) -> tuple[int, int, int] | None:
        """(log start offset, high watermark, log end offset) of a hosted partition, or None when it is not hosted here."""

    def is_withheld(self, topic: str, partition: int) -> bool:
        """Whether the partition is not served here, because another broker may lead it by now (S0-15)."""

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """The epoch in which this node leads the partition, or None when it does not lead it."""

    def auto_create_topic(self, name: str, context: RequestContext) -> Deferred:
        """Ask the controller for a topic with default (or, for internal topics, its own) settings; completes when it answered."""
