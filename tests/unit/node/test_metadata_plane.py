"""Quorum, metadata and controller of one node, routed among themselves; only the driver's work is done by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.config.node_config import NodeConfig
from headrace.controller.events import Answer, RequestArrived, RequestCause
from headrace.controller.machine import ControllerMachine
from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.node.metadata_plane import MetadataPlane, PlaneConfig, PlaneEffect, PlaneEvent, Publish, WriteSnapshot
from headrace.raft.events import (
    FlushLog,
    LogFlushed,
    QuorumState,
    QuorumStateStored,
    ShutdownBegan,
    SnapshotCreated,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.machine import RaftNode
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.controller import registration
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CLUSTER_ID, CONFIG


class PlaneBench:
    """A node's metadata side on a log in memory."""

    def __init__(
        self,
        *,
        log: MemoryLog | None = None,
        snapshots: MemorySnapshots | None = None,
        state: QuorumState | None = None,
        max_new_bytes: int = 10_000_000,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = snapshots or MemorySnapshots()
        self.state = state or QuorumState()
        self.now_ms = 1_000
        self.told: list[str] = []
        node = NodeConfig(node_id=1, log_dirs=("/d",))
        self.plane = MetadataPlane(
            config=PlaneConfig(
                snapshot_max_new_bytes=max_new_bytes,
                snapshot_max_interval_ms=3_600_000,
            ),
            raft=RaftNode(
                config=CONFIG,
                log=self.log.as_port(),
                snapshots=self.snapshots.as_port(),
                state=self.state,
                rng=random.Random(1),
            ),
            loader=MetadataLoader(),
            controller=ControllerMachine(
                config=node,
                cluster_id=CLUSTER_ID,
                rng=random.Random(1),
                bootstrap=read_bootstrap_records(bootstrap_records()),
            ),
            snapshots=self.snapshots.as_port(),
        )
        self.plane.on_resigned = self.told.append

    def start(self) -> list[PlaneEffect]:
        """Start, and do everything that follows."""
        return self.work(self.plane.start(self.now_ms))

    def run(self, event: PlaneEvent) -> list[PlaneEffect]:
        """One event, and everything that follows."""
        return self.work(self.plane.step(event))

    def work(self, todo: list[PlaneEffect]) -> list[PlaneEffect]:
        """Do what a driver does; all effects in the order in which they came."""
        seen: list[PlaneEffect] = []
        while todo:
            effect = todo.pop(0)
            seen.append(effect)
            match effect:
                case StoreQuorumState(state=state):
                    self.state = state
                    todo = self.plane.step(QuorumStateStored(state=state, now_ms=self.now_ms)) + todo
                case FlushLog():
                    todo += self.plane.step(LogFlushed(upto=self.log.flush(), now_ms=self.now_ms))
                case WriteSnapshot(job=job):
                    self.snapshots.put(job.snapshot_id, b"".join(bytes(each) for each in job.batches()))
                    done = SnapshotCreated(
                        end_offset=job.snapshot_id.offset, epoch=job.snapshot_id.epoch, now_ms=self.now_ms
                    )
                    todo += self.plane.step(done)
                case _:
                    pass
        return seen

    def ask(self, request: Any, token: int = 5) -> Any:
        """The answer to a request."""
        version = request.SCHEMA.versions.last
        event = RequestArrived(
            token=token,
            request=request,
            cause=RequestCause(api_version=version, listener="CONTROLLER"),
            now_ms=self.now_ms,
            deadline_ms=self.now_ms + 1_000,
        )
        [answer] = [each for each in self.run(event) if isinstance(each, Answer)]
        assert answer.token == token
        return answer.response


def topics(*names: str) -> CreateTopicsRequest:
    """These topics."""
    return CreateTopicsRequest(
        topics=tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=-1) for name in names)
    )


def test_a_new_node_bootstraps() -> None:
    """B-C21, B-S10: election, then the bootstrap records."""
    bench = PlaneBench()
    bench.start()
    image = bench.plane.image
    assert bench.plane.is_controller_active
    assert image.features.metadata_version == 30
    assert image.provenance.last_contained_offset == bench.log.high_watermark - 1 == 3


def test_what_is_published_is_committed_and_in_order() -> None:
    """C3: a delta comes after the flush of its records, before the answer to their request."""
    bench = PlaneBench()
    bench.start()
    epoch = bench.ask(registration(1)).broker_epoch
    heartbeat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    assert bench.ask(heartbeat).is_fenced is False
    event = RequestArrived(
        token=9, request=topics("t"), cause=RequestCause(api_version=7), now_ms=1_000, deadline_ms=9_000
    )
    assert [type(effect) for effect in bench.run(event)] == [FlushLog, Publish, Answer]
    offset = bench.plane.image.provenance.last_contained_offset
    assert offset == bench.log.high_watermark - 1


