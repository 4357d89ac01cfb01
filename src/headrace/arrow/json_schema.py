"""The columns that a JSON Schema describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.arrow.schema_bounds import NOT_UNDERSTOOD, TypeCount, in_short
from headrace.core.errors import OperatorError

_TYPES: Final = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_MOST_DEPTH: Final = 50


def json_schema_type(text: str) -> pa.StructType:
    """The struct of the object that the schema describes. Raises OperatorError for a schema that has no columns."""
    try:
        found = _Columns(json.loads(text)).of_root()
    except NOT_UNDERSTOOD as error:
        raise OperatorError(f"the JSON Schema is not understood: {in_short(error)}; say valueSchema") from None
    if not pa.types.is_struct(found):
        raise OperatorError(
            "the JSON Schema describes no object with properties, so it has no columns; say valueSchema"
        )
    return found


class _Columns:
    """Finds the types of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._count = TypeCount("the JSON Schema")

    def of_root(self) -> pa.DataType:
        return self._type(self._root, 0)

    def _type(self, schema: Mapping[str, Any], depth: int) -> pa.DataType:
        if depth > _MOST_DEPTH:
            raise OperatorError(
                "the JSON Schema holds itself or is nested too deep, so it has no columns; say valueSchema"
            )
        self._count.add()
        if "$ref" in schema:
            return self._type(_referred(schema["$ref"], self._root), depth + 1)
        alternatives = schema.get("oneOf", schema.get("anyOf"))
        if alternatives is not None:
            others = [each for each in alternatives if each.get("type") != "null"]
            if len(others) != 1:
                raise OperatorError("the JSON Schema has oneOf or anyOf of several types: say valueSchema")
            return self._type(others[0], depth + 1)
        return self._named_type(schema, depth)

    def _named_type(self, schema: Mapping[str, Any], depth: int) -> pa.DataType:
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        named = [each for each in ([kinds] if isinstance(kinds, str) else kinds) if each != "null"]
        if set(named) == {"integer", "number"}:
            return pa.float64()
        if len(named) != 1:
            raise OperatorError(f"the JSON Schema has the types {', '.join(named)} at one place: say valueSchema")
        if named[0] == "array":
            return pa.list_(pa.field("element", self._type(schema.get("items", {}), depth + 1)))
        if named[0] == "object":
            parts = schema.get("properties", {})
            if not parts:
                raise OperatorError("the JSON Schema has an object without properties: say valueSchema")
            return pa.struct([pa.field(name, self._type(each, depth + 1)) for name, each in parts.items()])
        return _TYPES[named[0]]


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What `#/...` points to. Raises OperatorError for a reference into another document."""
    if not reference.startswith("#"):
        raise OperatorError(f"the JSON Schema refers to {reference}, another document: say valueSchema")
    found: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return dict(found)
