"""A replica that is moved from one log directory of its broker to another: what is copied, what the controller knows meanwhile, and what a crash leaves (KIP-113, KIP-858)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker.log_syncs import LogSync
from headrace.broker.replica_moves import CopyPiece, MoveState
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import LOST_DIRECTORY, TopicPartition, Uuid
from headrace.node.jobs import LogWork
from headrace.node.machine import DirectoryFailed
from headrace.storage.layout import parse_suffixed_directory
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.support.broker_bench import Client
from tests.support.memory_node import DATA, MemoryNode
from tests.support.peer import batch, produce_request

OTHER = "/mnt/data"
T0 = TopicPartition("t", 0)


class Bench:
    """A node with two log directories and a topic of one partition; copies wait in `pieces` until they are done."""

    def __init__(self, after: MemoryNode | None = None, **settings: str) -> None:
        self.node = MemoryNode(log_dirs=(DATA, OTHER), after=after)
        self.pieces: list[CopyPiece] = []
        self.node.start()
        if after is None:
            configs = tuple(
                CreatableTopicConfig(name=name.replace("_", "."), value=text) for name, text in settings.items()
            )
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
            self.node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
            self.settle()
        self.client = Client(self.node)

    def settle(self) -> None:
        """Let a second pass, and do what is ordered but copies: these wait."""
        self.node.settle()
        done, self.node.done = self.node.done, []
        for each in done:
            match each:
                case CopyPiece():
                    self.pieces.append(each)
                case LogWork():
                    each.job.run_in_place()
                    each.job.finish()
                case LogSync():
                    each.prepare()
                    each.run()
                    each.finish()
                case _:
                    self.node.done.append(each)

    def copy(self) -> int:
        """Do the copies that are ordered; how many."""
        pieces, self.pieces = self.pieces, []
        for piece in pieces:
            try:
                piece.run()
            except StorageFault as fault:
                piece.failed(fault)
            else:
                piece.finish()
        return len(pieces)

    def copy_all(self) -> None:
        """Until no copy is ordered for some seconds: the last step waits for flushes."""
        idle = 0
        while idle < 3:
            self.settle()
            idle = 0 if self.copy() else idle + 1

    def produce(self, data: bytes = b"x") -> int:
        """The error code."""
        code: int = self.client.ask(produce_request("t", batch(data)), 9).responses[0].partition_responses[0].error_code
        return code

    def alter(self, path: str, topic: str = "t", partition: int = 0) -> int:
        """Ask for another directory; the error code."""
        topics = (AlterReplicaLogDirTopic(name=topic, partitions=(partition,)),)
        request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))
        code: int = self.client.ask(request, 2).results[0].partitions[0].error_code
        return code

    @property
    def log(self) -> Any:
        """The partition's log."""
        return self.node.logs.get(T0)

    @property
    def known(self) -> Uuid:
        """Where the controller thinks that the replica is."""
        return self.node.machine.image.topics.by_name["t"].partitions[0].directory_of(1)

    def id_of(self, path: str) -> Uuid:
        """The id of a directory."""
        return next(info.directory_id for info in self.node.logs.directories() if info.path == path)

    def elsewhere(self) -> str:
        """The directory where the replica is not."""
        return OTHER if self.log.directory == DATA else DATA

    def names(self, path: str) -> list[str]:
        """The directories of the partition there: their endings, "" for the one in use."""
        found = []
        for name in self.node.files.listdir(path):
            if name == "t-0":
                found.append("")
            elif (suffixed := parse_suffixed_directory(name)) and suffixed[0] == T0:
                found.append(suffixed[1])
        return sorted(found)

    def state(self) -> MoveState | None:
        """How far the move is."""
        return dict(self.node.broker.replica_moves).get(T0)


def test_a_new_replica_goes_to_the_directory_with_the_fewest_and_the_controller_hears_where() -> None:
    """B-C31, KIP-113, KIP-858: nobody placed it before, so the broker does, and says so with AssignReplicasToDirs."""
    bench = Bench()
    for number in range(3):
        topic = CreatableTopic(name=f"u{number}", num_partitions=1, replication_factor=1)
        bench.node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
        bench.settle()
    where = {name.topic: log.directory for name, log in bench.node.logs.logs().items()}
    assert sorted(where.values()) == sorted([DATA, DATA, OTHER, OTHER])
    topics = bench.node.machine.image.topics.by_name
    assert {name: topics[name].partitions[0].directory_of(1) for name in where} == {
        name: bench.id_of(path) for name, path in where.items()
    }
    assert len(bench.node.broker.assignments) == 0


