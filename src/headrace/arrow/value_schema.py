"""The columns in which values are decoded, written as in SQL: `id bigint, name string, tags array<string>, at struct<x:double,y:double>`.

What `DataFrame.schema.simpleString()` says is understood too. All columns may be null.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from headrace.core.errors import OperatorError

_TOKEN: Final = re.compile(r"\s*(?:`([^`]+)`|(\w+)|([<>(),:]))", re.ASCII)
_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}  # fmt: skip
_DECIMAL_DIGITS: Final = 38
_MOST_DEPTH: Final = 20


def parse_value_schema(text: str) -> pa.Schema:
    """The schema that the text describes. Raises OperatorError that names what is not understood."""
    reader = _Reader(text)
    if reader.is_next("struct") and reader.is_next("<", ahead=1):
        kind = reader.type_(0)
        fields = [kind.field(each) for each in range(kind.num_fields)]
    else:
        fields = reader.fields(0)
    if not reader.is_done:
        raise reader.error()
    return pa.schema(fields)


class _Reader:
    """The tokens of a schema, taken one by one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        self._quoted: set[int] = set()
        self._at = 0
        end, whole = 0, text.rstrip()
        while end < len(whole):
            found = _TOKEN.match(whole, end)
            if found is None:
                raise OperatorError(f"the schema {text!r} is not understood at {whole[end : end + 20]!r}")
            if found[1]:
                self._quoted.add(len(self._tokens))
            self._tokens.append(found[1] or found[2] or found[3])
            end = found.end()

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._tokens)

    def error(self) -> OperatorError:
        what = repr(self._tokens[self._at]) if not self.is_done else "its end"
        return OperatorError(f"the schema {self._text!r} is not understood at {what}: say NAME TYPE, NAME TYPE, ...")

    def is_next(self, token: str, *, ahead: int = 0) -> bool:
        at = self._at + ahead
        return at < len(self._tokens) and at not in self._quoted and self._tokens[at].lower() == token

    def fields(self, depth: int) -> list[pa.Field]:
        """Fields up to the end or a bracket that closes; no name twice, whatever its case."""
        found: list[pa.Field] = []
        while True:
            name = self._word(is_name=True)
            if self.is_next(":"):
                self._at += 1
            if name.lower() in {each.name.lower() for each in found}:
                raise OperatorError(f"the schema {self._text!r} has {name} twice")
            found.append(pa.field(name, self.type_(depth)))
            if not self.is_next(","):
                return found
            self._at += 1

    def type_(self, depth: int) -> pa.DataType:
        """One type, with what is inside of it."""
        if depth > _MOST_DEPTH:
            raise OperatorError(f"the schema is nested deeper than {_MOST_DEPTH}")
        start = self._at
        word = self._word(is_name=False).lower()
        if word == "struct":
            self._take("<")
            fields = self.fields(depth + 1)
            self._take(">")
            return pa.struct(fields)
        if word == "array":
            self._take("<")
            element = self.type_(depth + 1)
            self._take(">")
            return pa.list_(pa.field("element", element))
        if word == "map":
            self._take("<")
            key = self.type_(depth + 1)
            self._take(",")
            item = self.type_(depth + 1)
            self._take(">")
            return pa.map_(key, item)
        if word == "decimal":
            return self._decimal()
        if word not in _TYPES:
            self._at = start
            raise self.error()
        return _TYPES[word]

    def _decimal(self) -> pa.DataType:
        """`decimal` is (10, 0), as in Spark."""
        precision, scale = 10, 0
        if self.is_next("("):
            self._at += 1
            precision = self._number()
            if self.is_next(","):
                self._at += 1
                scale = self._number()
            self._take(")")
        if not (1 <= precision <= _DECIMAL_DIGITS and scale <= precision):
            raise OperatorError(
                f"decimal({precision},{scale}): at most {_DECIMAL_DIGITS} digits, of which none are missing"
            )
        return pa.decimal128(precision, scale)

    def _word(self, *, is_name: bool) -> str:
        if self.is_done or (self._tokens[self._at] in "<>(),:" and self._at not in self._quoted):
            raise self.error()
        if not is_name and self._at in self._quoted:
            raise self.error()
        self._at += 1
        return self._tokens[self._at - 1]

    def _number(self) -> int:
        word = self._word(is_name=False)
        if not word.isdigit() or len(word) > 2:
            self._at -= 1
            raise self.error()
        return int(word)

    def _take(self, token: str) -> None:
        if not self.is_next(token):
            raise self.error()
        self._at += 1
