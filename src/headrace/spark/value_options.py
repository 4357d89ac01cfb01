"""The options that decode values: `valueFormat`, `valueSchema`, `rescuedColumn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.arrow.values import ValueColumns

_TAKEN: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """The format and the schema of values as they were given; `rescued_column` gets what does not fit."""

    value_format: str
    schema: str
    rescued_column: str | None = None

    def columns(self) -> ValueColumns:
        """The same for the decoder. Raises OperatorError for a format or a schema that cannot be."""
        from headrace.arrow.value_schema import parse_value_schema
        from headrace.arrow.values import ValueColumns

        schema = parse_value_schema(self.schema)
        return ValueColumns(value_format=self.value_format, schema=schema, rescued_column=self.rescued_column)


def parse_value_options(options: Mapping[str, str]) -> ValueOptions | None:
    """The options out of those under lower-case names; None where values stay bytes. Raises OperatorError."""
    given = options.get("valueformat", "").strip().lower()
    schema = options.get("valueschema", "").strip()
    rescued = options.get("rescuedcolumn", "").strip() or None
    if not given:
        if schema or rescued:
            name = "valueSchema" if schema else "rescuedColumn"
            raise OperatorError(f"{name} has no meaning without valueFormat: say json or csv")
        return None
    if not schema:
        raise OperatorError(f"valueFormat={given} needs valueSchema, such as valueSchema='id bigint, name string'")
    if rescued is not None and rescued.lower() in _TAKEN:
        raise OperatorError(f"rescuedColumn={rescued}: there is a column of this name")
    return ValueOptions(value_format=given, schema=schema, rescued_column=rescued)
