"""What does the controller machine itself cost, without sockets and disk? One shape in one fresh process; the result is one line of JSON.

``python -m benchmarks.scale.machine --partitions 1000000 [--per-topic 100] [--brokers 30]``. Driven as `node.metadata_plane` drives it: what is
appended is committed, loaded from its bytes by `MetadataLoader`, and told to the controller, and to a standby beside it.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psutil

from benchmarks.scale.load import Shape, heartbeat, one_more, registration
from headrace.config.node_config import NodeConfig
from headrace.controller.events import (
    Answer,
    AppendRecords,
    BrokerUnreachable,
    ControllerEffect,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestCause,
    TimeAdvanced,
)
from headrace.controller.machine import ControllerMachine
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.loader import MetadataLoader
from headrace.metadata.snapshot import snapshot_content

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
FOREVER_MS = 10**12
SMALL_CHANGES = 300
GC_THRESHOLDS = (20_000, 5, 1_000)
"""As a node sets them."""


class Append(NamedTuple):
    """An append as the loader reads it back."""

    base_offset: int
    last_offset: int
    records: tuple[bytes, ...]
    epoch: int = 1
    timestamp: int = 0


class Bench:
    """An active controller, its committed log, and the time that each part took in seconds."""

    def __init__(self) -> None:
        self.machine = self._new()
        self.loader = MetadataLoader()
        self.next_offset = 0
        self.token = 0
        self.decide_s = self.load_s = self.longest_step_s = 0.0
        self.bytes = 0
        self.records = 0
        self.do(LeadershipGained(epoch=1, next_offset=0, image=self.loader.image, now_ms=0))

    def _new(self) -> ControllerMachine:
        return ControllerMachine(
            config=NodeConfig(node_id=1, log_dirs=("/d",), broker_session_timeout_ms=FOREVER_MS),
            cluster_id=CLUSTER_ID,
            rng=random.Random(1),
            bootstrap=read_bootstrap_records(bootstrap_records()),
        )

    def do(self, event: Any) -> list[ControllerEffect]:
        """One step, and everything it appends is committed; what else it orders."""
        before = time.perf_counter()
        effects = self.machine.step(event)
        spent = time.perf_counter() - before
        self.decide_s += spent
        self.longest_step_s = max(self.longest_step_s, spent)
        others: list[ControllerEffect] = [each for each in effects if not isinstance(each, AppendRecords)]
        for each in effects:
            if isinstance(each, AppendRecords):
                others += self._commit(each)
        return others

    def _commit(self, append: AppendRecords) -> list[ControllerEffect]:
        assert append.base_offset == self.next_offset
        last = append.base_offset + len(append.records) - 1
        self.next_offset = last + 1
        self.bytes += sum(map(len, append.records))
        self.records += len(append.records)
        before = time.perf_counter()
        delta = self.loader.load_batches([Append(append.base_offset, last, append.records)])
        event = RecordsCommitted(image=self.loader.image, upto=last + 1, delta=delta, now_ms=0)
        effects = self.machine.step(event)
        self.load_s += time.perf_counter() - before
        return effects

    def ask(self, request: Any) -> Any:
        """The answer, once it is committed."""
        self.token += 1
        cause = RequestCause(api_version=request.SCHEMA.versions.last, listener="CONTROLLER")
        event = RequestArrived(token=self.token, request=request, cause=cause, now_ms=0, deadline_ms=FOREVER_MS)
        answers = [each for each in self.do(event) if isinstance(each, Answer)]
        while not answers:
            answers = [each for each in self.do(TimeAdvanced(now_ms=0)) if isinstance(each, Answer)]
        return answers[0].response

    def clear(self) -> None:
        """Forget the times and counts so far."""
        self.decide_s = self.load_s = self.longest_step_s = 0.0
        self.bytes = self.records = 0


def resident() -> int:
    """Resident bytes of this process after everything that is garbage is gone."""
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def measure(shape: Shape) -> dict[str, float]:
    """All figures of one shape."""
    bench = Bench()
    for broker_id in range(1, shape.brokers + 1):
        epoch = bench.ask(registration(broker_id, CLUSTER_ID)).broker_epoch
        assert bench.ask(heartbeat(broker_id, epoch)).is_fenced is False
    found: dict[str, float] = {}
    _create(bench, shape, found)
    _small_changes(bench, found)
    _fail_over(bench, found)
    _lose_broker(bench, found)
    _snapshot(bench, shape, found)
    return found


def _create(bench: Bench, shape: Shape, found: dict[str, float]) -> None:
    before_bytes = resident()
    gc.freeze()
    bench.clear()
    before = time.perf_counter()
    for request in shape.creations():
        answer = bench.ask(request)
        assert all(each.error_code == 0 for each in answer.topics)
    spent = time.perf_counter() - before
    found["create_partitions_per_s"] = shape.partitions / spent
    found["create_decide_us"] = bench.decide_s / shape.partitions * 1e6
    found["create_replay_us"] = bench.load_s / shape.partitions * 1e6
    found["log_bytes_per_new_partition"] = bench.bytes / shape.partitions
    found["memory_bytes_per_partition"] = (resident() - before_bytes) / shape.partitions


def _small_changes(bench: Bench, found: dict[str, float]) -> None:
    times = []
    for number in range(SMALL_CHANGES):
        before = time.perf_counter()
        bench.ask(one_more(number))
        times.append(time.perf_counter() - before)
    found["one_change_us_p50"] = sorted(times)[len(times) // 2] * 1e6


def _fail_over(bench: Bench, found: dict[str, float]) -> None:
    """The controller stops leading and leads again, as a standby that followed the log does: to its first decision."""
    bench.machine.step(LeadershipEnded(image=bench.loader.image, now_ms=0))
    before = time.perf_counter()
    bench.do(LeadershipGained(epoch=2, next_offset=bench.next_offset, image=bench.loader.image, now_ms=0))
    assert bench.ask(one_more(SMALL_CHANGES)).topics[0].error_code == 0
    found["failover_to_first_decision_ms"] = (time.perf_counter() - before) * 1e3


def _lose_broker(bench: Bench, found: dict[str, float]) -> None:
    bench.clear()
    epoch = bench.machine.image.cluster.brokers[1].broker_epoch
    before = time.perf_counter()
    bench.do(BrokerUnreachable(broker_id=1, broker_epoch=epoch, now_ms=0))
    while not bench.loader.image.cluster.brokers[1].fenced:
        bench.do(TimeAdvanced(now_ms=0))
    spent = time.perf_counter() - before
    found["loss_records"] = bench.records
    found["loss_decided_and_replayed_s"] = spent
    found["loss_decide_us_per_record"] = bench.decide_s / bench.records * 1e6
    found["loss_replay_us_per_record"] = bench.load_s / bench.records * 1e6
    found["loss_longest_step_ms"] = bench.longest_step_s * 1e3
    found["log_bytes_per_change"] = bench.bytes / bench.records


def _snapshot(bench: Bench, shape: Shape, found: dict[str, float]) -> None:
    image = bench.loader.image
    before = time.perf_counter()
    content = list(snapshot_content(image))
    found["snapshot_write_s"] = time.perf_counter() - before
    found["snapshot_bytes_per_partition"] = sum(map(len, content)) / shape.partitions
    del bench
    loader = MetadataLoader()
    before = time.perf_counter()
    loader.load_snapshot(iter(content), image.provenance)
    found["snapshot_load_s"] = time.perf_counter() - before
    assert loader.image == image


def main(arguments: Sequence[str]) -> int:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--per-topic", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=30)
    options = parser.parse_args(arguments)
    gc.set_threshold(*GC_THRESHOLDS)
    shape = Shape(partitions=options.partitions, per_topic=options.per_topic, brokers=options.brokers)
    sys.stdout.write(json.dumps(measure(shape)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
