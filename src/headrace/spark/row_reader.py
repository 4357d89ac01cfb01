"""One task that reads its range of offsets. The same range gives the same rows, on whichever worker and however often."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from headrace.arrow.decode import RangeDecoder
from headrace.arrow.frames import FrameLimits
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.spark.data_loss import gone_text, kept_text, remade_text, report_loss
from headrace.spark.offset_ranges import InputRange
from headrace.spark.options import EARLIEST, LATEST, ReadOptions
from headrace.spark.task_client import task_client
from headrace.spark.worker_memory import keep_freed_memory, spare_imports

DEFAULT_FETCH_BYTES: Final = 4 << 20
_GONE: Final = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""What a broker says of records that aged out, or went with their topic, after the task has begun to read."""
_PLACE: Final = ("topic", "partition", "offset")
"""What names a value that cannot be decoded."""


def read_range(options: ReadOptions, piece: InputRange, topic_id: str | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of `piece` in offset order, as record batches of some ten thousand rows.

    Offsets that the log does not hold any more, or not under the topic's id that was planned, are an error, or with `failOnDataLoss=false` a warning and left out.
    """
    if options.values is None:
        yield from _rows(options, piece, topic_id, options.columns)
        return
    from headrace.arrow.value_rows import RowDecoder

    values = options.values.columns()
    rescued = [] if values.rescued_column is None else [values.rescued_column]
    needed, report = list(_PLACE), None
    if options.values.dead_letter_topic is not None:
        from headrace.spark.dead_letters import NEEDED, DeadLetters

        needed = [*NEEDED]
        report = DeadLetters(options.values.dead_letter_topic, options.properties, task=piece.start).send
    decoder = RowDecoder(values, report=report)
    for rows in _rows(options, piece, topic_id, list(dict.fromkeys([*options.columns, *needed]))):
        yield decoder.decode(rows).select([*options.columns, *rescued])


def _rows(
    options: ReadOptions, piece: InputRange, topic_id: str | None, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    keep_freed_memory()
    spare_imports()
    with task_client(_without_crc_check(options)) as client:
        limits = FrameLimits(max_unpacked_bytes=client.session.settings.max_decompressed_bytes)
        decoder = RangeDecoder(topic=piece.topic, partition=piece.partition, columns=columns, limits=limits)
        left = piece
        said: PeerError | None = None
        while (kept := _kept_part(client, options, left, topic_id)) is not None:
            if said is not None and kept == left:
                raise said  # the log holds it after all: Spark runs the task again
            position, said = yield from _kept_rows(client, options, kept, topic_id, decoder)
            if said is None:
                return
            left = replace(kept, start=position)


def _kept_rows(
    client: BlockingClient, options: ReadOptions, kept: InputRange, topic_id: str | None, decoder: RangeDecoder
) -> Generator[pa.RecordBatch, None, tuple[int, PeerError | None]]:
    """The rows of a range; how far it got, and what the broker said where the records behind that went meanwhile."""
    parts = client.fetch_range(
        kept.topic,
        kept.partition,
        start=kept.start,
        end=kept.end,
        max_bytes=fetch_bytes(options),
        is_read_committed=options.is_read_committed,
    )
    position = kept.start
    try:
        for part in parts:
            if _is_remade(client, options, kept.topic, topic_id):
                client.close()  # with the answer that is on its way
                break
            aborted = part.aborted if options.is_read_committed else None
            yield from decoder.decode(part.records, start_offset=position, end_offset=kept.end, aborted=aborted)
            position = part.next_offset
    except PeerError as error:
        if error.code not in _GONE:
            raise
        return position, error
    return position, None


def fetch_bytes(options: ReadOptions) -> int:
    """The most that one fetch brings, in bytes: `kafka.max.partition.fetch.bytes`, else 4 MiB."""
    return max(int(options.properties.get("max.partition.fetch.bytes", DEFAULT_FETCH_BYTES)), 1)


def _without_crc_check(options: ReadOptions) -> dict[str, str]:
    """The decoder checks each batch's CRC; the client need not do it too."""
    return {**options.properties, "check.crcs": "false"}


def _kept_part(
    client: BlockingClient, options: ReadOptions, piece: InputRange, topic_id: str | None
) -> InputRange | None:
    """The part of `piece` that the log holds. What it lacks is reported; an end that is not there yet is waited for."""
    where = TopicPartition(piece.topic, piece.partition)
    try:
        first, end = _edges(client, options, where, piece.end)
    except PeerError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        report_loss(options, gone_text(piece))
        return None
    if _is_remade(client, options, piece.topic, topic_id):
        return None
    start, end = max(piece.start, first), min(piece.end, end)
    if (start, end) != (piece.start, piece.end):
        report_loss(options, kept_text(piece, start, end))
    if start >= end:
        return None
    return InputRange(topic=piece.topic, partition=piece.partition, start=start, end=end)


def _is_remade(client: BlockingClient, options: ReadOptions, topic: str, topic_id: str | None) -> bool:
    """Whether the client has seen another topic of this name than that with the id, which is a loss."""
    view = client.session.cluster.topics.get(topic)
    if topic_id is None or view is None or str(view.topic_id) == topic_id:
        return False
    report_loss(options, remade_text(topic, topic_id, str(view.topic_id)))
    return True


def _edges(client: BlockingClient, options: ReadOptions, where: TopicPartition, wanted_end: int) -> tuple[int, int]:
    if where.topic not in client.topics([where.topic]):
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {where.topic}")
    end = client.list_offsets({where: LATEST}, is_read_committed=options.is_read_committed)[where].offset
    for _ in range(options.offset_retries):
        if end >= wanted_end:
            break
        time.sleep(options.offset_retry_ms / 1000)
        end = client.list_offsets({where: LATEST}, is_read_committed=options.is_read_committed)[where].offset
    return client.list_offsets({where: EARLIEST})[where].offset, end
