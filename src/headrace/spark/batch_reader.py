"""Topics as a batch query reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.data_loss import check_kept
from headrace.spark.offset_ranges import InputRange, split_ranges
from headrace.spark.options import AtOffsets, ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.cluster import TopicCluster
    from headrace.spark.pushed_filters import Wanted


class RangePartition(InputPartition):  # type: ignore[misc]  # pyspark is not followed by the type check
    """What one task reads."""

    def __init__(self, piece: InputRange, topic_id: str | None = None) -> None:
        super().__init__(piece)
        self.piece = piece
        self.topic_id = topic_id


class HeadraceBatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Decides on the driver which ranges are read, at planning; reads one range in each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._wanted: Wanted | None = None

    def partitions(self) -> list[InputPartition]:
        """A piece of a partition's range for each task, as `minPartitions` and `maxRecordsPerPartition` say."""
        from headrace.spark.cluster import TopicCluster

        cluster = TopicCluster(self._options)
        try:
            ranges = self._ranges(cluster)
            if isinstance(self._options.starting, AtOffsets):
                check_kept(self._options, cluster, ranges, cluster.topic_ids)
        finally:
            cluster.close()
        pieces = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(each, cluster.topic_ids.get(each.topic)) for each in pieces]

    def _ranges(self, cluster: TopicCluster) -> list[InputRange]:
        partitions = cluster.check_selected()
        start = cluster.resolve(self._options.starting, partitions, side="starting")
        end = cluster.resolve(self._options.ending, partitions, side="ending")
        ranges = [_range(each, start[each], end[each]) for each in partitions]
        return ranges if self._wanted is None else _pruned(ranges, self._wanted, cluster)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece; none for the empty partition that Spark makes up when there is nothing to read."""
        if isinstance(partition, RangePartition):
            from headrace.spark.row_reader import read_range

            yield from read_range(self._options, partition.piece, partition.topic_id)


class PruningBatchReader(HeadraceBatchReader):
    """Is told the query's filters before it plans. PySpark refuses a reader that could be told while `spark.sql.python.filterPushdown.enabled` is false."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Leave out what cannot hold a row that passes. All filters come back: Spark applies them to the rows."""
        from headrace.spark.pushed_filters import wanted_by

        self._wanted = wanted_by(filters)
        return filters


def _pruned(ranges: Iterable[InputRange], wanted: Wanted, cluster: TopicCluster) -> list[InputRange]:
    """What of the ranges is wanted; the time is looked up in the partitions that are left."""
    left = {
        where: wanted.cut(each) for each in ranges if wanted.has(where := TopicPartition(each.topic, each.partition))
    }
    left = {where: each for where, each in left.items() if each.size}
    if wanted.from_time_ms is not None and left:
        first = cluster.first_since(left, wanted.from_time_ms)
        left = {
            where: replace(each, start=min(max(each.start, first[where]), each.end))
            for where, each in left.items()
            if where in first
        }
    return list(left.values())


def _range(where: TopicPartition, start: int, end: int) -> InputRange:
    if start > end:
        raise OperatorError(f"{where.topic}-{where.partition} would start at {start}, after its end {end}")
    return InputRange(topic=where.topic, partition=where.partition, start=start, end=end)
