"""Values in Confluent's wire format as Arrow columns: each says by a registry's id which schema wrote it.

A value is a zero byte, the schema's id in four bytes, for Protobuf which message of the schema it is, and then the data. Values are decoded by the schema that wrote
them, all of one schema at once, and then read as the schema that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.avro import AvroSchema
from headrace.arrow.fitting import fit, misfit, plain, readable
from headrace.arrow.json_schema import json_schema_type
from headrace.arrow.protobuf import Indexes, ProtobufSchema
from headrace.arrow.registry import RegisteredSchema
from headrace.core.errors import OperatorError

KINDS: Final = {"avro": "AVRO", "protobuf": "PROTOBUF", "json": "JSON"}
_HEAD_BYTES: Final = 5
_LONGEST_VARINT: Final = 28
_MOST_DEPTH: Final = 64
_MOST_CELLS: Final = 8 << 20
"""So many parts of values are decoded at once: a null takes as much as a number, and a record that is null as much as all its fields."""
_LAST_ID: Final = 2**31 - 1
"""Ids are positive numbers of 32 bits with a sign."""
_MOST_MISSING: Final = 256
"""So many schemas that there are not are asked for, one request each: values of a few bytes may name another one each."""
_ALWAYS_ASKED: Final = 8
"""So many new ids of each batch are asked for even then: a flood in one batch must not spoil the values of a schema that comes later."""
_UNFIT: Final = (ValueError, OverflowError, pa.ArrowException)
Rows = npt.NDArray[np.int64]
Decode = Callable[[pa.Array], pa.Array]


class Schemas(Protocol):
    """Where schemas come from; `headrace.arrow.registry.Registry` is the real one."""

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        """The schema, or None where there is none of this id."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A struct for each value, null where it was null or bad; `problems` says why it is bad."""

    rows: pa.StructArray
    problems: dict[int, str]


@dataclass(frozen=True, slots=True)
class _Part:
    """Values of one type, without what stands before the data; `rows` says where they were."""

    decode: Decode
    payloads: pa.Array
    rows: Rows


def schema_columns(schema: RegisteredSchema, value_format: str) -> pa.StructType:
    """The columns of values that this schema writes, with what it says about fields that older ones lack. Raises OperatorError."""
    wanted = KINDS[value_format]
    if schema.kind != wanted:
        raise OperatorError(f"valueFormat={value_format}, and the registered schema is of type {schema.kind}")
    if value_format == "avro":
        return _readable_fields(AvroSchema(schema.text, [text for _, text in schema.references]).type)
    if value_format == "protobuf":
        return readable(ProtobufSchema(schema.text, dict(schema.references)).message_type())
    return json_schema_type(schema.text)


