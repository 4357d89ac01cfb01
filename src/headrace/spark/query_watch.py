"""Streaming queries watched from beside: how far each is behind its topics, and their progress as consumer groups of their names.

    watch = watch_queries(spark, groups={"bootstrap.servers": servers})
    query = stream.writeStream.queryName("delays").format("noop").start()
    watch.lag("delays")            # Lag(query="delays", offsets={...}, seconds=0.0)

Spark tells a source written in Python neither the name of its query nor how to report a lag; it tells a listener of the session both, after each
micro-batch. Queries on Spark's own `kafka` source are understood, too.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming import StreamingQueryListener

from headrace.core.errors import OperatorError
from headrace.spark.group_view import GroupView
from headrace.spark.stored_offsets import parse_stored

if TYPE_CHECKING:
    from headrace.core.ids import TopicPartition

GROUP_PREFIX: Final = "spark-"
_MOST_MOMENTS: Final = 1_000
"""So many ends of a partition are remembered with the time at which they were seen; beyond that every other one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a query is behind the ends of its topics: records (offsets) by partition after its last micro-batch, and seconds since the oldest of them was seen."""

    query: str
    batch_id: int
    offsets: Mapping[TopicPartition, int]
    seconds: float

    @property
    def total(self) -> int:
        """Offsets behind in all partitions together."""
        return sum(self.offsets.values())

    @property
    def least(self) -> int:
        """Offsets behind in the partition that is least behind."""
        return min(self.offsets.values(), default=0)

    @property
    def most(self) -> int:
        """Offsets behind in the partition that is most behind."""
        return max(self.offsets.values(), default=0)

    @property
    def average(self) -> float:
        """Offsets behind in a partition on average."""
        return self.total / len(self.offsets) if self.offsets else 0.0


@dataclass(slots=True, kw_only=True)
class _Watched:
    """One query: its last report, and for each partition the ends that it had not reached, with the time at which each was first seen."""

    batch_id: int = -1
    behind: dict[TopicPartition, int] = field(default_factory=dict)
    moments: dict[TopicPartition, deque[tuple[float, int]]] = field(default_factory=dict)
    group: GroupView | None = None

    def take(self, ends: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], now: float) -> None:
        self.behind = {each: max(offset - ends.get(each, 0), 0) for each, offset in latest.items()}
        self.moments = {each: self.moments.get(each) or deque() for each in latest}
        for each, seen in self.moments.items():
            if not seen or latest[each] > seen[-1][1]:
                seen.append((now, latest[each]))
            while seen and seen[0][1] <= ends.get(each, 0):
                seen.popleft()
            if len(seen) > _MOST_MOMENTS:
                self.moments[each] = deque(list(seen)[::2])

    def seconds(self, now: float) -> float:
        return max((now - seen[0][0] for seen in self.moments.values() if seen), default=0.0)


class QueryWatch(StreamingQueryListener):  # type: ignore[misc]  # pyspark is not followed by the type check
    """Hears the reports of a session's queries; asked from any thread. With `groups`, settings of Kafka's clients, progress is committed for the group `spark-NAME`."""

    def __init__(self, *, groups: Mapping[str, str] | None = None) -> None:
        self._groups = None if groups is None else dict(groups)
        self._lock = threading.Lock()
        self._queries: dict[str, _Watched] = {}
        self._names: dict[str, str] = {}

    def lag(self, query: str) -> Lag | None:
        """Of the query with this name or id; None as long as it has not reported."""
        with self._lock:
            watched = self._queries.get(query) or self._queries.get(self._names.get(query, ""))
            if watched is None:
                return None
            seconds = watched.seconds(time.monotonic())
            return Lag(query=query, batch_id=watched.batch_id, offsets=dict(watched.behind), seconds=seconds)

    def queries(self) -> list[str]:
        """The names (ids, where there is none) of queries that have reported."""
        named = {query_id: name for name, query_id in self._names.items()}
        with self._lock:
            return sorted(named.get(each, each) for each in self._queries)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A micro-batch is done, or Spark says that there was none for a while."""
        progress = event.progress
        ends: dict[TopicPartition, int] = {}
        latest: dict[TopicPartition, int] = {}
        for source in progress.sources:
            end, newest = _positions(source.endOffset), _positions(source.latestOffset)
            if end is not None:
                ends |= end
                latest |= newest or end
        if not ends:
            return
        query_id = str(progress.id)
        with self._lock:
            watched = self._queries.setdefault(query_id, _Watched())
            watched.batch_id = progress.batchId
            watched.take(ends, latest, time.monotonic())
            if progress.name:
                self._names[progress.name] = query_id
            if self._groups is not None and watched.group is None:
                watched.group = GroupView(f"{GROUP_PREFIX}{progress.name or query_id}", self._groups)
        if watched.group is not None:
            watched.group.show(ends)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """What was said last holds."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last report stays; the connection of its group does not."""
        with self._lock:
            watched = self._queries.get(str(event.id))
        if watched is not None and watched.group is not None:
            watched.group.close()


def watch_queries(spark: Any, *, groups: Mapping[str, str] | None = None) -> QueryWatch:
    """Listen to all streaming queries of a session, a Connect session too, from now on; `spark.streams.removeListener(watch)` ends it."""
    watch = QueryWatch(groups=groups)
    spark.streams.addListener(watch)
    return watch


def _positions(text: Any) -> dict[TopicPartition, int] | None:
    """Offsets by topic and partition; None for those of another kind of source."""
    try:
        return parse_stored(json.loads(text)).positions if text else None
    except (OperatorError, ValueError):
        return None
