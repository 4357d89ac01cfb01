"""Rows of a topic with their values decoded into columns; what does not fit is kept, handed on, or an error, and never lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.fitting import plain
from headrace.arrow.values import REGISTERED_FORMATS, check_value_schema, decode_values
from headrace.core.errors import OperatorError

Report: TypeAlias = Callable[[pa.RecordBatch, list[str]], None]
"""Takes the rows whose values do not fit, as they came, and why for each."""
_PLACE: Final = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumns:
    """How values are decoded: the format, the schema, and the column that gets what does not fit (None: there is none).

    With `registry`, the settings of a schema registry's client, values are in Confluent's wire format, and `schema` is what they are read as.
    """

    value_format: str
    schema: pa.Schema
    rescued_column: str | None = None
    registry: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.registry is None:
            check_value_schema(self.schema, self.value_format)
        elif self.value_format not in REGISTERED_FORMATS:
            raise OperatorError(f"valueFormat={self.value_format}: with a schema registry say avro, protobuf or json")
        elif self.value_format == "json":
            check_value_schema(self.schema, "json")


class RowDecoder:
    """Decodes batch after batch; what it learns of a registry's schemas it keeps."""

    def __init__(self, columns: ValueColumns, *, report: Report | None = None) -> None:
        """With `report`, rows that do not fit are handed to it and left out, unless a rescued column keeps them."""
        self._columns = columns
        self._report = report
        self._schema = pa.schema(list(plain(pa.struct(list(columns.schema)))))
        self._decode = self._plainly if columns.registry is None else self._registered()

    def decode(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the struct of the decoded value in the place of the column `value`, and the rescued column behind all others.

        Raises OperatorError with the place of the first that does not fit, where nothing else was said; what `report` raises.
        """
        values = rows.column("value")
        found, problems = self._decode(values)
        if problems and self._report is not None:
            at = sorted(problems)
            self._report(rows.take(pa.array(at, pa.int64())), [problems[each] for each in at])
        elif problems and self._columns.rescued_column is None:
            raise self._error(rows, min(problems), problems)
        arrays = [found if name == "value" else rows.column(name) for name in rows.schema.names]
        names = list(rows.schema.names)
        if self._columns.rescued_column is not None:
            names.append(self._columns.rescued_column)
            arrays.append(_only(values, problems))
        decoded = pa.RecordBatch.from_arrays(arrays, names=names)
        if not problems or self._columns.rescued_column is not None:
            return decoded
        is_kept = np.ones(len(values), dtype=np.bool_)
        is_kept[list(problems)] = False
        return decoded.filter(pa.array(is_kept))

    def _error(self, rows: pa.RecordBatch, at: int, problems: dict[int, str]) -> OperatorError:
        topic, partition, offset = (rows.column(name)[at] for name in _PLACE)
        return OperatorError(
            f"{topic}-{partition} offset {offset}: {problems[at]}; name a rescuedColumn or a deadLetterTopic to keep such values and go on"
        )

    def _plainly(self, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
        found = decode_values(values, self._schema, value_format=self._columns.value_format)
        if not found.is_bad.true_count:
            return found.rows, {}
        reason = f"the value is no {self._columns.value_format} of the schema {self._schema.names}"
        at = np.flatnonzero(found.is_bad.to_numpy(zero_copy_only=False))
        return found.rows, dict.fromkeys(at.tolist(), reason)

    def _registered(self) -> Callable[[pa.Array], tuple[pa.Array, dict[int, str]]]:
        from headrace.arrow.registered import RegisteredDecoder
        from headrace.arrow.registry import registry_of

        assert self._columns.registry is not None
        decoder = RegisteredDecoder(
            registry_of(self._columns.registry),
            self._columns.value_format,
            pa.struct(list(self._columns.schema)),
            self._json,
        )

        def decode(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
            found = decoder.decode(values)
            return found.rows, found.problems

        return decode

    def _json(self, values: pa.Array) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        found = decode_values(values, self._schema, value_format="json")
        return found.rows, found.is_bad.to_numpy(zero_copy_only=False)


def _only(values: pa.Array, problems: dict[int, str]) -> pa.Array:
    """The values that do not fit, null for all others."""
    if not problems:
        return pa.nulls(len(values), pa.binary())
    is_bad = np.zeros(len(values), dtype=np.bool_)
    is_bad[list(problems)] = True
    return pc.if_else(pa.array(is_bad), values, pa.nulls(len(values), pa.binary()))
