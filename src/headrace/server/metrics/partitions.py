"""Metrics of single partitions, as text, made in short turns: a node may host very many.

Kafka's beans `kafka.cluster:type=Partition`, `kafka.log:type=Log` (of the metadata log too) and `kafka.server:type=FetcherLagMetrics` (B-M06, B-M07). The text is written here and not by
prometheus-client, which would take ten times as long. It is the same in both of Prometheus' formats: names of topics hold nothing that must be escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.node.partition_counts import AT_MIN_ISR, UNDER_MIN_ISR, UNDER_REPLICATED, marks_of
from headrace.server.metrics.families import exported_name

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.partitions import HostedPartition
    from headrace.log.ports import PartitionLogPort
    from headrace.node.machine import NodeMachine

WORK_A_TURN: Final = 250
"""Partitions; one takes some 5 us. A log counts once more for each so many segments."""
SEGMENTS_A_PARTITION: Final = 50
_PARTITION: Final = "kafka.cluster:Partition"
_LOG: Final = "kafka.log:Log"
_GAUGES: Final[tuple[tuple[str, str, str], ...]] = (
    (_PARTITION, "UnderReplicated", "1: led here, with a replica that is not in sync."),
    (_PARTITION, "InSyncReplicasCount", "Replicas in sync, where it is led; else 0."),
    (_PARTITION, "ReplicasCount", "Replicas, where it is led; else 0."),
    (_PARTITION, "UnderMinIsr", "1: led here, and takes no acks=all any more."),
    (_PARTITION, "AtMinIsr", "1: led here, and may lose no replica more."),
    (_PARTITION, "LastStableOffsetLag", "Committed records that readers of committed transactions do not see yet."),
    (_LOG, "Size", "Bytes of the log's segments."),
    (_LOG, "LogStartOffset", "The first offset that may be read."),
    (_LOG, "LogEndOffset", "The offset of the next record."),
    (_LOG, "NumLogSegments", "Segments of the log."),
    (_LOG, "RetentionSizeInPercent", "How much of retention.bytes the log takes; 0 where that is not bounded."),
)
_NAMES: Final = tuple(exported_name(bean, attribute) for bean, attribute, _ in _GAUGES)
_OF_LOG: Final = 6
"""So many gauges are of the partition, the others of its log."""
_LAG: Final = (
    "kafka.server:FetcherLagMetrics",
    "ConsumerLag",
    "Records that a followed partition is behind what its leader had committed.",
)
_LEFT_OUT: Final = (
    "headrace:PartitionMetrics",
    "LeftOut",
    "Hosted partitions beyond headrace.metrics.partitions.max, of which nothing is shown.",
)


class PartitionPage:
    """The lines of the metadata log and of hosted partitions, at most `most` of these. Made by going through `turns` once; `text` is the newest that is whole."""

    def __init__(self, machine: NodeMachine, metadata_log: PartitionLogPort, *, most: int) -> None:
        self._machine = machine
        self._metadata_log = metadata_log
        self._most = most
        self.text = b""

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to show."""
        return self._most > 0

    def turns(self) -> Iterator[None]:
        """Make the text anew; others may have their turn at each step. Partitions that come or go meanwhile may be missing, or still be there."""
        broker = self._machine.broker
        hosted = [] if broker is None else list(islice(broker.partitions, self._most))
        left_out = 0 if broker is None else len(broker.partitions) - len(hosted)
        columns: list[list[str]] = [[_header(*each)] for each in _GAUGES]
        lags = [_header(*_LAG)]
        _write(columns[_OF_LOG:], 'topic="__cluster_metadata",partition="0"', _log_values(self._metadata_log), _OF_LOG)
        work = 0
        for each in hosted:
            assert broker is not None, "it hosts them"
            work += self._add(each, columns, broker, lags)
            if work >= WORK_A_TURN:
                work = 0
                yield
        parts: list[bytes] = []
        for column in (*columns, lags):
            parts.append("".join(column).encode())
            yield
        bean, attribute, about = _LEFT_OUT
        parts.append(f"{_header(bean, attribute, about)}{exported_name(bean, attribute)} {left_out}\n".encode())
        self.text = b"".join(parts)

    def _add(self, hosted: HostedPartition, columns: list[list[str]], broker: Broker, lags: list[str]) -> int:
        """A line in each column; how much work it was. Without a log (its directory failed) there is none of its log, as in Kafka."""
        log, labels = hosted.log, f'topic="{hosted.topic}",partition="{hosted.partition}"'
        values: tuple[int, ...] = (
            *self._led(hosted),
            0 if log is None else log.high_watermark - log.last_stable_offset,
        )
        _write(columns, labels, values if log is None else values + _log_values(log), 0)
        followed = broker.replica_fetchers.lag_of(hosted)
        if followed is not None:
            source, lag = followed
            client = f"ReplicaFetcherThread-{source.number}-{source.leader_id}"
            lags.append(f'{exported_name(*_LAG[:2])}{{clientId="{client}",{labels}}} {lag}\n')
        return 1 if log is None else 1 + log.segment_count // SEGMENTS_A_PARTITION

    def _led(self, hosted: HostedPartition) -> tuple[int, int, int, int, int]:
        """UnderReplicated, InSyncReplicasCount, ReplicasCount, UnderMinIsr, AtMinIsr; all 0 where another broker leads."""
        leader = hosted.leader
        topic = None if leader is None else self._machine.image.topics.by_id.get(hosted.topic_id)
        found = None if topic is None else topic.partitions.get(hosted.partition)
        if leader is None or found is None:
            return 0, 0, 0, 0, 0
        marks = marks_of(found, leader.min_insync_replicas)
        wanted = len(found.replicas) - len(found.adding_replicas)
        return (
            int(bool(marks & UNDER_REPLICATED)),
            len(found.isr),
            wanted,
            int(bool(marks & UNDER_MIN_ISR)),
            int(bool(marks & AT_MIN_ISR)),
        )


def _log_values(log: PartitionLogPort) -> tuple[int, ...]:
    size, bound = log.size_bytes, log.config.retention_bytes
    percent = size * 100 // bound if bound > 0 else 0
    return size, log.log_start_offset, log.log_end_offset, log.segment_count, percent


def _write(columns: Sequence[list[str]], labels: str, values: Iterable[int], first: int) -> None:
    """A line in each column, of which the first is that of gauge number `first`; fewer values than columns are fewer lines."""
    for name, column, value in zip(_NAMES[first:], columns, values, strict=False):
        column.append(f"{name}{{{labels}}} {value}\n")


def _header(bean: str, attribute: str, about: str) -> str:
    name = exported_name(bean, attribute)
    return f"# HELP {name} {about}\n# TYPE {name} gauge\n"
