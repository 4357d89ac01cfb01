"""The data source `headrace_metadata`: what a cluster decided, record by record, as a table or a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from headrace.core.errors import OperatorError
from headrace.core.offsets import OffsetAndEpoch
from headrace.spark.option_names import KAFKA_PREFIX
from headrace.spark.option_values import lowered, whole_number

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from headrace.spark.metadata_log import MetadataLog

FORMAT: Final = "headrace_metadata"
_SCHEMA: Final = "offset bigint, timestamp timestamp, epoch int, batch bigint, type string, version int, data string, cause string, is_snapshot boolean"
_STARTING: Final = "startingOffsets"


@dataclass
class Between(InputPartition):  # type: ignore[misc]  # pyspark is not followed by the type check
    """The records between two places; up to the end of the log if there is no second."""

    start: OffsetAndEpoch
    end: OffsetAndEpoch | None = None


class MetadataDataSource(DataSource):  # type: ignore[misc]  # pyspark is not followed by the type check
    """The log `__cluster_metadata` of Headrace or of Apache Kafka (KRaft), decoded; one row a record, in the order in which they were decided."""

    @classmethod
    def name(cls) -> str:
        """The word for `format(...)`."""
        return FORMAT

    def schema(self) -> str:
        """`data` and `cause` are JSON; `batch` is the first offset of the records that were decided together."""
        return _SCHEMA

    def reader(self, schema: StructType) -> MetadataReader:
        """For a batch query: the whole log as it is now."""
        del schema
        return MetadataReader(_log(self.options), self._start())

    def streamReader(self, schema: StructType) -> MetadataStreamReader:  # noqa: N802
        """For a streaming query."""
        del schema
        return MetadataStreamReader(_log(self.options), self._start())

    def _start(self) -> str:
        wanted = str(lowered(self.options).get(_STARTING.lower(), "earliest")).strip().lower()
        if wanted not in ("earliest", "latest"):
            raise OperatorError(f"{_STARTING}={wanted}: must be earliest or latest")
        return wanted


class MetadataReader(DataSourceReader):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Reads all in one task: a log of metadata is small."""

    def __init__(self, log: MetadataLog, start: str) -> None:
        if start != "earliest":
            raise OperatorError(f"{_STARTING}=latest: a batch query cannot start at the end")
        self._log = log

    def partitions(self) -> list[InputPartition]:
        """One."""
        return [Between(OffsetAndEpoch(0, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All rows."""
        yield from _rows(self._log, partition)


class MetadataStreamReader(DataSourceStreamReader):  # type: ignore[misc]  # pyspark is not followed by the type check
    """A batch is what one fetch brings, or a snapshot."""

    def __init__(self, log: MetadataLog, start: str) -> None:
        self._log = log
        self._starts_at = start

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The beginning of the log, or its end."""
        return _json(OffsetAndEpoch(0, 0) if self._starts_at == "earliest" else self._log.end())

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, int]:  # noqa: N802
        """The end of the next fetch: what one answer holds is the limit."""
        del limit
        return _json(self._log.after(_place(start)).end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """One task."""
        return [Between(_place(start), _place(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one batch; the same again when Spark asks again."""
        yield from _rows(self._log, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept for the query."""

    def stop(self) -> None:
        """Close the connection that planned batches."""
        self._log.close()


def _rows(log: MetadataLog, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    if isinstance(partition, Between):
        try:
            yield from log.rows(partition.start, partition.end)
        finally:
            log.close()


def _log(options: Mapping[str, str]) -> MetadataLog:
    from headrace.spark.metadata_log import MetadataLog

    given = lowered(options)
    odd = [name for name in given if name not in (_STARTING.lower(), "path") and not name.startswith(KAFKA_PREFIX)]
    if odd:
        raise OperatorError(f"there is no option {odd[0]}: this source has kafka.* and {_STARTING}")
    return MetadataLog(
        {name.removeprefix(KAFKA_PREFIX): value for name, value in given.items() if name.startswith(KAFKA_PREFIX)}
    )


def _json(place: OffsetAndEpoch) -> dict[str, int]:
    return {"offset": place.offset, "epoch": place.epoch}


def _place(offset: Mapping[str, Any]) -> OffsetAndEpoch:
    """Raises OperatorError where a checkpoint holds something else."""
    try:
        return OffsetAndEpoch(
            whole_number("offset", str(offset["offset"])), whole_number("epoch", str(offset["epoch"]))
        )
    except KeyError:
        raise OperatorError(
            f'the checkpoint says {dict(offset)} where a place such as {{"offset": 12, "epoch": 3}} belongs: '
            "restore it, or begin anew with another checkpointLocation"
        ) from None
