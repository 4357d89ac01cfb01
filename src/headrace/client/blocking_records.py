"""The producer of scripts, record by record, with plain sockets.

with BlockingClient("127.0.0.1:9092") as client:
    out = RecordProducer(client, "flights")
    out.send(b"key", b"value", timestamp_ms=now)
    out.flush()
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headrace.client import routing
from headrace.client.accumulator import Accumulator, BatchOptions, ReadyBatch
from headrace.client.blocking import BlockingClient, BlockingProducer, now_ms
from headrace.client.cluster_view import TopicView
from headrace.client.producer import Delivery
from headrace.client.retry import Attempts
from headrace.client.session import Session
from headrace.client.talk import Conversation
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.records.record import Headers


def find_topic(session: Session, name: str, timeout_ms: int | None = None) -> Conversation[TopicView]:
    """The topic, created by the cluster if it does that by itself. Raises PeerError when it cannot be had in time."""
    attempts = Attempts(session, timeout_ms=timeout_ms)
    while True:
        found = yield from routing.refresh(session, [name], is_auto_created=True, attempts=attempts)
        view = found.get(name)
        if isinstance(view, TopicView) and view.partitions:
            return view
        why = view if isinstance(view, PeerError) else routing.no_leader(TopicPartition(name, 0), found)
        if not why.code.is_retriable:
            raise why
        yield from attempts.again(why)


class RecordProducer:
    """Sends records of one topic in batches; `on_done` is told of each batch that was acknowledged or has failed.

    Driven by its caller's thread: batches leave in `send`, `poll` and `flush`.
    """

    def __init__(
        self,
        client: BlockingClient,
        topic: str,
        *,
        options: BatchOptions | None = None,
        producer: BlockingProducer | None = None,
        max_block_ms: int = 60_000,
        on_done: Callable[[Delivery, ReadyBatch], None] | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._out = producer or client.producer()
        self._accumulator = Accumulator(client.session, topic, options or BatchOptions())
        self._waiting: list[tuple[Delivery, ReadyBatch]] = []
        self._on_done = on_done
        self._max_block_ms = max_block_ms
        self._look_at_ms: int | None = None

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Take one record. Raises PeerError when the topic cannot be had or the record is too large."""
        if self._look_at_ms is None:
            self._client.run(find_topic, self._topic, self._max_block_ms)
            self._looked()
        full = self._accumulator.add(key, value, timestamp_ms=timestamp_ms, headers=headers, partition=partition)
        if full:
            self._dispatch(full)
            self._settle()

    def poll(self, timeout_ms: int = 0) -> None:
        """Send batches whose time has come, and take the answers that are there."""
        self._client.session.now_ms = now_ms()
        self._dispatch(self._accumulator.due())
        self._out.poll(timeout_ms)
        self._settle()

    def next_due_ms(self) -> int | None:
        """When `poll` should be called again (monotonic), or None if no record waits."""
        return self._accumulator.next_due_ms()

    @property
    def is_waiting(self) -> bool:
        """True while a batch that was sent has no answer."""
        return bool(self._waiting)

    def flush(self) -> None:
        """Send everything and wait for it. Raises the first PeerError, unless `on_done` takes them."""
        self._dispatch(self._accumulator.due(is_forced=True))
        try:
            self._out.flush()
        except PeerError:
            if self._on_done is None:
                raise
        finally:
            self._settle()

    def _looked(self) -> None:
        self._look_at_ms = now_ms() + self._client.session.settings.metadata_max_age_ms

    def _look_again(self) -> None:
        """Partitions that were added get records too (`metadata.max.age.ms`). Nobody who answers is a matter of the batches, not of this."""
        if self._look_at_ms is not None and now_ms() >= self._look_at_ms:
            with suppress(PeerError, OperatorError):
                self._client.run(routing.refresh, [self._topic])
            self._looked()

    def _dispatch(self, ready: list[ReadyBatch]) -> None:
        if ready:
            self._look_again()
        for batch in ready:
            self._waiting.append((self._out.send(batch.where.topic, batch.where.partition, batch.data), batch))

    def _settle(self) -> None:
        done = [each for each in self._waiting if each[0].is_done]
        self._waiting = [each for each in self._waiting if not each[0].is_done]
        for delivery, batch in done:
            if self._on_done is not None:
                self._on_done(delivery, batch)
            elif delivery.error is not None:
                raise delivery.error
