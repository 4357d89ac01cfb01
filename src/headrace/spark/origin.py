"""The origin of a row that was written: which run, batch, task and row of the task it was, in a header, so that rows written twice are known.

The header `headrace.origin` holds `run/batch/partition/row` as text. `run` is a streaming query's id, which its checkpoint keeps, or a name made
for one batch write; `batch` the micro-batch's number (0 in a batch write); `partition` Spark's number of the task's rows, `row` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORIGIN_HEADER: Final = "headrace.origin"
_IDENTITY: Final = "headrace_origin"
_NEEDED: Final = ("topic", "partition", "offset", "key", "value", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One task's part of one batch; the same whenever Spark runs it again."""

    run: str
    batch: int
    partition: int

    def column(self, first: int, count: int) -> pa.Array:
        """The header's value for `count` rows of the task from row `first` on."""
        rows = pa.array(np.arange(first, first + count, dtype=np.int64)).cast(pa.string()).cast(pa.binary())
        prefix = pa.scalar(f"{self.run}/{self.batch}/{self.partition}/".encode(), pa.binary())
        return pc.binary_join_element_wise(prefix, rows, pa.scalar(b"", pa.binary()))


def add_header(headers: pa.Array | None, key: str, values: pa.Array) -> pa.Array:
    """The column `headers` with one more header at the end of each row's: `key` with the row's value. A null list counts as empty."""
    count = len(values)
    added_keys = pa.repeat(pa.scalar(key, pa.string()), count)
    if headers is None or headers.null_count == count:
        entries = pa.StructArray.from_arrays([added_keys, values], names=["key", "value"])
        return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), entries)
    given = headers.flatten()
    key_field, value_field = given.type
    added = pa.StructArray.from_arrays(
        [added_keys.cast(key_field.type), values.cast(value_field.type)], fields=[key_field, value_field]
    )
    counts = pc.fill_null(headers.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    bounds = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(counts, out=bounds[1:])
    is_added = np.zeros(int(bounds[-1]), dtype=np.bool_)
    is_added[bounds[1:] - 1] = True
    places = np.empty(len(is_added), dtype=np.int64)
    places[is_added] = len(given) + np.arange(count)
    places[~is_added] = np.arange(len(given))
    entries = pa.concat_arrays([given, added]).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), entries)


def drop_replays(rows: DataFrame, *, within: str | None = None) -> DataFrame:
    """The rows without those that Spark wrote again: of rows of one topic with the same origin, key and value one is kept.

    `rows` is a batch or a stream read with `includeHeaders=true`, all columns still there. Rows without an origin are kept. On a stream Spark
    remembers every row it saw, unless `within` says for how long (`10 minutes`, by the column `timestamp`; rows later than that are dropped).
    Raises OperatorError where a column is missing.
    """
    from pyspark.sql import functions

    missing = [name for name in _NEEDED if name not in rows.columns]
    if missing:
        raise OperatorError(
            f"there is no column {', '.join(missing)}: read with includeHeaders=true and drop replays before select(...)"
        )
    found = functions.filter("headers", lambda each: each["key"] == ORIGIN_HEADER)
    place = functions.concat_ws("/", functions.lit("at"), "partition", "offset")
    marked = rows.withColumn(
        _IDENTITY, functions.coalesce(functions.try_element_at(found, functions.lit(-1))["value"].cast("string"), place)
    )
    identity = [_IDENTITY, "topic", "key", "value"]
    if within is None or not rows.isStreaming:
        return marked.dropDuplicates(identity).drop(_IDENTITY)
    return marked.withWatermark("timestamp", within).dropDuplicatesWithinWatermark(identity).drop(_IDENTITY)
