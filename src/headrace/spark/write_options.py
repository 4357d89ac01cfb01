"""What the writer was told, and what the columns of a frame mean to it.

Columns are those of Spark's `kafka` sink: `value` is needed; `key`, `headers`, `partition` and `topic` may be there; all others are ignored. The
option `topic` goes before the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.arrow.batch_settings import BatchSettings
from headrace.core.errors import OperatorError
from headrace.records.compression import CODEC_NAMES
from headrace.spark.option_names import check_names, client_properties
from headrace.spark.option_values import lowered, truth, whole_number

_TEXT_OR_BYTES: Final = ("string", "binary")
_HEADERS: Final = ("array<struct<key:string,value:binary>>",)
_COLUMN_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "value": _TEXT_OR_BYTES,
    "key": _TEXT_OR_BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": _HEADERS,
}
_LEVELS: Final = {1: "compression.gzip.level", 3: "compression.lz4.level", 4: "compression.zstd.level"}
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
DEFAULT_BATCH_BYTES: Final = 512 << 10
DEFAULT_REQUEST_BYTES: Final = 1 << 20
_ROOM_FOR_HEADERS: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything a writer was told. `topic` is None where a column names it; `acks` is Kafka's number, -1 for all.

    `has_origin` asks for a header that says which row of which batch each record is.
    """

    properties: Mapping[str, str] = field(repr=False)
    topic: str | None
    batches: BatchSettings
    acks: int = -1
    is_idempotent: bool = True
    max_in_flight: int = 5
    has_origin: bool = False


def parse_write_options(raw: Mapping[str, str]) -> WriteOptions:
    """Options of a batch or streaming write. Raises OperatorError."""
    check_names(raw, is_write=True)
    options = lowered(raw)
    properties = client_properties(raw)
    acks = properties.get("acks", "all").strip().lower()
    if acks not in _ACKS:
        raise OperatorError(f"kafka.acks={acks}: must be all, -1, 1 or 0")
    is_idempotent = truth(properties, "enable.idempotence", default=acks in ("all", "-1"))
    if is_idempotent and _ACKS[acks] != -1:
        raise OperatorError(f"kafka.acks={acks}: kafka.enable.idempotence needs acks=all")
    in_flight = whole_number(
        "kafka.max.in.flight.requests.per.connection", properties.get("max.in.flight.requests.per.connection", "5")
    )
    if is_idempotent and not 1 <= in_flight <= 5:
        raise OperatorError(
            f"kafka.max.in.flight.requests.per.connection={in_flight}: an idempotent producer may have 1 to 5"
        )
    return WriteOptions(
        properties=properties,
        topic=options["topic"].strip() if options.get("topic", "").strip() else None,
        batches=_batch_settings(properties),
        acks=_ACKS[acks],
        is_idempotent=is_idempotent,
        max_in_flight=max(in_flight, 1),
        has_origin=truth(options, "writeOrigin", default=False),
    )


def _batch_settings(properties: Mapping[str, str]) -> BatchSettings:
    name = properties.get("compression.type", "none").strip().lower()
    if name not in CODEC_NAMES:
        raise OperatorError(f"kafka.compression.type={name}: must be none, gzip, snappy, lz4 or zstd")
    codec = CODEC_NAMES[name]
    level = properties.get(_LEVELS.get(codec, ""))
    wanted = whole_number("kafka.batch.size", properties.get("batch.size", str(DEFAULT_BATCH_BYTES)))
    largest = whole_number("kafka.max.request.size", properties.get("max.request.size", str(DEFAULT_REQUEST_BYTES)))
    return BatchSettings(
        codec=codec,
        level=None if level is None else _level(codec, level),
        max_batch_bytes=max(min(wanted, largest - _ROOM_FOR_HEADERS), 1),
    )


def _level(codec: int, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise OperatorError(f"kafka.{_LEVELS[codec]}={value}: must be a whole number") from None


def check_columns(columns: Mapping[str, str], *, topic: str | None) -> None:
    """Whether a frame with these columns (name to Spark's simple type name) can be written. Raises OperatorError."""
    if "value" not in columns:
        raise OperatorError("there is no column value: it holds what is written, as string or binary")
    if topic is None and "topic" not in columns:
        raise OperatorError("say the option topic, or give a column topic with a name for each row")
    for name, accepted in _COLUMN_TYPES.items():
        if name in columns and columns[name] not in accepted:
            raise OperatorError(f"column {name} is {columns[name]}; it must be {' or '.join(accepted)}")