def test_the_replica_is_copied_while_it_is_written_and_read_on_and_then_it_is_there() -> None:
    """B-C31, P20, KIP-113: byte for byte; the controller knows the new place before it is taken (KIP-858)."""
    bench = Bench()
    assert [bench.produce(b"%d" % number) for number in range(20)] == [0] * 20
    target, home = bench.elsewhere(), bench.log.directory
    before = bench.log
    assert bench.alter(target) == 0
    bench.settle()
    assert (bench.names(target), bench.known) == (["future"], bench.id_of(home))
    assert bench.produce(b"meanwhile") == 0
    held = bench.log.read_bytes(0, 1 << 20, upper_offset=21, min_one_batch=True)
    bench.copy_all()
    assert bench.log is before
    assert (bench.log.directory, bench.known, bench.state()) == (target, bench.id_of(target), None)
    assert bench.log.read_bytes(0, 1 << 20, upper_offset=21, min_one_batch=True) == held
    assert (bench.names(target), bench.names(home)) == ([""], ["delete"])
    assert bench.produce(b"after") == 0
    assert bench.log.log_end_offset == bench.log.high_watermark == 22
    again = Bench(after=stopped(bench))
    assert (again.log.directory, again.log.log_end_offset, again.log.high_watermark) == (target, 22, 22)


def stopped(bench: Bench) -> MemoryNode:
    """The node after a clean stop."""
    bench.node.stop()
    return bench.node


def test_describe_log_dirs_tells_the_future_replica_and_how_far_it_is_behind() -> None:
    """KIP-113: IsFutureKey, and as OffsetLag what the log has and the copy lacks."""
    bench = Bench()
    for _ in range(3):
        bench.produce()
    target = bench.elsewhere()
    bench.alter(target)
    described = bench.client.ask(DescribeLogDirsRequest(topics=None), 4).results
    rows = {
        (each.log_dir, row.is_future_key): (row.offset_lag, row.partition_size > 0)
        for each in described
        for topic in each.topics
        for row in topic.partitions
    }
    assert rows == {(bench.log.directory, False): (0, True), (target, True): (3, False)}


def test_what_cannot_be_moved_is_refused_as_kafka_refuses_it() -> None:
    """KIP-113, KIP-1066: Kafka 4.3.1's error for each."""
    bench = Bench()
    assert bench.alter("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert bench.alter(OTHER, topic="x" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert bench.alter(OTHER, topic="not-here") == ErrorCode.REPLICA_NOT_AVAILABLE
    assert bench.alter(bench.log.directory) == ErrorCode.NONE
    bench.node.broker.on_storage_fault(StorageFault("gone", directory=OTHER))
    assert bench.alter(OTHER) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_partition_that_is_not_here_yet_is_made_where_it_was_asked_for() -> None:
    """KIP-113: the request before the topic, as kafka-reassign-partitions sends it; REPLICA_NOT_AVAILABLE is no refusal."""
    bench = Bench()
    for number in range(4):
        assert bench.alter(OTHER, topic="later", partition=number) == ErrorCode.REPLICA_NOT_AVAILABLE
    topic = CreatableTopic(name="later", num_partitions=4, replication_factor=1)
    bench.node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
    bench.settle()
    assert {log.directory for name, log in bench.node.logs.logs().items() if name.topic == "later"} == {OTHER}


def test_to_ask_for_the_present_directory_gives_the_move_up() -> None:
    """KIP-113: the future replica goes; a controller that was told already is told back (KIP-858)."""
    bench = Bench()
    bench.produce()
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    bench.settle()
    assert bench.copy() == 1
    assert bench.state() is MoveState.TOLD
    assert bench.alter(home) == 0
    bench.copy_all()
    assert (bench.state(), bench.log.directory, bench.known) == (None, home, bench.id_of(home))
    assert bench.names(target) == ["delete"]


def test_a_move_that_is_given_up_and_wanted_again_at_once_ends_where_the_metadata_say() -> None:
    """inv:P20, KIP-858: the metadata here still say the new directory while the controller is being told the old one."""
    bench = Bench()
    bench.produce()
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    bench.settle()
    bench.copy()
    bench.node.settle()
    assert (bench.log.directory, bench.known) == (home, bench.id_of(target))
    assert (bench.alter(home), bench.alter(target)) == (0, 0)
    bench.copy_all()
    assert (bench.log.directory, bench.known) == (target, bench.id_of(target))


@pytest.mark.parametrize("copies", range(4))
def test_a_move_goes_on_after_a_restart_wherever_it_was(copies: int) -> None:
    """KIP-113: after the directory was made, in mid-copy, when all was copied; after a crash in the middle of it too."""
    bench = Bench()
    for number in range(10):
        bench.produce(b"%d" % number)
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    for _ in range(copies):
        bench.settle()
        bench.copy()
    held = bench.log.read_bytes(0, 1 << 20, upper_offset=10, min_one_batch=True)
    bench.node.disk.unlock()  # the process dies, its files stay as they are
    again = Bench(after=bench.node)
    again.copy_all()
    assert (again.log.directory, again.known) == (target, again.id_of(target))
    assert again.log.read_bytes(0, 1 << 20, upper_offset=10, min_one_batch=True) == held
    assert "" not in again.names(home)


def test_a_process_that_died_between_the_two_names_finds_the_replica_where_the_metadata_know_it() -> None:
    """KIP-858: Kafka 4.3.1 does not start with both, an operator must remove one; here the metadata say which is right."""
    bench = Bench()
    bench.produce(b"kept")
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    bench.copy_all()
    files = bench.node.files
    files.mkdir(f"{home}/t-0")  # as if it had not been renamed yet
    files.open(f"{home}/t-0/{0:020d}.log", create=True).close()
    topic_id = files.read_file(f"{target}/t-0/partition.metadata")
    assert topic_id is not None
    files.open(f"{home}/t-0/partition.metadata", create=True).pwrite(topic_id, 0)
    bench.node.disk.unlock()
    again = Bench(after=bench.node)
    assert (again.log.directory, again.log.log_end_offset) == (target, 1)
    assert "" not in again.names(home)


def test_when_the_old_directory_fails_after_the_controller_was_told_the_replica_is_lost() -> None:
    """B-K08, KIP-858: the controller thinks it to be in a directory that works; only LOST keeps it from being led there."""
    bench = Bench()
    bench.produce()
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    bench.settle()
    bench.copy()
    bench.node.settle()
    assert bench.known == bench.id_of(target)
    bench.node.broker.on_storage_fault(StorageFault("gone", directory=home))
    bench.node.settle()
    assert bench.known == LOST_DIRECTORY
    assert bench.node.machine.image.topics.by_name["t"].partitions[0].leader == -1


def test_when_the_new_directory_fails_the_replica_stays_and_the_controller_hears_it() -> None:
    """B-K08, KIP-858: the copy is gone, the replica is not."""
    bench = Bench()
    bench.produce()
    home, target = bench.log.directory, bench.elsewhere()
    bench.alter(target)
    bench.settle()
    bench.copy()
    bench.node.settle()
    bench.node.broker.on_storage_fault(StorageFault("gone", directory=target))
    bench.copy_all()
    partition = bench.node.machine.image.topics.by_name["t"].partitions[0]
    assert (bench.known, partition.leader, bench.log.directory) == (bench.id_of(home), 1, home)
    assert bench.produce() == 0
    assert [each.directory for each in bench.node.done if isinstance(each, DirectoryFailed)] == [target]


def test_a_deleted_topic_takes_its_future_replica_along() -> None:
    """S1-37: nothing of it stays."""
    bench = Bench()
    bench.produce()
    target = bench.elsewhere()
    bench.alter(target)
    bench.settle()
    bench.node.forward(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=5_000), 6)
    bench.copy_all()
    assert {*bench.names(DATA), *bench.names(OTHER)} == {"delete"}
    assert len(bench.node.broker.replica_moves) == 0


