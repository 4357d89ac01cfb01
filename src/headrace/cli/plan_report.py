"""What a forecast means for an operator: leaders that move, partitions in danger, bytes to copy, and the brokers before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.output import show_table
from headrace.cli.reassignment_file import name_of
from headrace.client.admin_placement import Replica
from headrace.controller.forecast import Forecast, changed_partitions
from headrace.controller.partition_change import is_unclean_leader
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class
from headrace.metadata.image import NO_LEADER, ConfigsImage, MetadataImage, PartitionRegistration
from headrace.replication.isr import effective_min_isr

_SHOWN = 20
_MIN_ISR = "min.insync.replicas"


@dataclass(slots=True)
class BrokerLoad:
    """What one broker has: leaderships, replicas, replicas in sync, and bytes where they are known."""

    leaders: int = 0
    replicas: int = 0
    in_sync: int = 0
    size: int = 0


@value_class
class Report:
    """A forecast in numbers. Partitions stand in order; sizes in bytes."""

    what: str
    moved: tuple[tuple[TopicPartition, int, int], ...]
    """Partitions whose leader changes: from, to."""
    lost: tuple[TopicPartition, ...]
    """Partitions that lose their leader and get none."""
    below_minimum: tuple[tuple[TopicPartition, int, int], ...]
    """Partitions that come below `min.insync.replicas`: in sync, and the minimum."""
    unclean: tuple[TopicPartition, ...]
    """Partitions whose new leader was not in sync: records are lost."""
    unfinished: tuple[tuple[TopicPartition, tuple[int, ...]], ...]
    """Partitions whose reassignment cannot end as things are, and the brokers that it waits for."""
    refused: tuple[tuple[TopicPartition, str], ...]
    copied: int
    """What replicas that are new must copy."""
    exposed: int
    """What has one copy fewer from then on."""
    loads: dict[int, tuple[BrokerLoad, BrokerLoad]] = field(default_factory=dict)
    has_sizes: bool = True


def report(
    what: str, forecast: Forecast, sizes: Mapping[Replica, int], *, min_insync_replicas: int, has_sizes: bool
) -> Report:
    """The numbers of a forecast. `min_insync_replicas` is that of brokers whose settings do not say."""
    before, after = forecast.before, forecast.after
    moved, lost, below, unclean, unfinished = [], [], [], [], []
    copied = exposed = 0
    for where, was, now in changed_partitions(before, after):
        if now is None:
            continue
        if now.leader != was.leader:
            if now.leader == NO_LEADER:
                lost.append(where)
            elif was.leader != NO_LEADER:
                moved.append((where, was.leader, now.leader))
            if is_unclean_leader(now.leader, was, now):
                unclean.append(where)
        minimum = min_isr(before.configs, where.topic, len(now.replicas), min_insync_replicas)
        if len(now.isr) < minimum <= len(was.isr):
            below.append((where, len(now.isr), minimum))
        if now.adding_replicas or now.removing_replicas:
            unfinished.append((where, _late(now)))
        size = size_of(where, was, sizes)
        copied += size * len(set(now.replicas) - set(was.replicas))
        exposed += size * len(set(was.isr) - set(now.isr)) if set(now.replicas) == set(was.replicas) else 0
    known = {where for where, _ in unfinished}
    unfinished += [each for each in _waiting_for_nobody(after) if each[0] not in known]
    return Report(
        what=what,
        moved=tuple(moved),
        lost=tuple(lost),
        below_minimum=tuple(below),
        unclean=tuple(unclean),
        unfinished=tuple(sorted(unfinished)),
        refused=tuple((where, str(error)) for where, error in sorted(forecast.refused.items())),
        copied=copied,
        exposed=exposed,
        loads=loads(before, after, sizes),
        has_sizes=has_sizes,
    )


def _late(partition: PartitionRegistration) -> tuple[int, ...]:
    return tuple(each for each in partition.adding_replicas if each not in partition.isr)


def _waiting_for_nobody(image: MetadataImage) -> Iterator[tuple[TopicPartition, tuple[int, ...]]]:
    """Reassignments that wait for a broker that does not run, whoever began them."""
    brokers = image.cluster.brokers
    for name, topic in image.topics.by_name.items():
        for number, partition in topic.partitions.items():
            away = [each for each in _late(partition) if each not in brokers or not brokers[each].is_active]
            if away:
                yield TopicPartition(name, number), tuple(away)


def size_of(where: TopicPartition, partition: PartitionRegistration, sizes: Mapping[Replica, int]) -> int:
    """The bytes of one copy: the leader's, else the largest that is known."""
    if partition.leader != NO_LEADER and (known := sizes.get(Replica(*where, partition.leader))) is not None:
        return known
    return max((sizes.get(Replica(*where, each), 0) for each in partition.replicas), default=0)


