"""The data source `headrace`: its name, its schema, its readers and writers."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.core.errors import OperatorError
from headrace.spark.option_values import lowered
from headrace.spark.options import chosen_columns, parse_read_options
from headrace.spark.value_options import ValueOptions, parse_value_options
from headrace.spark.worker_memory import spare_imports
from headrace.spark.write_options import check_columns, parse_write_options

if TYPE_CHECKING:
    from headrace.arrow.value_rows import ValueColumns
    from headrace.spark.batch_reader import HeadraceBatchReader
    from headrace.spark.options import ReadOptions
    from headrace.spark.stream_reader import HeadraceStreamReader
    from headrace.spark.writer import HeadraceStreamWriter, HeadraceWriter

FORMAT: Final = "headrace"

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program that plans a batch query with filters when `spark.sql.python.filterPushdown.enabled` is true; with false, a reader that takes filters is refused."""

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_FIELDS: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
    StructField("headers", ArrayType(_HEADER)),
)


class HeadraceDataSource(DataSource):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Topics as tables and streams, with the schema and the options of Spark's `kafka` source; for Headrace and for Apache Kafka."""

    @classmethod
    def name(cls) -> str:
        """The word for `format(...)`."""
        return FORMAT

    def schema(self) -> StructType:
        """The fixed columns, or those of `columns`, with `headers` where `includeHeaders` asks for them, and `value` as a struct where `valueFormat` does."""
        spare_imports()
        values = self._values()
        fields = {each.name: each for each in _FIELDS}
        if values is not None:
            fields["value"] = StructField("value", _struct(values.columns()))
        columns = [fields[name] for name in chosen_columns(self.options)]
        if values is not None and values.rescued_column is not None:
            columns.append(StructField(values.rescued_column, BinaryType()))
        return StructType(columns)

    def reader(self, schema: StructType) -> HeadraceBatchReader:
        """For a batch query; one that takes filters where PySpark is about to hand some over."""
        from headrace.spark.batch_reader import HeadraceBatchReader, PruningBatchReader

        self._check_schema(schema)
        reader = PruningBatchReader if _PUSHDOWN_WORKER in sys.modules else HeadraceBatchReader
        return reader(self._read_options(is_stream=False))

    def streamReader(self, schema: StructType) -> HeadraceStreamReader:  # noqa: N802
        """For a streaming query."""
        from headrace.spark.stream_reader import HeadraceStreamReader

        self._check_schema(schema)
        return HeadraceStreamReader(self._read_options(is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> HeadraceWriter:  # noqa: FBT001
        """For a batch write; topics can be appended to only."""
        from headrace.spark.writer import HeadraceWriter

        spare_imports()
        if overwrite:
            raise OperatorError("a topic cannot be overwritten: say mode('append')")
        options = parse_write_options(self.options)
        check_columns(_column_types(schema), topic=options.topic)
        return HeadraceWriter(options, run=f"{SystemRandom().getrandbits(128):032x}")

    def streamWriter(self, schema: StructType, overwrite: bool) -> HeadraceStreamWriter:  # noqa: FBT001, N802
        """For a streaming write; `overwrite` (output mode complete) appends each result too, as Spark's `kafka` sink does."""
        from headrace.spark.writer import HeadraceStreamWriter

        spare_imports()
        options = parse_write_options(self.options)
        check_columns(_column_types(schema), topic=options.topic)
        return HeadraceStreamWriter(options)

    def _read_options(self, *, is_stream: bool) -> ReadOptions:
        parsed = parse_read_options(self.options, is_stream=is_stream)
        return parsed if parsed.values is None else replace(parsed, values=self._values())

    def _values(self) -> ValueOptions | None:
        """How values are decoded. A registry is asked once: tasks read what the query was planned with."""
        if not hasattr(self, "_settled"):
            found = parse_value_options(lowered(self.options))
            self._settled = None if found is None else found.settle()
        return self._settled

    def _check_schema(self, schema: StructType) -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise OperatorError("the source has a fixed schema; leave schema(...) out and select columns from it")


def _struct(values: ValueColumns) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_type

    return StructType([StructField(each.name, from_arrow_type(each.type)) for each in values.schema])


def _column_types(schema: StructType) -> dict[str, str]:
    return {each.name: each.dataType.simpleString() for each in schema.fields}
