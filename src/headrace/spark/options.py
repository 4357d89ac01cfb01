"""The reader's options as Spark hands them over, parsed once into frozen values.

Rules and defaults are those of Spark's `kafka` source; a value that cannot be is an `OperatorError` that names the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.option_names import COLUMNS, HEADERS, SELECTION_OPTIONS, check_names, client_properties
from headrace.spark.option_values import (
    duration_ms,
    lowered,
    parse_partition_numbers,
    parse_partition_times,
    parse_partitions,
    positive_int,
    truth,
    whole_number,
)
from headrace.spark.value_options import ValueOptions, parse_value_options

EARLIEST: Final = -2
LATEST: Final = -1
DEFAULT_MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """These topics, with all their partitions."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribePattern:
    """All topics whose whole name matches the regular expression."""

    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """These partitions."""

    partitions: tuple[TopicPartition, ...]


Selection: TypeAlias = Subscribe | SubscribePattern | Assign


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEdge:
    """The earliest (-2) or the latest (-1) offset of every partition."""

    edge: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffsets:
    """An offset for every partition, or -2 (earliest) or -1 (latest)."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """The first offset with this time (ms since 1970) or later: one time for all partitions, or one for each.

    `is_latest_if_none` decides for a start what a partition without such a record means: its end, or an error.
    """

    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    is_latest_if_none: bool = False


Position: TypeAlias = AtEdge | AtOffsets | AtTime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Everything a reader was told. `properties` are the client's, without `kafka.`; counts are records, times milliseconds."""

    properties: Mapping[str, str] = field(repr=False)
    selection: Selection
    starting: Position
    ending: Position
    is_loss_fatal: bool = True
    columns: tuple[str, ...] = COLUMNS
    values: ValueOptions | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    group_id: str | None = None
    offset_retries: int = 3
    offset_retry_ms: int = 1000

    @property
    def is_read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out (`kafka.isolation.level`)."""
        return self.properties.get("isolation.level", "read_uncommitted") == "read_committed"


def parse_read_options(raw: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Options of a batch or streaming read. Raises OperatorError."""
    check_names(raw, is_write=False)
    options = lowered(raw)
    default_start = LATEST if is_stream else EARLIEST
    parsed = ReadOptions(
        properties=_with_poll_timeout(client_properties(raw), options),
        selection=_selection(options),
        starting=_position(options, "starting", default_start),
        ending=_position(options, "ending", LATEST),
        is_loss_fatal=truth(options, "failOnDataLoss", default=True),
        columns=chosen_columns(raw),
        values=parse_value_options(options),
        min_partitions=positive_int(options, "minPartitions"),
        max_records_per_partition=positive_int(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=positive_int(options, "maxOffsetsPerTrigger"),
        max_bytes_per_trigger=positive_int(options, "maxBytesPerTrigger"),
        min_offsets_per_trigger=positive_int(options, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=duration_ms(options, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        group_id=options.get("groupid", "").strip() or None,
        offset_retries=whole_number("fetchOffset.numRetries", options.get("fetchoffset.numretries", "3")),
        offset_retry_ms=whole_number("fetchOffset.retryIntervalMs", options.get("fetchoffset.retryintervalms", "1000")),
    )
    _check_isolation(parsed)
    if is_stream:
        _check_stream(options, parsed)
    else:
        _check_batch(parsed)
    return parsed


def _with_poll_timeout(properties: dict[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """`kafkaConsumer.pollTimeoutMs` is how long a task waits for data, unless the client was told so itself."""
    name = "kafkaConsumer.pollTimeoutMs"
    if name.lower() in options:
        properties.setdefault("default.api.timeout.ms", str(whole_number(name, options[name.lower()])))
    return properties


def chosen_columns(raw: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of records that are read: those of `columns` in its order, or all, with `headers` if asked for. Raises OperatorError."""
    options = lowered(raw)
    has_headers = truth(options, "includeHeaders", default=False)
    if "columns" not in options:
        return (*COLUMNS, HEADERS) if has_headers else COLUMNS
    known = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    given = [each.strip() for each in options["columns"].split(",")]
    for each in given:
        if each.lower() not in known:
            raise OperatorError(
                f"columns: there is no column {each or '(empty)'}: choose from {', '.join(known.values())}"
            )
    names = tuple(known[each.lower()] for each in given)
    if len(set(names)) != len(names):
        raise OperatorError("columns: name each column once")
    if has_headers and HEADERS not in names:
        raise OperatorError(
            "includeHeaders=true, and columns does not name headers: name it there, or leave includeHeaders out"
        )
    if options.get("valueformat", "").strip() and "value" not in names:
        raise OperatorError("valueFormat has no meaning where columns does not name value")
    return names


def _selection(options: Mapping[str, str]) -> Selection:
    given = [name for name in SELECTION_OPTIONS if name.lower() in options]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise OperatorError(f"say exactly one of {', '.join(SELECTION_OPTIONS)}; there is {said}")
    name = given[0]
    value = options[name.lower()].strip()
    if name == "assign":
        return Assign(partitions=parse_partitions("assign", value))
    if name == "subscribePattern":
        if not value:
            raise OperatorError("subscribePattern is empty: say a regular expression of topic names")
        return SubscribePattern(pattern=value)
    topics = tuple(dict.fromkeys(each.strip() for each in value.split(",") if each.strip()))
    if not topics:
        raise OperatorError("subscribe names no topic: say topics separated by commas")
    return Subscribe(topics=topics)


def _position(options: Mapping[str, str], side: str, default: int) -> Position:
    """A timestamp for all goes before timestamps a partition, and those before offsets."""
    by_time, by_offset = f"{side}OffsetsByTimestamp", f"{side}Offsets"
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OperatorError(f"startingOffsetsByTimestampStrategy={strategy}: must be error or latest")
    if f"{side}timestamp" in options:
        moment = whole_number(f"{side}Timestamp", options[f"{side}timestamp"])
        return AtTime(timestamp_ms=moment, is_latest_if_none=strategy == "latest")
    if by_time.lower() in options:
        moments = parse_partition_times(by_time, options[by_time.lower()])
        return AtTime(timestamps_ms=moments, is_latest_if_none=strategy == "latest")
    value = options.get(by_offset.lower(), "").strip()
    if not value:
        return AtEdge(edge=default)
    if value.lower() in ("earliest", "latest"):
        return AtEdge(edge=EARLIEST if value.lower() == "earliest" else LATEST)
    return AtOffsets(offsets=parse_partition_numbers(by_offset, value))


def _check_isolation(parsed: ReadOptions) -> None:
    level = parsed.properties.get("isolation.level", "read_uncommitted")
    if level not in ("read_uncommitted", "read_committed"):
        raise OperatorError(f"kafka.isolation.level={level}: must be read_uncommitted or read_committed")


def _check_stream(options: Mapping[str, str], parsed: ReadOptions) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name.lower() in options:
            raise OperatorError(f"{name} has no meaning in a streaming query")
    if parsed.max_bytes_per_trigger is not None and parsed.max_offsets_per_trigger is not None:
        raise OperatorError("maxBytesPerTrigger and maxOffsetsPerTrigger limit the same thing: say one of them")
    low, high = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if low is not None and high is not None and low > high:
        raise OperatorError(f"minOffsetsPerTrigger={low} is more than maxOffsetsPerTrigger={high}")


def _check_batch(parsed: ReadOptions) -> None:
    if parsed.starting == AtEdge(edge=LATEST):
        raise OperatorError("startingOffsets=latest: a batch query cannot start at the end")
    if parsed.ending == AtEdge(edge=EARLIEST):
        raise OperatorError("endingOffsets=earliest: a batch query cannot end at the beginning")
    start, end = _numbers(parsed.starting), _numbers(parsed.ending)
    if isinstance(parsed.starting, AtOffsets) and LATEST in start.values():
        raise OperatorError("startingOffsets: -1 (latest) is not possible in a batch query")
    if isinstance(parsed.ending, AtOffsets) and EARLIEST in end.values():
        raise OperatorError("endingOffsets: -2 (earliest) is not possible in a batch query")
    if start and end and type(parsed.starting) is type(parsed.ending):
        _check_pairs(start, end)


def _numbers(position: Position) -> Mapping[TopicPartition, int]:
    if isinstance(position, AtOffsets):
        return position.offsets
    return (position.timestamps_ms or {}) if isinstance(position, AtTime) else {}


def _check_pairs(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> None:
    if start.keys() != end.keys():
        odd = sorted(start.keys() ^ end.keys())[0]
        raise OperatorError(f"start and end name different partitions: {odd.topic}-{odd.partition} is in one only")
    for partition, first in start.items():
        if first > end[partition] >= 0:
            raise OperatorError(
                f"{partition.topic}-{partition.partition} starts at {first}, after its end {end[partition]}"
            )