def _readable_fields(kind: pa.StructType) -> pa.StructType:
    """As Spark can have them; what the fields say stays."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    return pa.struct(
        [
            pa.field(
                each.name,
                _readable_fields(each.type) if pa.types.is_struct(each.type) else readable(each.type),
                metadata=each.metadata,
            )
            for each in fields
        ]
    )


class RegisteredDecoder:
    """Decodes values of one format into the columns of `want`; remembers the schemas that it met."""

    def __init__(
        self,
        schemas: Schemas,
        value_format: str,
        want: pa.StructType,
        decode_json: Callable[[pa.Array], tuple[pa.Array, npt.NDArray[np.bool_]]],
    ) -> None:
        self._schemas = schemas
        self._format = value_format
        self._want = want
        self._plain = plain(want)
        self._decode_json = decode_json
        self._writers: dict[int, AvroSchema | ProtobufSchema | str | None] = {}
        self._fits: dict[tuple[int, Indexes], str | None] = {}
        self._missing = 0

    def decode(self, values: pa.Array) -> Decoded:
        """All values. Raises OperatorError where the registry does not answer."""
        problems: dict[int, str] = {}
        parts: list[pa.Array] = []
        places: list[Rows] = []
        lengths = pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False)
        is_given = values.is_valid().to_numpy(zero_copy_only=False)
        ids = self._ids(values, lengths)
        for row in np.flatnonzero(is_given & (ids < 0)):
            problems[int(row)] = "the value does not begin with a zero byte and the id of a schema"
        for schema_id, rows in self._by_schema(ids, problems):
            for found, at in self._of_schema(schema_id, values, rows, problems):
                parts.append(found)
                places.append(at)
        assert sum(map(len, places)) + len(problems) == is_given.sum(), "every value is a row or has a problem"
        if not parts:
            return Decoded(pa.nulls(len(values), self._plain), problems)
        order = np.full(len(values), -1, dtype=np.int64)
        at = np.concatenate(places)
        order[at] = np.arange(len(at))
        whole = pa.concat_arrays(parts)
        if len(at) == len(values) and (np.diff(at) == 1).all():
            return Decoded(whole, problems)
        return Decoded(whole.take(pa.array(order, mask=order < 0)), problems)

    def _by_schema(self, ids: Rows, problems: dict[int, str]) -> Iterator[tuple[int, Rows]]:
        """The rows of each schema, those of many values first. What has an id that no registry gives, or one of very many that there are not, is not asked for."""
        numbers, counts = np.unique(ids[ids >= 0], return_counts=True)
        unasked: list[int] = []
        new = 0
        for schema_id in numbers[np.argsort(-counts, kind="stable")].tolist():
            is_known = schema_id in self._writers
            if is_known or (schema_id <= _LAST_ID and (new < _ALWAYS_ASKED or self._missing < _MOST_MISSING)):
                new += not is_known
                yield schema_id, np.flatnonzero(ids == schema_id)
            else:
                unasked.append(schema_id)
        for row in np.flatnonzero(np.isin(ids, unasked)).tolist():
            schema_id = int(ids[row])
            why = "it lacks too many others" if schema_id <= _LAST_ID else "that is no id"
            problems[row] = f"the schema registry was not asked for schema {schema_id}: {why}"

    def _ids(self, values: pa.Array, lengths: npt.NDArray[np.int64]) -> Rows:
        """The id of each value's schema, -1 where it has none."""
        ids = np.full(len(values), -1, dtype=np.int64)
        framed = np.flatnonzero(lengths >= _HEAD_BYTES)
        if not len(framed):
            return ids
        offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset : values.offset + len(values)]
        data = np.frombuffer(values.buffers()[2], dtype=np.uint8)
        heads = data[offsets[framed].astype(np.int64)[:, None] + np.arange(_HEAD_BYTES)]
        number = np.ascontiguousarray(heads[:, 1:]).view(">u4").ravel().astype(np.int64)
        ids[framed] = np.where(heads[:, 0] == 0, number, -1)
        return ids

    def _of_schema(
        self, schema_id: int, values: pa.Array, rows: Rows, problems: dict[int, str]
    ) -> list[tuple[pa.Array, Rows]]:
        """What the values at `rows`, all of one schema, are, and where; the problem of each that is not among them."""
        writer = self._writer(schema_id)
        if isinstance(writer, str):
            problems |= dict.fromkeys(rows.tolist(), writer)
            return []
        payloads = _without_head(values, rows, _HEAD_BYTES)
        if writer is None:
            found, is_bad = self._decode_json(payloads)
            reason = f"the value is no JSON of the columns {[each.name for each in self._want]}"
            problems |= dict.fromkeys(rows[is_bad].tolist(), reason)
            return [(found.filter(pa.array(~is_bad)), rows[~is_bad])] if is_bad.any() else [(found, rows)]
        if isinstance(writer, AvroSchema):
            return self._fitting((schema_id, ()), writer.type, _Part(_avro(writer), payloads, rows), problems)
        return self._of_messages(schema_id, writer, payloads, rows, problems)

    def _of_messages(
        self, schema_id: int, writer: ProtobufSchema, payloads: pa.Array, rows: Rows, problems: dict[int, str]
    ) -> list[tuple[pa.Array, Rows]]:
        """The same, by the messages of a Protobuf schema."""
        first = pc.starts_with(payloads, b"\0").to_numpy(zero_copy_only=False)
        kinds: list[tuple[Indexes, pa.Array, Rows]] = []
        if first.any():
            kinds.append(((0,), _without_head(payloads, np.flatnonzero(first), 1), rows[first]))
        others: dict[Indexes, tuple[list[bytes], list[int]]] = {}
        for at in np.flatnonzero(~first):
            data = payloads[int(at)].as_py()
            found = _message_indexes(data)
            if found is None:
                problems[int(rows[at])] = "the value does not say which message of its schema it is"
                continue
            bodies, where = others.setdefault(found[0], ([], []))
            bodies.append(data[found[1] :])
            where.append(int(rows[at]))
        for indexes, (bodies, where) in others.items():
            kinds.append((indexes, pa.array(bodies, pa.binary()), np.array(where, dtype=np.int64)))
        parts = []
        for indexes, bodies_of, rows_of in kinds:
            try:
                kind = writer.message_type(indexes)
            except OperatorError as error:
                problems |= dict.fromkeys(rows_of.tolist(), str(error))
                continue
            parts += self._fitting(
                (schema_id, indexes), kind, _Part(_message(writer, indexes), bodies_of, rows_of), problems
            )
        return parts

    def _fitting(
        self, key: tuple[int, Indexes], have: pa.DataType, part: _Part, problems: dict[int, str]
    ) -> list[tuple[pa.Array, Rows]]:
        """Decode values of one type as what is wanted, if that can be."""
        if key not in self._fits:
            self._fits[key] = misfit(have, self._want)
        reason = self._fits[key]
        if reason is not None:
            problems |= dict.fromkeys(part.rows.tolist(), f"schema {key[0]}: {reason}")
            return []
        parts: list[tuple[pa.Array, Rows]] = []
        most = max(1, _MOST_CELLS // _types_in(have))
        for at in range(0, len(part.rows), most):
            payloads, rows = part.payloads.slice(at, most), part.rows[at : at + most]
            _halve(lambda some: fit(part.decode(some), self._want), payloads, rows, parts, problems)
        return parts

    def _writer(self, schema_id: int) -> AvroSchema | ProtobufSchema | str | None:
        """The schema's decoder (None: JSON, which needs none), or why there is none."""
        if schema_id not in self._writers:
            self._writers[schema_id] = self._asked(schema_id)
        return self._writers[schema_id]

    def _asked(self, schema_id: int) -> AvroSchema | ProtobufSchema | str | None:
        found = self._schemas.by_id(schema_id)
        if found is None:
            self._missing += 1
            return f"the schema registry has no schema {schema_id}"
        if found.kind != KINDS[self._format]:
            return f"schema {schema_id} is of type {found.kind}"
        try:
            if found.kind == "AVRO":
                return AvroSchema(found.text, [text for _, text in found.references])
            return ProtobufSchema(found.text, dict(found.references)) if found.kind == "PROTOBUF" else None
        except OperatorError as error:
            return f"schema {schema_id}: {error}"


def _without_head(values: pa.Array, rows: Rows, head: int) -> pa.Array:
    """The values at these rows, which have no nulls and are not shorter, without their first bytes."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[values.offset :]
    bounds = np.empty(2 * len(rows), dtype=np.int32)
    bounds[::2], bounds[1::2] = offsets[rows] + head, offsets[rows + 1]
    whole = pa.Array.from_buffers(pa.binary(), len(bounds) - 1, [None, pa.py_buffer(bounds), values.buffers()[2]])
    return whole.take(pa.array(np.arange(len(rows)) * 2))


def _avro(writer: AvroSchema) -> Decode:
    return lambda values: writer.decode(values.to_pylist())


def _message(writer: ProtobufSchema, indexes: Indexes) -> Decode:
    return lambda values: writer.decode(values, indexes)


def _types_in(kind: pa.DataType) -> int:
    """How many types there are in a type, itself among them."""
    return 1 + sum(_types_in(kind.field(at).type) for at in range(kind.num_fields))


def _halve(
    decode: Decode, values: pa.Array, rows: Rows, parts: list[tuple[pa.Array, Rows]], problems: dict[int, str]
) -> None:
    """Decode all at once, or else each half; one value alone that cannot be decoded is bad."""
    try:
        found = decode(values)
    except BaseException as error:
        if not isinstance(error, _UNFIT) and type(error).__name__ != "PanicException":
            raise
        if len(values) == 1:
            problems[int(rows[0])] = f"the value cannot be decoded: {' '.join(str(error).split())[:200]}"
            return
        middle = len(values) // 2
        _halve(decode, values.slice(0, middle), rows[:middle], parts, problems)
        _halve(decode, values.slice(middle), rows[middle:], parts, problems)
        return
    parts.append((found, rows))


def _message_indexes(data: bytes) -> tuple[Indexes, int] | None:
    """Which message follows, and where it begins; None where the bytes do not say so."""
    numbers: list[int] = []
    at, wanted = 0, 1
    while len(numbers) < wanted:
        value = shift = 0
        while True:
            if at >= len(data) or shift > _LONGEST_VARINT:
                return None
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        number = (value >> 1) ^ -(value & 1)
        if number < 0:
            return None
        if not numbers:
            if number == 0:
                return (0,), at
            if number > _MOST_DEPTH:
                return None
            wanted = number + 1
        numbers.append(number)
    return tuple(numbers[1:]), at
