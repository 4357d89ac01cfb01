"""Topics as a batch query reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import InputRange, split_ranges
from headrace.spark.options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.spark.cluster import TopicCluster


class RangePartition(InputPartition):  # type: ignore[misc]  # pyspark is not followed by the type check
    """What one task reads."""

    def __init__(self, piece: InputRange) -> None:
        super().__init__(piece)
        self.piece = piece


class HeadraceBatchReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Decides on the driver which ranges are read, at planning; reads one range in each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """A piece of a partition's range for each task, as `minPartitions` and `maxRecordsPerPartition` say."""
        from headrace.spark.cluster import TopicCluster

        cluster = TopicCluster(self._options)
        try:
            ranges = self._ranges(cluster)
        finally:
            cluster.close()
        pieces = split_ranges(
            ranges,
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(each) for each in pieces]

    def _ranges(self, cluster: TopicCluster) -> list[InputRange]:
        partitions = cluster.check_selected()
        start = cluster.resolve(self._options.starting, partitions, side="starting")
        end = cluster.resolve(self._options.ending, partitions, side="ending")
        return [_range(each, start[each], end[each]) for each in partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece; none for the empty partition that Spark makes up when there is nothing to read."""
        if isinstance(partition, RangePartition):
            from headrace.spark.row_reader import read_range

            yield from read_range(self._options, partition.piece)


def _range(where: TopicPartition, start: int, end: int) -> InputRange:
    if start > end:
        raise OperatorError(f"{where.topic}-{where.partition} would start at {start}, after its end {end}")
    return InputRange(topic=where.topic, partition=where.partition, start=start, end=end)
