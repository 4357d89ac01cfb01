"""The report of a failing run."""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from headrace.core.ids import Uuid
from headrace.metadata.image import MetadataImage
from headrace.sim.observation import Received, StepKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.sim.cluster import SimCluster
    from headrace.sim.outcome import Failure

_WIDTH = 240
_LONG = 24


def short(value: object) -> str:
    """A value in one line: fields at their defaults left out, long bytes as their length."""
    text = brief(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def brief(value: object) -> str:
    """A value without what goes without saying."""
    if isinstance(value, Uuid):
        return str(value)[:6]
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(value)) if len(value) <= _LONG else f"<{len(value)} bytes>"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, MetadataImage):
        return f"image up to {value.provenance.last_contained_offset}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "[" + ", ".join(brief(each) for each in value) + "]"
    names = _field_names(value)
    if names is None:
        return repr(value)
    said = [f"{name}={brief(each)}" for name, each in names if each not in (None, (), "")]
    return f"{type(value).__name__}({', '.join(said)})"


def _field_names(value: object) -> list[tuple[str, Any]] | None:
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in fields(value) if _is_told(value, each)]
    if isinstance(value, tuple):
        return list(zip(value._fields, value, strict=True))  # type: ignore[attr-defined]
    return None


def _is_told(value: object, field: Field[Any]) -> bool:
    found = getattr(value, field.name)
    return field.name not in _SELDOM and (isinstance(found, bool) or found != field.default)


_SELDOM = frozenset({"topic", "topic_id", "topic_name", "cluster_id", "isolation_level", "max_bytes", "features"})


def last_steps(cluster: SimCluster, nodes: Sequence[int], count: int) -> Iterable[str]:
    """The last steps of some nodes, in their order."""
    rows = [(row, node_id) for node_id in nodes if node_id in cluster.nodes for row in cluster.nodes[node_id].history]
    rows.sort(key=lambda each: each[0][0])
    for (number, at_us, kind, event, effects), node_id in rows[-count:]:
        if isinstance(event, Received):
            what = f"{'request' if event.is_request else 'answer'} from {event.source}: {short(event.message)}"
        else:
            what = "" if event is None else short(event)
        yield f"{number:>7} {at_us / 1e6:>10.6f} s  node {node_id}  {StepKind(kind).name.lower()} {what}".rstrip()
        for effect in effects:
            yield f"{'':>35}-> {short(effect)}"


def step_at_hand(cluster: SimCluster) -> Iterable[str]:
    """What the last step changed, in the order in which it happened."""
    step = cluster.world.step
    for machine in step.machines:
        yield f"{'':>35}{machine.machine} took {short(machine.event)}"
        for effect in machine.effects:
            yield f"{'':>37}=> {short(effect)}"
    for change in step.changes:
        yield f"{'':>35}changed: {short(change)}"


def failure_text(failure: Failure, *, commit: str, shrunk: bool, steps_shown: int = 60) -> str:
    """What a person is shown of a failure."""
    key = failure.key
    lines = [
        f"{failure.invariant} is broken: {failure.message}",
        f"  seed {key.seed}, level {key.level}, commit {commit}, step {failure.step} at {failure.at_us / 1e6:.6f} s, "
        f"nodes {', '.join(map(str, failure.nodes))}",
        f"  again: {key.command()}",
        f"  faults ({len(failure.faults)}{', shrunk' if shrunk else ''}):",
        *(f"    {fault}" for fault in failure.faults),
        "  last steps:",
        *(f"  {line}" for line in failure.last_steps[-steps_shown:]),
    ]
    return "\n".join(lines)
