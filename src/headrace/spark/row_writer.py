"""One task that writes its rows: split by topic and partition, made into record batches, sent by one idempotent producer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.arrow.encode import RowColumns, encode_batches
from headrace.arrow.partitioner import choose_partitions
from headrace.client.blocking import BlockingClient, BlockingProducer
from headrace.client.producer import Delivery
from headrace.client.routing import refresh
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.spark.cluster import open_client
from headrace.spark.origin import ORIGIN_HEADER, Origin, add_header
from headrace.spark.worker_memory import keep_freed_memory, spare_imports
from headrace.spark.write_faults import explained
from headrace.spark.write_options import WriteOptions

_SMALLEST_STICKY_ROWS: Final = 100
_CREATION_TRIES: Final = 20


@dataclass(slots=True)
class Written:
    """How many rows and bytes (uncompressed batches) a task wrote, by topic."""

    rows: dict[str, int] = field(default_factory=dict)
    batches: int = 0


def write_rows(
    options: WriteOptions,
    batches: Iterator[pa.RecordBatch],
    *,
    task: int,
    is_stream: bool = False,
    origin: Origin | None = None,
) -> Written:
    """Write all rows and wait until all are acknowledged. Raises OperatorError; rows before the fault may have been written.

    `task` is any number that differs from task to task and from batch to batch: with it they begin keyless rows at different partitions.
    A stream (`is_stream`) waits for nodes that are away at the moment; a batch query whose address is wrong fails at once. With `origin`
    every record has a header that tells it.
    """
    keep_freed_memory()
    spare_imports()
    with open_client(options.properties, is_cluster_known=is_stream) as client:
        producer = client.producer(
            acks=options.acks, is_idempotent=options.is_idempotent, max_in_flight=options.max_in_flight
        )
        task_writer = _TaskWriter(options, client, producer, sticky=task, origin=origin)
        try:
            for batch in batches:
                task_writer.write(batch)
            producer.flush()
        except PeerError as error:
            raise explained(error, task_writer.first_failed()) from error
        return task_writer.written


class _TaskWriter:
    """Holds what a task learns on its way: partition counts, and which partition keyless rows go to next."""

    def __init__(
        self,
        options: WriteOptions,
        client: BlockingClient,
        producer: BlockingProducer,
        *,
        sticky: int,
        origin: Origin | None,
    ) -> None:
        self._options = options
        self._client = client
        self._producer = producer
        self._sticky = sticky
        self._origin = origin
        self._rows_seen = 0
        self._deliveries: list[Delivery] = []
        self._partition_counts: dict[str, int] = {}
        self.written = Written()

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rows = RowColumns(
            value=_as_bytes(batch.column("value")),
            key=_as_bytes(batch.column("key")) if "key" in batch.schema.names else None,
            headers=self._headers(batch),
        )
        self._rows_seen += batch.num_rows
        wanted = batch.column("partition") if "partition" in batch.schema.names else None
        if self._options.topic is not None:
            self._write_topic(self._options.topic, rows, wanted)
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise OperatorError("a row has no topic: fill the column topic or say the option topic")
        for topic in pc.unique(topics).to_pylist():
            chosen = pc.indices_nonzero(pc.equal(topics, topic))
            self._write_topic(topic, rows.take(chosen), None if wanted is None else wanted.take(chosen))

    def first_failed(self) -> TopicPartition | None:
        """The partition of the first batch that was refused."""
        return next((each.where for each in self._deliveries if each.error is not None), None)

    def _headers(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The headers to write: the frame's, and the row's origin if that was asked for."""
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        if headers is not None and _has_nameless(headers):
            raise OperatorError(
                "a header has no key: every header needs one; filter the column headers before the write"
            )
        if self._origin is None:
            return headers
        return add_header(headers, ORIGIN_HEADER, self._origin.column(self._rows_seen, batch.num_rows))

    def _write_topic(self, topic: str, rows: RowColumns, wanted: pa.Array | None) -> None:
        count = self._partition_count(topic)
        total = len(rows.value)
        if count == 1 and wanted is None:
            self._send(topic, 0, rows)
        else:
            partitions = self._partitions(topic, rows, wanted, count)
            order = np.argsort(partitions, kind="stable")
            numbers, firsts = np.unique(partitions[order], return_index=True)
            for number, first, end in zip(
                numbers.tolist(), firsts.tolist(), [*firsts[1:].tolist(), total], strict=True
            ):
                self._send(topic, number, rows.take(pa.array(order[first:end])))
        self.written.rows[topic] = self.written.rows.get(topic, 0) + total

    def _partitions(self, topic: str, rows: RowColumns, wanted: pa.Array | None, count: int) -> NDArray[np.int32]:
        total = len(rows.value)
        sticky_rows = max(-(-total // count), _SMALLEST_STICKY_ROWS)
        chosen = choose_partitions(rows.key, total, count=count, sticky=self._sticky, sticky_rows=sticky_rows)
        self._sticky += -(-total // sticky_rows)
        if wanted is None or wanted.null_count == total:
            return chosen
        is_given = wanted.is_valid().to_numpy(zero_copy_only=False)
        given = wanted.fill_null(0).to_numpy(zero_copy_only=False)
        if given.min() < 0 or given.max() >= count:
            raise OperatorError(
                f"a row asks for partition {given.max()} or {given.min()}; {topic} has 0 to {count - 1}"
            )
        return np.where(is_given, given, chosen)

    def _send(self, topic: str, partition: int, rows: RowColumns) -> None:
        now_ms = time.time_ns() // 1_000_000
        for batch in encode_batches(rows, now_ms=now_ms, settings=self._options.batches):
            self._deliveries = [each for each in self._deliveries if not each.is_done or each.error is not None]
            if self.first_failed() is not None:
                self._producer.flush()  # which raises it, before more is written in vain
            self._deliveries.append(self._producer.send(topic, partition, batch))
            self.written.batches += 1

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            self._partition_counts[topic] = _count_partitions(self._client, topic)
        return self._partition_counts[topic]


def _count_partitions(client: BlockingClient, topic: str) -> int:
    """How many partitions the topic has; a cluster that makes topics by itself is given the time to make this one."""
    for attempt in range(_CREATION_TRIES):
        view = client.topics([topic]).get(topic)
        if view is not None and view.partitions:
            return len(view.partitions)
        client.run(refresh, [topic], is_auto_created=True)
        time.sleep(min(0.02 * (attempt + 1), 0.2))
    raise OperatorError(f"there is no topic {topic}, and the cluster does not make topics by itself")


def _has_nameless(headers: pa.Array) -> bool:
    entries = headers.flatten()
    return bool(entries.null_count or entries.field(0).null_count)


def _as_bytes(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())
