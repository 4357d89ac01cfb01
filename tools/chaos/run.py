"""One run: a plan is done to a cluster under load, then everything is read once more, and judged."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.sim.anomalies.history import History, Outcome, read_history
from headrace.sim.anomalies.judge import Anomaly, judge
from tests.support import namespaces
from tools.chaos import disks
from tools.chaos.clients import QUIET, TOPIC, note_poll
from tools.chaos.nemesis import Nemesis
from tools.chaos.plan import MIXES, NEEDS_DISKS, NEEDS_NETWORK, Plan
from tools.chaos.recorder import Recorder
from tools.chaos.stage import PARTITIONS, Stage

IN_SYNC_WITHIN_S: Final = 15.0
"""How soon after everything is mended every replica should be in sync again; told, never a verdict."""
_LAST_READING_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a run. `wrong` is what is no anomaly of the history: replicas that differ, clients that failed, no full ISR."""

    plan: Plan
    history: History
    anomalies: list[Anomaly]
    wrong: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    in_sync_after_s: float | None = None

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not self.anomalies and not self.wrong

    @property
    def acknowledged(self) -> int:
        """How many records were."""
        return sum(each.outcome is Outcome.OK for each in self.history.sends)


def cannot(mix: str) -> str:
    """Why this machine cannot run a mix; empty when it can."""
    kinds = set(MIXES[mix])
    if kinds & NEEDS_NETWORK and (lacking := namespaces.missing()):
        return f"network namespaces need {lacking}"
    if kinds & NEEDS_DISKS and (lacking := disks.missing()):
        return f"disks of their own need {lacking}"
    return ""


def run(plan: Plan, directory: Path, *, nodes: int = 3) -> Result:
    """Break a cluster as planned, in `directory`. Without namespaces its nodes run on loopback, which cannot be cut."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "plan.txt").write_text("".join(f"{each}\n" for each in plan.strikes))
    stage = Stage(
        directory,
        nodes=nodes,
        kinds=frozenset(MIXES[plan.mix]),
        seed=plan.seed,
        has_namespaces=not namespaces.missing(),
    )
    with stage:
        nemesis = Nemesis(stage)
        stage.start_clients()
        nemesis.run(plan)
        in_sync_after_s = stage.until(stage.is_in_sync)
        wrong = [] if in_sync_after_s is not None else ["not every replica came in sync again"]
        wrong += stage.stop_clients()
        read_everything(stage.cluster.bootstrap_servers, directory / "last.jsonl")
        wrong += [f"replicas differ: {each}" for each in stage.different_copies()]
    history = read_history(stage.histories())
    return Result(
        plan=plan,
        history=history,
        anomalies=judge(history),
        wrong=wrong,
        faults=nemesis.told,
        in_sync_after_s=in_sync_after_s,
    )


def read_everything(bootstrap: str, path: Path) -> None:
    """The last reading: each partition from its beginning to its end, into a history."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "chaos-last", "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "error", **QUIET})
    with Recorder(path, "last") as recorder:
        try:
            for number in range(PARTITIONS):
                if not _read_partition(consumer, number, recorder):
                    recorder.see("unfinished", partition=number)
        finally:
            consumer.close()


def _read_partition(consumer: Consumer, number: int, recorder: Recorder) -> bool:
    """Whether its end was reached."""
    end_s = time.monotonic() + _LAST_READING_S
    bounds = None
    while bounds is None and time.monotonic() < end_s:
        with suppress(KafkaException):
            bounds = consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=10)
    if bounds is None:
        return False
    reached, end = int(bounds[0]), int(bounds[1])
    consumer.assign([TopicPartition(TOPIC, number, reached)])
    recorder.see("assigned", topic=TOPIC, positions=[[number, reached]])
    while reached < end and time.monotonic() < end_s:
        reached = note_poll(recorder, consumer.consume(5_000, 0.5)).get(number, reached)
    return reached >= end
