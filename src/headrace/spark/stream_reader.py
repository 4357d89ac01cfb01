"""Topics as a streaming query reads them: where it begins, how far each batch goes, and what is in it.

Spark keeps one reader alive beside the driver for the life of a query and asks it for offsets; tasks get copies that only read. Offsets are
JSON as in Spark's `kafka` source, with what `stored_offsets` adds. Spark does not store where a query began, and would ask again after a crash in its
first batch (which it runs even without a row), when `latest` is somewhere else. So the first batch's end carries its start.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.batch_reader import RangePartition
from headrace.spark.cluster import TopicCluster
from headrace.spark.data_loss import check_kept, remade_text, report_loss
from headrace.spark.group_view import GroupView
from headrace.spark.offset_ranges import (
    count_waiting,
    limit_bytes,
    limit_offsets,
    resolve_ranges,
    split_ranges,
    to_json,
)
from headrace.spark.options import ReadOptions
from headrace.spark.stored_offsets import StoredOffsets, parse_stored

if TYPE_CHECKING:
    import pyarrow as pa


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Plans micro-batches and reads their ranges. Holds the last offsets seen; picklable."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._cluster = TopicCluster(options)
        self._group = None if options.group_id is None else GroupView(options.group_id, options.properties)
        self._initial: dict[TopicPartition, int] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._seen: dict[TopicPartition, int] | None = None
        self._last_batch_at: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        partitions = self._cluster.check_selected()
        self._initial = self._cluster.resolve(self._options.starting, partitions, side="starting")
        return StoredOffsets(positions=self._initial, topic_ids=self._cluster.topic_ids).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What `maxOffsetsPerTrigger`, `maxBytesPerTrigger` and `minOffsetsPerTrigger` ask for; with two of them, `latestOffset` looks at the lower one itself."""
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch from `start` on: `start` itself when there is nothing, or not yet enough, to read."""
        stored = parse_stored(start)
        begin = stored.positions
        if self._group is not None:
            self._group.show(begin)  # a batch is planned when all before it is done
        newest = self._newest(stored)
        begin = self._without_remade(stored)
        self._check_topics(begin, newest)
        self._seen = newest
        end, ids = newest, self._cluster.topic_ids
        if not isinstance(limit, ReadAllAvailable):
            if self._is_too_early(begin, newest):
                end = dict(begin)
            elif isinstance(limit, ReadMaxRows | ReadMaxBytes):
                end = self._limited(begin, newest, limit)
        is_first = begin == self._initial
        if end == stored.positions and begin == stored.positions and (stored.start is not None or not is_first):
            return start
        if end != begin:
            self._last_batch_at = time.monotonic()
        return StoredOffsets(positions=end, topic_ids=ids, start=begin if is_first else None).as_json()

    def _without_remade(self, stored: StoredOffsets) -> dict[TopicPartition, int]:
        """The positions, without those of topics that were deleted and made again: what is in these is read from its beginning, unless that loss ends the query."""
        remade = stored.remade(self._cluster.topic_ids)
        for name in sorted(remade):
            report_loss(self._options, remade_text(name, stored.topic_ids[name], self._cluster.topic_ids[name]))
        return {each: offset for each, offset in stored.positions.items() if each.topic not in remade}

    def _check_topics(self, begin: Mapping[TopicPartition, int], newest: Mapping[TopicPartition, int]) -> None:
        """A checkpoint of other topics only is hardly meant. Raises OperatorError, unless `failOnDataLoss` is false."""
        before, now = ({each.topic for each in offsets} for offsets in (begin, newest))
        if self._options.is_loss_fatal and before and now and not before & now:
            raise OperatorError(
                f"the checkpoint is that of {', '.join(sorted(before))}, and the query reads {', '.join(sorted(now))}: "
                "give it a checkpointLocation of its own, or say failOnDataLoss=false to go on without the former topics"
            )

    def _limited(
        self,
        begin: Mapping[TopicPartition, int],
        newest: Mapping[TopicPartition, int],
        limit: ReadMaxRows | ReadMaxBytes,
    ) -> dict[TopicPartition, int]:
        known = {**self._earliest_of_new(begin, newest), **begin}
        reachable = {each: offset for each, offset in newest.items() if each in known}
        if isinstance(limit, ReadMaxRows):
            return limit_offsets(known, reachable, limit=limit.max_rows)
        waiting = {each: known[each] for each, offset in reachable.items() if offset > known[each]}
        return limit_bytes(known, reachable, self._cluster.densities(waiting), limit=limit.max_bytes)

    def _newest(self, stored: StoredOffsets) -> dict[TopicPartition, int]:
        if self._target is not None:
            return self._target
        partitions = self._cluster.partitions()
        remade = stored.remade(self._cluster.topic_ids)
        known = {each: offset for each, offset in stored.positions.items() if each.topic not in remade}
        return self._cluster.latest(partitions, known=known)

    def _is_too_early(self, begin: Mapping[TopicPartition, int], newest: Mapping[TopicPartition, int]) -> bool:
        """Whether `minOffsetsPerTrigger` is not reached and `maxTriggerDelay` not over.

        As with Spark's source, the first batch after each start of a query takes what there is; and with Trigger.AvailableNow, which must end, every batch.
        """
        wanted = self._options.min_offsets_per_trigger
        if wanted is None or self._target is not None:
            return False
        now, last = time.monotonic(), self._last_batch_at
        if last is None or (now - last) * 1000 >= self._options.max_trigger_delay_ms:
            self._last_batch_at = now
            return False
        return count_waiting(begin, newest) < wanted

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest offsets seen, for the query's progress."""
        return None if self._seen is None else to_json(self._seen)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of the query: what is in the topics now."""
        self._target = self._cluster.latest(self._cluster.partitions())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of the batch between two offsets; what cannot be read any more is reported as loss."""
        since, until = parse_stored(start), parse_stored(end)
        remade = since.remade(until.topic_ids)
        begin = since.positions if until.start is None else until.start
        begin = {each: offset for each, offset in begin.items() if each.topic not in remade}
        resolved = resolve_ranges(begin, until.positions, self._earliest_of_new(begin, until.positions))
        for loss in resolved.losses:
            report_loss(self._options, loss)
        check_kept(self._options, self._cluster, resolved.ranges, until.topic_ids)
        pieces = split_ranges(
            resolved.ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(each, until.topic_ids.get(each.topic)) for each in pieces]

    def _earliest_of_new(
        self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        added = sorted(each for each in end if each not in begin)
        if not added:
            return {}
        existing = set(self._cluster.partitions())
        return self._cluster.earliest([each for each in added if each in existing])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece."""
        if isinstance(partition, RangePartition):
            from headrace.spark.row_reader import read_range

            yield from read_range(self._options, partition.piece, partition.topic_id)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark calls this when the next batch has been planned, later than `latestOffset` knows that this one is done."""

    def stop(self) -> None:
        """Close the connections that planned the batches and showed progress."""
        self._cluster.close()
        if self._group is not None:
            self._group.close()
