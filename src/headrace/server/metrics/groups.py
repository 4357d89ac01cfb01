"""Metrics of the groups that this broker coordinates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.core.histogram import RecentHistogram
from headrace.server.metrics.families import GAUGE, Family, Sample, exported_name, gauge, labelled

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.coordinators.groups import GroupService
    from headrace.server.metrics.window import Window

GROUPS: Final = "kafka.coordinator.group:GroupMetadataManager"
COORDINATORS: Final = "kafka.server:group-coordinator-metrics"
STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
LOADS: Final = "group-loads"
_NO_LOADS = RecentHistogram()


def group_families(broker: Broker, window: Window, now_s: float) -> Iterator[Family]:
    """`kafka.coordinator.group:type=GroupMetadataManager` and `kafka.server:type=group-coordinator-metrics`. Cost: the groups."""
    service = broker.groups if broker.has_groups else None
    states: Counter[str] = Counter() if service is None else service.states()
    about = "Groups that this broker coordinates."
    yield gauge(GROUPS, "NumGroups", states.total(), about)
    for state in STATES:
        yield gauge(GROUPS, f"NumGroups{state}", states[state], f"Groups that are {state}.")
    positions = 0 if service is None else service.position_count()
    yield gauge(GROUPS, "NumOffsets", positions, "Positions that groups have stored here.")
    yield labelled(COORDINATORS, "group-count", "protocol", [("classic", float(states.total()))], about=about)
    partitions = dict.fromkeys(("loading", "active", "failed"), 0) if service is None else service.partition_states
    about = "Partitions of the offsets topic that this broker leads, by what their coordinators do."
    shown = [(state, float(count)) for state, count in partitions.items()]
    yield labelled(COORDINATORS, "num-partitions", "state", shown, about=about)
    for name, count in group_counters(service).items():
        text = f"{_TOLD[name]}, since the start."
        yield gauge(COORDINATORS, f"{name}-count", count, text)
        yield gauge(COORDINATORS, f"{name}-rate", window.rate(_key(name), count, now_s), f"{_TOLD[name]}, a second.")
    loads = _NO_LOADS if service is None else service.loads
    yield _latest("partition-load-time-avg", window.average(LOADS, loads), "Milliseconds until a coordinator served.")
    about = "The longest such time of late."
    yield _latest("partition-load-time-max", loads.recent_highest if loads.count else float("nan"), about)


def _latest(name: str, value: float, about: str) -> Family:
    return Family(exported_name(COORDINATORS, name), GAUGE, about, (Sample("", {}, value),))


_TOLD: Final = {
    "group-completed-rebalance": "Rebalances that were completed",
    "offset-commit": "Positions that were committed",
    "offset-expiration": "Positions that were deleted because of their age",
    "offset-deletion": "Positions that somebody asked to delete",
}


def group_counters(service: GroupService | None) -> dict[str, int]:
    """What counts up, by Kafka's names without their ends."""
    if service is None:
        return dict.fromkeys(_TOLD, 0)
    counts = service.counts()
    numbers = (counts.rebalances, counts.commits, counts.expirations, counts.deletions)
    return dict(zip(_TOLD, numbers, strict=True))


def window_counters(service: GroupService | None) -> dict[str, float]:
    """What the window remembers."""
    return {_key(name): float(count) for name, count in group_counters(service).items()}


def _key(name: str) -> str:
    return f"group:{name}"