def min_isr(configs: ConfigsImage, topic: str, replicas: int, default: int) -> int:
    """How many in-sync replicas `acks=all` needs."""
    for settings in (configs.of_topic(topic), configs.of_all_brokers()):
        text = settings.get(_MIN_ISR)
        if text is not None and text.strip().isdecimal():
            return effective_min_isr(min_insync_replicas=int(text), replication_factor=replicas)
    return effective_min_isr(min_insync_replicas=default, replication_factor=replicas)


def loads(
    before: MetadataImage, after: MetadataImage, sizes: Mapping[Replica, int]
) -> dict[int, tuple[BrokerLoad, BrokerLoad]]:
    """Each registered broker, before and after."""
    brokers = sorted({*before.cluster.brokers, *after.cluster.brokers})
    found = {each: (BrokerLoad(), BrokerLoad()) for each in brokers}
    for turn, image in enumerate((before, after)):
        for name, topic in image.topics.by_name.items():
            old = before.topics.by_name.get(name)
            for number, partition in topic.partitions.items():
                where = TopicPartition(name, number)
                was = None if old is None else old.partitions.get(number)
                size = size_of(where, was or partition, sizes)
                _add(found, turn, partition, size)
    return found


def _add(
    found: dict[int, tuple[BrokerLoad, BrokerLoad]], turn: int, partition: PartitionRegistration, size: int
) -> None:
    for replica in partition.replicas:
        if replica not in found:
            found[replica] = (BrokerLoad(), BrokerLoad())
        load = found[replica][turn]
        load.replicas += 1
        load.size += size
        load.in_sync += replica in partition.isr
        load.leaders += replica == partition.leader


def print_report(found: Report) -> None:
    """For a person, or for a log: one fact a line, then the brokers that change."""
    print(found.what)
    for line in lines(found):
        print(f"  {line}")
    if not found.has_sizes:
        print("  Some brokers did not tell the sizes of their logs: bytes are too low.")
    columns = ("broker", "leaders", "", "replicas", "", "in sync", "", "bytes", "")
    rows = []
    for broker_id, (was, now) in sorted(found.loads.items()):
        if was != now:
            cells = (
                (was.leaders, now.leaders),
                (was.replicas, now.replicas),
                (was.in_sync, now.in_sync),
                (was.size, now.size),
            )
            rows.append((broker_id, *(text for old, new in cells for text in (f"{old:,}", _delta(new - old)))))
    if rows:
        show_table("", columns, rows, right=range(9))


def _delta(number: int) -> str:
    return f"{number:+,}" if number else ""


def lines(found: Report) -> Iterator[str]:
    """The facts, most urgent first; nothing is said of what does not happen, but that nothing happens."""
    is_empty = True
    for said, names in (
        ("Refused", [f"{name_of(where)}: {why}" for where, why in found.refused]),
        ("Without a leader", [name_of(where) for where in found.lost]),
        ("Lose records: the new leader is not in sync", [name_of(where) for where in found.unclean]),
        (
            "Below min.insync.replicas",
            [f"{name_of(where)} ({count} of {minimum})" for where, count, minimum in found.below_minimum],
        ),
        ("Do not end as things are", [_unfinished(where, waits) for where, waits in found.unfinished]),
        ("Leaders move", [f"{name_of(where)} ({old} -> {new})" for where, old, new in found.moved]),
    ):
        if names:
            is_empty = False
            more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
            yield f"{said}: {len(names):,}: {', '.join(names[:_SHOWN])}{more}"
    if found.copied:
        yield f"Bytes to copy: {found.copied:,}"
    if found.exposed:
        yield f"Bytes with one copy fewer: {found.exposed:,}"
    if is_empty and not found.copied and all(was == now for was, now in found.loads.values()):
        yield "Nothing changes."


def _unfinished(where: TopicPartition, waits: tuple[int, ...]) -> str:
    away = f" (waits for broker {', '.join(map(str, waits))})" if waits else ""
    return name_of(where) + away


def plain(found: Report) -> dict[str, Any]:
    """The report for programs."""
    return {
        "what": found.what,
        "refused": [{"partition": name_of(where), "error": why} for where, why in found.refused],
        "withoutLeader": [name_of(where) for where in found.lost],
        "loseRecords": [name_of(where) for where in found.unclean],
        "belowMinIsr": [
            {"partition": name_of(where), "inSync": count, "minimum": minimum}
            for where, count, minimum in found.below_minimum
        ],
        "unfinished": [name_of(where) for where, _ in found.unfinished],
        "unfinishedWaitFor": {name_of(where): list(waits) for where, waits in found.unfinished},
        "leadersMoved": [{"partition": name_of(where), "from": old, "to": new} for where, old, new in found.moved],
        "bytesToCopy": found.copied,
        "bytesWithOneCopyFewer": found.exposed,
        "areSizesComplete": found.has_sizes,
        "brokers": {
            str(broker_id): {"before": _load(was), "after": _load(now)}
            for broker_id, (was, now) in sorted(found.loads.items())
        },
    }


def _load(load: BrokerLoad) -> dict[str, int]:
    return {"leaders": load.leaders, "replicas": load.replicas, "inSync": load.in_sync, "bytes": load.size}
