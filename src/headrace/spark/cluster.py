"""The partitions that a reader reads, and where they begin and end right now.

Asked on Spark's driver, once a batch. Opens its connection on first use and closes it in `close`; a copy of it has none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, assert_never

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.options import (
    EARLIEST,
    LATEST,
    Assign,
    AtEdge,
    AtOffsets,
    AtTime,
    Position,
    ReadOptions,
    Subscribe,
    SubscribePattern,
)

if TYPE_CHECKING:
    from headrace.client.blocking import BlockingClient

_LOOK_BYTES: Final = 16 << 10


def open_client(properties: Mapping[str, str], *, is_cluster_known: bool = False) -> BlockingClient:
    """A client for the `kafka.` settings of a reader or writer; in a task of a query that has been at the cluster, `is_cluster_known`."""
    from headrace.client.blocking import BlockingClient

    return BlockingClient(
        properties["bootstrap.servers"],
        client_id=properties.get("client.id", "headrace-spark"),
        properties=properties,
        is_cluster_known=is_cluster_known,
    )


class TopicCluster:
    """The topics that `options` select, as the cluster has them."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._client: BlockingClient | None = None
        self.topic_ids: dict[str, str] = {}
        """The id of each topic as `partitions` last found it, where the cluster has ids."""

    def __getstate__(self) -> ReadOptions:
        return self._options

    def __setstate__(self, options: ReadOptions) -> None:
        self._options = options
        self._client = None
        self.topic_ids = {}

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connected(self) -> BlockingClient:
        if self._client is None:
            self._client = open_client(self._options.properties)
        return self._client

    def partitions(self) -> tuple[TopicPartition, ...]:
        """All selected partitions that exist, sorted."""
        selection = self._options.selection
        match selection:
            case Subscribe():
                topics = self._connected().topics(selection.topics)
            case SubscribePattern():
                everything = self._connected().topics()
                pattern = _compiled(selection.pattern)
                topics = {
                    name: view for name, view in everything.items() if not view.is_internal and pattern.fullmatch(name)
                }
            case Assign():
                topics = self._connected().topics({each.topic for each in selection.partitions})
            case _:
                assert_never(selection)
        found = {TopicPartition(name, each.partition) for name, view in topics.items() for each in view.partitions}
        self.topic_ids = {name: str(view.topic_id) for name, view in topics.items() if any(view.topic_id)}
        if isinstance(selection, Assign):
            found &= set(selection.partitions)
        return tuple(sorted(found))

    def check_selected(self) -> tuple[TopicPartition, ...]:
        """The partitions, all of which must exist: a topic or partition that was named and does not is an OperatorError."""
        found = self.partitions()
        selection = self._options.selection
        if isinstance(selection, Subscribe):
            missing = [f"topic {name}" for name in sorted(set(selection.topics) - {each.topic for each in found})]
        elif isinstance(selection, Assign):
            missing = [f"partition {each.topic}-{each.partition}" for each in selection.partitions if each not in found]
        else:
            missing = []
        if missing:
            servers = self._options.properties["bootstrap.servers"]
            raise OperatorError(f"there is no {', '.join(missing)} in the cluster at {servers}")
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        return self._edge(partitions, EARLIEST)

    def beginnings(self, partitions: Iterable[TopicPartition]) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """The first offset of each partition that exists, and the ids that their topics have now, where the cluster has ids."""
        from headrace.client import offsets

        client = self._connected()
        wanted = dict.fromkeys(partitions, EARLIEST)
        found = {}
        for where, listed in (client.run(offsets.list_offsets, wanted) if wanted else {}).items():
            if isinstance(listed, offsets.ListedOffset):
                found[where] = listed.offset
            elif listed.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise listed
        known = client.session.cluster.topics
        ids = {each.topic: known[each.topic].topic_id for each in found if each.topic in known}
        return found, {name: str(topic_id) for name, topic_id in ids.items() if any(topic_id)}

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last readable record of each; asked again for a while as long as one lies before a `known` offset."""
        wanted = list(partitions)
        found = self._edge(wanted, LATEST)
        for _ in range(self._options.offset_retries):
            if all(found[each] >= (known or {}).get(each, 0) for each in wanted):
                break
            time.sleep(self._options.offset_retry_ms / 1000)
            found = self._edge(wanted, LATEST)
        return found

    def first_since(self, partitions: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first offset of this time or later; partitions without one are left out."""
        wanted = dict.fromkeys(partitions, time_ms)
        listed = self._connected().list_offsets(wanted, is_read_committed=self._options.is_read_committed)
        return {each: listed[each].offset for each in wanted if listed[each].offset >= 0}

    def densities(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Bytes an offset in each partition, as a look at the next records from its position on tells; without those that show none."""
        from headrace.client.fetcher import OffsetOutOfRange

        client = self._connected()
        looks = {
            each: client.start_fetch(each.topic, each.partition, offset, max_bytes=_LOOK_BYTES, max_wait_ms=0)
            for each, offset in positions.items()
        }
        found = {}
        for each, look in looks.items():
            try:
                part = client.finish_fetch(look)
            except OffsetOutOfRange:
                first = self.earliest([each])[each]
                part = client.fetch_raw(each.topic, each.partition, first, max_bytes=_LOOK_BYTES, max_wait_ms=0)
            if len(part.records):
                begin = int.from_bytes(part.records[:8], "big")
                found[each] = len(part.records) / (part.next_offset - begin)
        return found

    def _edge(self, partitions: Iterable[TopicPartition], edge: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, edge)
        if not wanted:
            return {}
        listed = self._connected().list_offsets(wanted, is_read_committed=self._options.is_read_committed)
        return {each: listed[each].offset for each in wanted}

    def resolve(
        self, position: Position, partitions: tuple[TopicPartition, ...], *, side: str
    ) -> dict[TopicPartition, int]:
        """The offset that `position` means in each partition; `side` (starting or ending) is for messages and for records too old.

        Raises OperatorError where the position names other partitions than are read, or has a time without a record for a start.
        """
        match position:
            case AtEdge():
                return self._edge(partitions, position.edge)
            case AtOffsets():
                _check_same(position.offsets, partitions, side)
                edges = {each: offset for each, offset in position.offsets.items() if offset < 0}
                found = dict(position.offsets)
                for edge in (EARLIEST, LATEST):
                    found |= self._edge([each for each, wanted in edges.items() if wanted == edge], edge)
                return found
            case AtTime():
                return self._at_time(position, partitions, side)

    def _at_time(
        self, position: AtTime, partitions: tuple[TopicPartition, ...], side: str
    ) -> dict[TopicPartition, int]:
        if position.timestamps_ms is not None:
            _check_same(position.timestamps_ms, partitions, side)
            moments = dict(position.timestamps_ms)
        else:
            moments = dict.fromkeys(partitions, position.timestamp_ms or 0)
        if not moments:
            return {}
        listed = self._connected().list_offsets(moments, is_read_committed=self._options.is_read_committed)
        found = {each: listed[each].offset for each in moments}
        unmatched = sorted(each for each, offset in found.items() if offset < 0)
        if unmatched and side == "starting" and not position.is_latest_if_none:
            first = unmatched[0]
            raise OperatorError(
                f"{first.topic}-{first.partition} has no record of {moments[first]} ms or later; "
                "say startingOffsetsByTimestampStrategy=latest to begin at its end"
            )
        return found | self._edge(unmatched, LATEST)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise OperatorError(f"subscribePattern={pattern} is no regular expression: {error}") from error


def _check_same(named: Mapping[TopicPartition, int], partitions: tuple[TopicPartition, ...], side: str) -> None:
    odd = sorted(named.keys() ^ set(partitions))
    if odd:
        where = "is not named" if odd[0] in partitions else "is named and not read"
        raise OperatorError(
            f"{side} positions must name all partitions that are read and no other (-1 is latest, -2 earliest): "
            f"{odd[0].topic}-{odd[0].partition} {where}"
        )
