"""One run, made from its seed, and what it leaves behind when it fails."""

from __future__ import annotations

import gc
import json
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headrace.core.errors import OperatorError
from headrace.sim.checkers import all_checkers
from headrace.sim.cluster import SimCluster
from headrace.sim.faults import Fault, fault_of_json
from headrace.sim.observation import InvariantBroken
from headrace.sim.outcome import Failure, RunKey, RunResult
from headrace.sim.plan import LEVELS, Plan
from headrace.sim.report import last_steps, step_at_hand

STEPS_SHOWN: Final = 200
_NEW_OBJECTS: Final = 50_000
"""The garbage collector looks after so many: what a run makes lives on, or is gone without it."""


def run(key: RunKey, *, plan: Plan | None = None, is_full_trace: bool = False) -> RunResult:
    """Make a run; `plan` in place of the one that the key gives, to try it with other faults."""
    plan = plan or key.plan()
    cluster = SimCluster(plan, checkers=all_checkers())
    cluster.trace.is_full = is_full_trace
    return judged_run(key, cluster, cluster.run)


def judged_run(key: RunKey, cluster: SimCluster, go: Callable[[], None]) -> RunResult:
    """Run a cluster and say how it went. Whatever a node's code raises is a failure too: no input may do that."""
    failure: Failure | None = None
    usual = gc.get_threshold()
    gc.set_threshold(max(usual[0], _NEW_OBJECTS), *usual[1:])
    try:
        go()
    except InvariantBroken as broken:
        failure = _failure(key, cluster, (broken.invariant, broken.message), broken.nodes)
    except Exception as error:  # noqa: BLE001 - a bug of the code under test, whatever it is
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}:{place.lineno} in {place.name})"
        failure = _failure(key, cluster, ("exception", text), (cluster.world.step.node.node_id,))
    finally:
        gc.set_threshold(*usual)
    return RunResult(
        key=key,
        steps=cluster.world.steps,
        simulated_ms=cluster.now_us // 1_000,
        digest=cluster.trace.digest(),
        markers=dict(cluster.markers.counts),
        failure=failure,
    )


def _failure(key: RunKey, cluster: SimCluster, what: tuple[str, str], nodes: Sequence[int]) -> Failure:
    involved = tuple(nodes) or tuple(cluster.nodes)
    return Failure(
        key=key,
        invariant=what[0],
        message=what[1],
        step=cluster.world.steps,
        at_us=cluster.now_us,
        nodes=involved,
        faults=cluster.plan.faults,
        last_steps=(*last_steps(cluster, involved, STEPS_SHOWN), *step_at_hand(cluster)),
    )


def parse_failure(text: str, *, path: str) -> tuple[RunKey, tuple[Fault, ...], str]:
    """The run of a failure file, its faults, and the id that it broke. Raises OperatorError for another file."""
    try:
        data = json.loads(text)
        key = RunKey(level=str(data["level"]), seed=int(data["seed"]), options=dict(data["options"]))
        faults = tuple(fault_of_json(each) for each in data["faults"])
        invariant = str(data["invariant"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OperatorError(
            f"{path} is neither a failure that `headrace sim --save` wrote nor the journal of a node (headrace.journal.file)"
        ) from None
    if key.level not in LEVELS:
        raise OperatorError(f"{path}: level {key.level!r} is not known: one of {', '.join(LEVELS)}")
    return key, faults, invariant


def replayed(key: RunKey, faults: Sequence[Fault]) -> RunResult:
    """The run of a key with just these faults."""
    return run(key, plan=replace(key.plan(), faults=tuple(faults)))
