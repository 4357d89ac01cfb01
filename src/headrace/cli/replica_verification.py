"""The command `headrace replica-verification`: the replicas of partitions compared, batch by batch (kafka-replica-verification)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from headrace.cli.clock import wall_ms
from headrace.cli.reassignment_file import name_of
from headrace.cli.shell import BOOTSTRAP_SERVER_HELP, address_list, compiled, connect
from headrace.client import admin_cluster, replica_fetch
from headrace.client.blocking import BlockingClient
from headrace.client.offsets import list_offsets
from headrace.client.replica_fetch import BatchSum, ReplicaRead
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

_LATEST, _EARLIEST = -1, -2
_AWAY = (ErrorCode.BROKER_NOT_AVAILABLE, "the broker does not run")
_MOST_AT_ONCE = 200
"""Partitions that are asked for in one round: with the usual fetch size an answer of 200 MB at most."""
_BEHIND_S = 30.0
"""With `--once`: how long replicas that can be read may stay behind, as long as one in sync may (`replica.lag.time.max.ms`)."""


@dataclass(slots=True)
class Compared:
    """One partition: its replicas, up to where they are the same, and what was found in the last round."""

    where: TopicPartition
    replicas: tuple[int, ...]
    position: int
    goal: int = -1
    """With `--once`: where the high watermark was at the beginning."""
    highest: int = -1
    """The highest high watermark that a replica told."""
    unread: dict[int, PeerError] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """Committed records that not all replicas were seen to have."""
        return max(0, self.highest - self.position)

    @property
    def is_done(self) -> bool:
        """Everything that was there at the beginning is compared."""
        return self.position >= self.goal

    def take(self, reads: Mapping[int, ReplicaRead | PeerError]) -> list[str]:
        """Compare what the replicas have from the position on, as far as all have it; what differs, one text each."""
        self.unread = {each: read for each, read in reads.items() if isinstance(read, PeerError)}
        found = {each: read for each, read in reads.items() if isinstance(read, ReplicaRead)}
        self.highest = max((read.high_watermark for read in found.values()), default=self.highest)
        if self.unread or not found:
            return []
        begins = max(read.log_start_offset for read in found.values())
        if begins > self.position:  # deleted on one of them by now
            self.position = begins
            return []
        columns = [_committed(read, self.position) for read in found.values()]
        wrong: list[str] = []
        for row in zip(*columns, strict=False):
            wrong += _differences(self.where, dict(zip(found, row, strict=True)))
            self.position = max(batch.last_offset for batch in row) + 1
            if len({batch.last_offset for batch in row}) > 1:
                break
        return wrong


class Progress:
    """When a comparison that should end has got nowhere for long enough. Times are seconds."""

    def __init__(self, now_s: float) -> None:
        self._rounds, self._since = 0, now_s

    def went_on(self, now_s: float) -> None:
        """Something more was compared in this round."""
        self._rounds, self._since = 0, now_s

    def is_over(self, now_s: float, waiting: Sequence[Compared]) -> bool:
        """After a round: each of the partitions that wait was asked for a few times; a replica that can be read may yet hear of the high watermark."""
        self._rounds += 1
        is_asked = self._rounds > 4 + len(waiting) // _MOST_AT_ONCE
        return is_asked and (now_s - self._since >= _BEHIND_S or all(each.unread for each in waiting))


def _committed(read: ReplicaRead, position: int) -> list[BatchSum]:
    """The batches from a position on that this replica knows to be committed."""
    return [batch for batch in read.batches if position <= batch.last_offset < read.high_watermark]


def _differences(where: TopicPartition, row: Mapping[int, BatchSum]) -> Iterable[str]:
    """Every replica against the first, in the words of Kafka's tool."""
    (first, expected), *others = row.items()
    for broker_id, batch in others:
        if batch.last_offset != expected.last_offset:
            yield (
                f"partition {name_of(where)}: replica {first}'s offset {expected.last_offset} doesn't match replica "
                f"{broker_id}'s offset {batch.last_offset}"
            )
        elif batch.crc != expected.crc:
            yield (
                f"partition {name_of(where)} has unmatched checksum at offset {batch.last_offset}; replica {first}'s checksum "
                f"{expected.crc}; replica {broker_id}'s checksum {batch.crc}"
            )


