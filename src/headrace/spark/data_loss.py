"""Records that are gone before they were read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import InputRange
from headrace.spark.options import ReadOptions

if TYPE_CHECKING:
    from headrace.spark.cluster import TopicCluster

_LOG: Final = logging.getLogger("headrace.spark")


def remade_text(topic: str, before: str, now: str) -> str:
    """That a topic is another one of the same name."""
    return f"topic {topic} was deleted and made again (its id was {before} and is {now}): what had not been read of the former is lost"


def gone_text(piece: InputRange) -> str:
    """That a partition is not there any more."""
    return f"{piece.topic}-{piece.partition} is gone, and with it offsets {piece.start} to {piece.end}"


def kept_text(piece: InputRange, start: int, end: int) -> str:
    """That of a range the log holds the offsets from `start` up to `end` (exclusive) only."""
    kept = f"{start} to {end}" if start < end else "none"
    return f"of the offsets {piece.start} to {piece.end} of {piece.topic}-{piece.partition} the log holds {kept}"


def check_kept(
    options: ReadOptions, cluster: TopicCluster, ranges: Sequence[InputRange], topic_ids: Mapping[str, str]
) -> None:
    """Look, before any task reads, whether the logs still hold the ranges, under the topics' ids that were planned. Raises OperatorError where `failOnDataLoss` is true.

    An error of the driver is the query's own. That of a task is, in a table of files, only the cause of Spark's `TASK_WRITE_FAILED`; tasks look again, and alone with `failOnDataLoss=false`.
    """
    if not options.is_loss_fatal:
        return
    wanted = {TopicPartition(each.topic, each.partition): each for each in ranges if each.size}
    first, ids = cluster.beginnings(wanted)
    for where, each in wanted.items():
        planned, now = topic_ids.get(each.topic), ids.get(each.topic)
        begin = first.get(where)
        if begin is None:
            report_loss(options, gone_text(each))
        elif planned is not None and now is not None and planned != now:
            report_loss(options, remade_text(each.topic, planned, now))
        elif begin > each.start:
            report_loss(options, kept_text(each, begin, each.end))


def report_loss(options: ReadOptions, what: str) -> None:
    """With `failOnDataLoss` an OperatorError that says what is missing, else a warning in the log."""
    if options.is_loss_fatal:
        raise OperatorError(
            f"{what}. Records were aged out or deleted, or the topic was made anew; "
            "say failOnDataLoss=false to go on without them"
        )
    _LOG.warning("%s; going on without them, as failOnDataLoss=false says", what)
