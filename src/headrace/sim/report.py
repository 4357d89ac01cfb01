"""How does a failing run read?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.sim.observation import Received, StepKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.sim.cluster import SimCluster
    from headrace.sim.outcome import Failure

_WIDTH = 300
_LONG_BYTES = re.compile(r"b'(?:[^'\\]|\\.){40,}'|b\"(?:[^\"\\]|\\.){40,}\"")
_DEFAULTS = re.compile(r"(?:, )?\w+=(?:None|\(\)|'')(?=[,)])")


def short(value: object) -> str:
    """A value in one line: long bytes as their length, empty fields left out."""
    text = _LONG_BYTES.sub("<bytes>", repr(value))
    text = _DEFAULTS.sub("", text)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


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