@click.command(
    help="Compare all replicas of topics, batch by batch, until it is stopped or with --once to the end. Compacted topics differ rightly."
)
@click.option("--broker-list", type=address_list, metavar="HOST:PORT,...", help=BOOTSTRAP_SERVER_HELP)
@click.option("--bootstrap-server", type=address_list, metavar="HOST:PORT,...", help="The same as --broker-list.")
@click.option(
    "--command-config", type=click.Path(), metavar="FILE", help="A properties file with settings of the client."
)
@click.option(
    "--fetch-size",
    type=click.IntRange(min=1),
    default=1_048_576,
    show_default=True,
    help="Bytes of each partition at a time.",
)
@click.option(
    "--max-wait-ms", type=click.IntRange(min=0), default=1_000, show_default=True, help="How long a fetch may wait."
)
@click.option("--topics-include", default=".*", show_default=True, metavar="PATTERN", help="Topics to compare.")
@click.option(
    "--time",
    "at_time",
    type=int,
    metavar="MS",
    help="Where to begin: a timestamp, -1 latest, -2 earliest.  [default: -1, with --once -2]",
)
@click.option(
    "--report-interval-ms",
    type=click.IntRange(min=0),
    default=30_000,
    show_default=True,
    help="How often the largest lag is told.",
)
@click.option(
    "--once",
    is_flag=True,
    help="End when what is there now is compared; exit code 1 if replicas differ or cannot be read.",
)
def command(**options: Any) -> int:
    """Look for the partitions, then compare round by round."""
    with connect(options["broker_list"] or options["bootstrap_server"], options["command_config"]) as client:
        partitions = _partitions(client, options)
        say("verification process is started")
        return _verify(client, partitions, options)


def say(text: str) -> None:
    """A line with the time before it, as Kafka's tool prints it."""
    now_ms = wall_ms()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_ms // 1_000))
    print(f"{stamp},{now_ms % 1_000:03d}: {text}", flush=True)


def _partitions(client: BlockingClient, options: Mapping[str, Any]) -> list[Compared]:
    """Every partition of the topics, from where it is compared. Raises OperatorError: there is none."""
    pattern = compiled(options["topics_include"])
    topics = [view for name, view in sorted(client.topics().items()) if pattern.fullmatch(name)]
    if not topics:
        raise OperatorError(f"No topics found: --topics-include {options['topics_include']} matches none")
    replicas = {TopicPartition(view.name, part.partition): part.replicas for view in topics for part in view.partitions}
    is_once = options["once"]
    at = options["at_time"] if options["at_time"] is not None else _EARLIEST if is_once else _LATEST
    starts = client.run(list_offsets, dict.fromkeys(replicas, at))
    ends = client.run(list_offsets, dict.fromkeys(replicas, _LATEST)) if is_once else {}
    found = []
    for where, ids in replicas.items():
        start, end = starts[where], ends.get(where)
        if isinstance(start, PeerError):
            raise OperatorError(f"{name_of(where)}: {start}")
        goal = -1 if end is None or isinstance(end, PeerError) else end.offset
        begin = start.offset if start.offset >= 0 else max(goal, 0)  # nothing so young
        found.append(Compared(where=where, replicas=ids, position=begin, goal=goal))
    return found


def _verify(client: BlockingClient, partitions: list[Compared], options: Mapping[str, Any]) -> int:
    """Round after round; the exit code."""
    reported = time.monotonic()
    progress = Progress(reported)
    is_once, waiting = options["once"], list(partitions)
    is_wrong = False
    while True:
        now, waiting = waiting[:_MOST_AT_ONCE], waiting[_MOST_AT_ONCE:]
        before = sum(each.position for each in now)
        wrong = _round(client, now, options)
        for text in wrong:
            say(text)
        is_wrong |= bool(wrong)
        waiting += [each for each in now if not (is_once and each.is_done)]
        now_s = time.monotonic()
        is_time = (now_s - reported) * 1_000 > options["report_interval_ms"]
        if sum(each.position for each in now) > before:
            progress.went_on(now_s)
        is_stuck = is_once and progress.is_over(now_s, waiting)
        if is_time or (is_once and (not waiting or is_stuck)):
            report(partitions, say)
            reported = now_s
            client.run(admin_cluster.nodes)  # who runs by now
        if is_once and (not waiting or is_stuck):
            return 1 if is_wrong or waiting else 0
        if not is_once and any("doesn't match replica" in text for text in wrong):
            return 1


def _round(client: BlockingClient, partitions: list[Compared], options: Mapping[str, Any]) -> list[str]:
    """One fetch from every replica, and what differs."""
    alive = client.session.cluster.nodes
    wanted: dict[int, dict[TopicPartition, int]] = {}
    for each in partitions:
        for broker_id in each.replicas:
            if broker_id in alive:
                wanted.setdefault(broker_id, {})[each.where] = each.position
    reads = client.run(
        replica_fetch.read_replicas,
        wanted,
        max_bytes=options["fetch_size"],
        max_wait_ms=options["max_wait_ms"],
        timeout_ms=client.session.settings.request_timeout_ms,
    )
    wrong: list[str] = []
    for each in partitions:
        wrong += each.take(
            {
                broker_id: reads[broker_id][each.where] if broker_id in reads else PeerError(*_AWAY)
                for broker_id in each.replicas
            }
        )
    return wrong


def report(partitions: list[Compared], told: Callable[[str], None]) -> None:
    """The largest lag, and which replicas could not be read."""
    worst = max(partitions, key=lambda each: each.lag)
    told(
        f"max lag is {worst.lag} for partition {name_of(worst.where)} at offset {worst.position} among {len(partitions)} partitions"
    )
    for each in partitions:
        for broker_id, error in sorted(each.unread.items()):
            told(f"partition {name_of(each.where)}: replica {broker_id} cannot be read: {error}")
