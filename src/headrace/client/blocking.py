"""How does a script or a Spark worker talk to a cluster, with plain sockets and no event loop?

`BlockingClient` is used by one thread at a time. It is not picklable: make it where it is used.

    with BlockingClient("127.0.0.1:9092") as client:
        ends = client.list_offsets({TopicPartition("flights", 0): LATEST})
        part = client.fetch_raw("flights", 0, 0, max_bytes=8 << 20)      # part.records: memoryview of whole batches
        client.produce_raw("flights", 0, batch)                          # batch: bytes of one record batch v2
        client.run(admin_topics.create_topics, [NewTopic(name="delays", partitions=3)])
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from headrace.client.fetcher import Fetched
from headrace.client.offsets import ListedOffset
from headrace.client.producer import Delivery
from headrace.client.routing import TopicView
from headrace.client.session import Session
from headrace.client.talk import Conversation
from headrace.core.ids import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["BlockingClient", "BlockingProducer", "Fetched", "ListedOffset"]


class BlockingClient:
    """A client on plain sockets: one connection a node, opened on first use, closed by `close` or the end of a `with`.

    `properties` are Kafka's client settings (`security.protocol`, `sasl.*`, `ssl.*`, `request.timeout.ms`, `default.api.timeout.ms` ...);
    unknown ones are ignored. Every call retries what may be retried until `default.api.timeout.ms` (60 s) and then raises `PeerError` with
    the last error's code; a cluster that cannot be reached is an `OperatorError` naming the address.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str = "headrace",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        raise AssertionError

    session: Session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; may be called twice."""

    def run(self, talk: Callable[Concatenate[Session, P], Conversation[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Hold a conversation of `admin_topics`, `admin_configs`, `admin_cluster`, `offsets`, `groups` ... and return its result."""
        raise AssertionError

    def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicView]:
        """The named topics (all when None) as the cluster has them now; a topic that does not exist is left out.

        `TopicView`: name, topic_id (Uuid), is_internal, partitions: tuple of PartitionView(partition, leader, leader_epoch, replicas, isr, offline_replicas, error_code).
        """
        raise AssertionError

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, is_read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset for each partition's timestamp in ms, or EARLIEST (-2), LATEST (-1), MAX_TIMESTAMP (-3) ... from `client.offsets`.

        `ListedOffset`: offset (-1 when no record is that young), timestamp_ms, leader_epoch.
        """
        raise AssertionError

    def fetch_raw(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int = 8 << 20,
        max_wait_ms: int = 500,
        is_read_committed: bool = False,
    ) -> Fetched:
        """Read whole record batches from `offset` on, at least one when there is one, about `max_bytes` in all.

        The first batch may begin below `offset`. `Fetched`: records (memoryview, valid as long as it is held), next_offset (after the last whole batch),
        high_watermark, last_stable_offset, log_start_offset, aborted (tuple of AbortedRange(producer_id, first_offset)).
        Raises PeerError(OFFSET_OUT_OF_RANGE) when the log does not hold `offset`.
        """
        raise AssertionError

    def fetch_range(
        self,
        topic: str,
        partition: int,
        *,
        start: int,
        end: int,
        max_bytes: int = 8 << 20,
        is_read_committed: bool = False,
    ) -> Iterator[Fetched]:
        """Read all batches that hold offsets from `start` up to `end` (exclusive), asking for the next while the caller works on the last.

        Ends when `end` is reached; raises PeerError(REQUEST_TIMED_OUT) when the log does not grow to `end` within `default.api.timeout.ms`.
        """
        raise AssertionError

    def produce_raw(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray | memoryview,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
    ) -> int:
        """Append one record batch (v2) and return its base offset, -1 with `acks=0`. Not idempotent: a retry may write twice; see `producer`."""
        raise AssertionError

    def producer(self, *, acks: int = -1, is_idempotent: bool = True, max_in_flight: int = 5) -> "BlockingProducer":
        """A pipelined producer of ready-made batches."""
        raise AssertionError


class BlockingProducer:
    """Sends ready-made record batches, up to `max_in_flight` requests a node at a time, in order a partition; idempotent when asked.

    When idempotent, producer id, epoch and base sequence are stamped into the batch in place and its CRC is computed anew, so `batch` must
    be a `bytearray`, or it is copied.
    """

    def send(self, topic: str, partition: int, batch: bytes | bytearray) -> Delivery:
        """Queue one batch; blocks while the node has `max_in_flight` requests outstanding. `Delivery`: is_done, base_offset, error (PeerError | None)."""
        raise AssertionError

    def flush(self) -> None:
        """Wait until every batch is acknowledged; raises the first PeerError among them."""

    def close(self) -> None:
        """Flush; the connections stay the client's."""