def test_a_move_keeps_to_its_rate() -> None:
    """KIP-113: replica.alter.log.dirs.io.max.bytes.per.second."""
    bench = Bench(segment_bytes="1048576")
    for _ in range(8):
        bench.produce(bytes(400_000))
    bench.node.broker.replica_moves.quota.bound = 100_000
    began = bench.node.clock.now
    bench.alter(bench.elsewhere())
    for _ in range(200):
        bench.settle()
        bench.copy()
        if bench.state() is None:
            break
    assert bench.state() is None
    seconds = (bench.node.clock.now - began) / 1_000
    assert 20 <= seconds <= 60


def test_records_that_wait_for_a_sync_wait_through_the_end_of_a_move() -> None:
    """inv:D2, inv:P20: with flush.messages=1 nothing is acknowledged that is durable in the old directory only."""
    bench = Bench(flush_messages="1")
    answered = 0
    for number in range(3):
        bench.client.send(produce_request("t", batch(b"x")), 9)
        bench.settle()
        answered += len(bench.client.answers())
        assert answered == number + 1
    target = bench.elsewhere()
    bench.alter(target)
    for _ in range(10):
        if bench.state() is MoveState.ENDING and bench.pieces:
            break
        bench.copy()
        bench.settle()
    assert bench.state() is MoveState.ENDING
    bench.client.send(produce_request("t", batch(b"while syncs are held")), 9)
    bench.settle()
    assert bench.client.answers() == []
    bench.copy_all()
    (late,) = bench.client.answers()
    assert late.responses[0].partition_responses[0].error_code == 0
    log = bench.log
    assert log.directory == target
    assert log.durable_end_offset == log.acknowledged_end_offset == log.log_end_offset == 4


def test_a_copy_does_not_take_the_place_of_a_log_that_cannot_be_read() -> None:
    """inv:P20, KIP-858: the controller was told of the copy, and what the log got since is in the other directory only; Kafka 4.3.1 would go on with the copy."""
    bench = Bench()
    bench.produce()
    home, target = bench.log.directory, bench.elsewhere()
    if home == DATA:  # that of the metadata log must be readable
        bench.alter(target)
        bench.copy_all()
        home, target = target, home
    bench.alter(target)
    bench.settle()
    bench.copy()
    bench.node.settle()
    assert bench.known == bench.id_of(target)
    bench.produce(b"only there")
    bench.node.disk.unlock()
    bench.node.files.unreadable = home
    second = Bench(after=bench.node)
    second.settle()
    assert (second.log, second.known) == (None, LOST_DIRECTORY)
    assert "future" in second.names(target)
    second.node.disk.unlock()
    second.node.files.unreadable = None
    third = Bench(after=second.node)
    third.copy_all()
    assert (third.log.directory, third.log.log_end_offset, third.known) == (target, 2, third.id_of(target))