def test_a_restarted_node_knows_what_was_committed() -> None:
    """B-C21, B-K10: after a power cut the image is rebuilt from the log; the new process registers again."""
    bench = PlaneBench()
    bench.start()
    assert bench.ask(registration(1)).error_code == 0
    again = PlaneBench(log=bench.log.crash(), state=bench.state)
    again.start()
    assert again.plane.image.cluster.brokers == bench.plane.image.cluster.brokers
    assert again.state.leader_epoch == 2


def test_snapshots_are_made_when_enough_is_new_and_loaded_at_the_start() -> None:
    """B-S01, B-S09: by bytes; a node that starts from a snapshot and the rest of the log has the same image (C2)."""
    bench = PlaneBench(max_new_bytes=300)
    bench.start()
    for broker_id in range(2, 6):
        bench.ask(registration(broker_id))
    assert bench.snapshots.ids()
    newest = bench.snapshots.latest()
    assert newest is not None
    assert newest.offset <= bench.log.high_watermark
    again = PlaneBench(log=bench.log.crash(), state=bench.state, snapshots=bench.snapshots)
    effects = again.start()
    first = next(effect for effect in effects if isinstance(effect, Publish))
    assert first.delta.from_snapshot
    assert again.plane.image.cluster == bench.plane.image.cluster
    plain = PlaneBench(log=bench.log.crash(), state=bench.state)
    plain.start()
    assert again.plane.image.cluster == plain.plane.image.cluster


def test_snapshots_are_made_when_time_has_passed_with_something_new() -> None:
    """B-S01: metadata.log.max.snapshot.interval.ms."""
    bench = PlaneBench()
    bench.start()
    assert bench.snapshots.ids() == []
    bench.now_ms += 3_600_000
    assert bench.plane.next_deadline_ms() is not None
    bench.run(TimeAdvanced(now_ms=bench.now_ms))
    assert len(bench.snapshots.ids()) == 1


def test_a_snapshot_that_could_not_be_written_is_tried_again() -> None:
    """S61: a full disk keeps the log; the next one is made when it is due."""
    bench = PlaneBench()
    bench.start()
    bench.now_ms += 3_600_000
    effects = bench.plane.step(TimeAdvanced(now_ms=bench.now_ms))
    assert [type(each) for each in effects if isinstance(each, WriteSnapshot)] == [WriteSnapshot]
    bench.plane.snapshot_failed(StorageFault("no room", directory=""))
    assert bench.told == ["a metadata snapshot failed: no room"]
    bench.now_ms += 3_600_000
    bench.run(TimeAdvanced(now_ms=bench.now_ms))
    assert len(bench.snapshots.ids()) == 1


def test_a_damaged_snapshot_stops_the_start() -> None:
    """B-S11: no silent skip to an older one."""
    snapshots = MemorySnapshots()
    snapshots.put(OffsetAndEpoch(3, 1), b"nonsense")
    with pytest.raises(StorageFault, match="snapshot 3-1"):
        PlaneBench(snapshots=snapshots).start()


def test_a_log_from_the_future_stops_the_start() -> None:
    """B-C20: an unknown record type is fatal, with its offset."""
    bench = PlaneBench()
    bench.start()
    end = bench.log.log_end_offset
    record = NewRecord(None, b"\x01\x63\x00\x00", 1)
    data = build_batch([record], placement=Placement(base_offset=end, leader_epoch=1))
    log = bench.log.crash()
    log.batches.append((end, end + 1, 1, bytes(data)))
    log.log_end_offset = log.durable_end_offset = end + 1
    with pytest.raises(MetadataFault, match=f"offset {end}"):
        PlaneBench(log=log, state=bench.state).start()


def test_a_stopping_node_answers_who_waits() -> None:
    """B-C23, B-K12: leadership is given up; what was not committed is refused."""
    bench = PlaneBench()
    bench.start()
    event = RequestArrived(
        token=9,
        request=registration(1),
        cause=RequestCause(api_version=4, listener="CONTROLLER"),
        now_ms=1_000,
        deadline_ms=9_000,
    )
    assert [type(each) for each in bench.plane.step(event)] == [FlushLog]
    effects = bench.plane.step(ShutdownBegan(now_ms=1_001))
    [answer] = [each for each in effects if isinstance(each, Answer)]
    assert (answer.token, answer.response.error_code) == (9, 41)
    assert not bench.plane.is_controller_active
