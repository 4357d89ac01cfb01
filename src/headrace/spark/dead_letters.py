"""Records whose values could not be decoded, sent to a topic of their own with where they come from and why.

Headers are those of Kafka Connect's dead-letter queues, so that its users' tools read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow.batch_settings import BatchSettings
from headrace.core.errors import OperatorError
from headrace.records.compression import Codec
from headrace.spark.row_writer import write_rows
from headrace.spark.write_options import WriteOptions

NEEDED: Final = ("key", "value", "topic", "partition", "offset", "headers")
"""The columns that a dead letter is made of."""
_PREFIX: Final = "__connect.errors."
_PACKED: Final = BatchSettings(codec=Codec.ZSTD)
"""A value of a few bytes on the wire may open to megabytes: unpacked, it would be larger than any topic takes, and end the query each time that it is read."""
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class DeadLetters:
    """Sends what one task could not decode, and waits until it is acknowledged: it is there before the rows around it are."""

    def __init__(self, topic: str, properties: Mapping[str, str], *, task: int) -> None:
        self._options = WriteOptions(properties=properties, topic=topic, batches=_PACKED)
        self._task = task

    def send(self, rows: pa.RecordBatch, reasons: list[str]) -> None:
        """Send these rows. Raises OperatorError where the topic does not take them, or is read by the query: that would never end."""
        if pc.any(pc.equal(rows.column("topic"), self._options.topic)).as_py():
            raise OperatorError(
                f"deadLetterTopic={self._options.topic} is read by this query: leave it out, or name another"
            )
        headers = [
            [*kept, *_told(topic, partition, offset, reason)]
            for kept, topic, partition, offset, reason in zip(
                (_pairs(each) for each in rows.column("headers").to_pylist()),
                rows.column("topic").to_pylist(),
                rows.column("partition").to_pylist(),
                rows.column("offset").to_pylist(),
                reasons,
                strict=True,
            )
        ]
        letters = pa.RecordBatch.from_arrays(
            [rows.column("key"), rows.column("value"), pa.array(headers, _HEADERS)], names=["key", "value", "headers"]
        )
        try:
            write_rows(self._options, iter([letters]), task=self._task, is_stream=True)
        except OperatorError as error:
            raise OperatorError(f"deadLetterTopic={self._options.topic}: {error}") from error


def _pairs(headers: list[dict[str, object]] | None) -> list[dict[str, object]]:
    return [each for each in headers or [] if each["key"] is not None]


def _told(topic: str, partition: int, offset: int, reason: str) -> list[dict[str, object]]:
    """Where the record was, and why it is here."""
    found = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "stage": "VALUE_CONVERTER",
        "exception.message": reason,
    }
    return [{"key": _PREFIX + name, "value": str(value).encode()} for name, value in found.items()]
