"""Topic ranges as Arrow: the reader for pandas, Polars, DuckDB and scripts, without Spark.

    table = read_table("127.0.0.1:9092", "flights", start=datetime(2026, 1, 1, tzinfo=UTC))
    for batch in read_topic("127.0.0.1:9092", "flights", partitions=[0], columns=["offset", "value"]):
        ...

What is read is settled when it is asked for: records that arrive later do not belong to it. Partitions follow one another by their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

import pyarrow as pa

from headrace.arrow.decode import RangeDecoder
from headrace.arrow.frames import FrameLimits
from headrace.arrow.schema import ROWS_WITH_HEADERS_SCHEMA
from headrace.client.blocking import BlockingClient
from headrace.client.offsets import EARLIEST, LATEST
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition

FETCH_BYTES: Final = 2 << 20
HEADERS: Final = "headers"

Position: TypeAlias = int | datetime
"""An offset, or a time: the first record of that time or later. A time without a zone is UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRange:
    """The offsets of one partition from `start` up to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int


def read_table(
    cluster: str | Mapping[str, str],
    topic: str,
    *,
    partitions: Iterable[int] | None = None,
    start: Position | None = None,
    end: Position | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """All of `read_topic` in memory."""
    return read_topic(cluster, topic, partitions=partitions, start=start, end=end, columns=columns).read_all()


def read_topic(
    cluster: str | Mapping[str, str],
    topic: str,
    *,
    partitions: Iterable[int] | None = None,
    start: Position | None = None,
    end: Position | None = None,
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """The records from `start` (the earliest) up to `end` (exclusive; the latest), fetched while they are taken.

    `cluster` is `host:port,...`, or Kafka's client settings with `bootstrap.servers`; their `isolation.level=read_committed` leaves open and
    aborted transactions out. `columns` are names of `rows_schema`, all without `headers` if not given. Raises OperatorError for what does not exist, and for a start
    that the log no longer holds; an end behind the last record means that record.
    """
    schema = chosen_schema(columns)
    settings = {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)
    is_read_committed = isolation(settings)
    with BlockingClient.from_properties(settings) as client:
        ranges = plan_ranges(
            client, topic, partitions=partitions, start=start, end=end, is_read_committed=is_read_committed
        )

    def batches() -> Iterator[pa.RecordBatch]:
        with BlockingClient.from_properties(settings) as client:
            for each in ranges:
                yield from read_range(client, each, columns=schema.names, is_read_committed=is_read_committed)

    return pa.RecordBatchReader.from_batches(schema, batches())


def chosen_schema(columns: Sequence[str] | None) -> pa.Schema:
    """The schema of these columns, in this order. Raises OperatorError for a column that no record has."""
    known = ROWS_WITH_HEADERS_SCHEMA
    names = [name for name in known.names if name != HEADERS] if columns is None else list(columns)
    for name in names:
        if name not in known.names:
            raise OperatorError(f"there is no column {name}: choose from {', '.join(known.names)}")
    if not names or len(set(names)) != len(names):
        raise OperatorError("name each column once, and at least one")
    return pa.schema([known.field(name) for name in names])


def isolation(properties: Mapping[str, str]) -> bool:
    """Whether `isolation.level` asks for committed records only. Raises OperatorError for another word."""
    level = properties.get("isolation.level", "read_uncommitted")
    if level not in ("read_uncommitted", "read_committed"):
        raise OperatorError(f"isolation.level={level}: must be read_uncommitted or read_committed")
    return level == "read_committed"


def plan_ranges(
    client: BlockingClient,
    topic: str,
    *,
    partitions: Iterable[int] | None = None,
    start: Position | None = None,
    end: Position | None = None,
    is_read_committed: bool = False,
) -> list[TopicRange]:
    """What of each partition lies between two positions now, by partition; ranges may be empty. Raises OperatorError as `read_topic`."""
    wanted = _partitions(client, topic, partitions)
    first = {each: found.offset for each, found in client.list_offsets(dict.fromkeys(wanted, EARLIEST)).items()}
    listed = client.list_offsets(dict.fromkeys(wanted, LATEST), is_read_committed=is_read_committed)
    last = {each: found.offset for each, found in listed.items()}
    starts = _offsets(client, wanted, first if start is None else start, last)
    ends = _offsets(client, wanted, last if end is None else end, last)
    ranges = []
    for each in wanted:
        if starts[each] < first[each]:
            raise OperatorError(
                f"{topic}-{each.partition} begins at offset {first[each]}, so {starts[each]} is gone; "
                "say a later start, or none for the earliest"
            )
        stop = min(ends[each], last[each])
        ranges.append(
            TopicRange(topic=topic, partition=each.partition, start=starts[each], end=max(stop, starts[each]))
        )
    return ranges


def _partitions(client: BlockingClient, topic: str, partitions: Iterable[int] | None) -> list[TopicPartition]:
    numbers = client.partitions([topic]).get(topic)
    if numbers is None:
        raise OperatorError(f"there is no topic {topic} in this cluster")
    chosen = sorted(numbers if partitions is None else set(partitions))
    missing = sorted(set(chosen) - set(numbers))
    if missing:
        raise OperatorError(f"there is no partition {topic}-{missing[0]} in this cluster")
    return [TopicPartition(topic, each) for each in chosen]


def _offsets(
    client: BlockingClient,
    wanted: Sequence[TopicPartition],
    position: Position | Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """The offset in each partition; a time after the last record is the end."""
    if isinstance(position, Mapping):
        return position
    if isinstance(position, datetime):
        moment = position if position.tzinfo is not None else position.replace(tzinfo=UTC)
        listed = client.list_offsets(dict.fromkeys(wanted, round(moment.timestamp() * 1000)))
        return {each: listed[each].offset if listed[each].offset >= 0 else last[each] for each in wanted}
    if position < 0:
        raise OperatorError(f"{position} is no offset: offsets begin at 0")
    return dict.fromkeys(wanted, position)


def read_range(
    client: BlockingClient, part: TopicRange, *, columns: Sequence[str] | None = None, is_read_committed: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of one range in offset order, in batches of some ten thousand; all columns without `headers` if none are named."""
    limits = FrameLimits(max_unpacked_bytes=client.session.settings.max_decompressed_bytes)
    decoder = RangeDecoder(topic=part.topic, partition=part.partition, columns=columns, limits=limits)
    position = part.start
    for fetched in client.fetch_range(
        part.topic,
        part.partition,
        start=part.start,
        end=part.end,
        max_bytes=FETCH_BYTES,
        is_read_committed=is_read_committed,
    ):
        aborted = fetched.aborted if is_read_committed else None
        yield from decoder.decode(fetched.records, start_offset=position, end_offset=part.end, aborted=aborted)
        position = fetched.next_offset
