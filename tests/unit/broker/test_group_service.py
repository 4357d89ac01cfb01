"""The service around the coordinators: elections, loading, appends, deadlines. The broker's port is a small log in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from immutables import Map

from headrace.broker.coordinators.groups import GroupService
from headrace.broker.coordinators.reading import SLICE_BYTES
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import InternalAppend
from headrace.broker.walks import WalkJob, Walks
from headrace.config.node_config import NodeConfig
from headrace.coordinator.groups.image import CommittedOffset, OffsetKey, OffsetStored
from headrace.coordinator.groups.stored import GroupRules
from headrace.coordinator.runtime.events import LogRecord
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.notice import Notice
from headrace.core.values import changed
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration, TopicImage, TopicsImage
from headrace.records.batch import HEADER_SIZE, iter_batches, set_crc, set_offset_and_epoch
from headrace.records.compression import Codec
from headrace.records.record import NewRecord, build_batch
from headrace.rpc.context import RequestContext
from headrace.rpc.gather import gather
from headrace.rpc.long_work import Steps
from headrace.rpc.purgatory import Purgatory
from headrace.rpc.reply import Deferred, HandlerResult, InSteps, Reply
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.offset_commit import OffsetCommitResponse
from tests.unit.coordinator.group_bench import commit_request, join_request, topics_of

CONTEXT = RequestContext(api_key=8, api_version=9, client_id="c")
TOPIC_ID = Uuid(b"o" * 16)


def offset_record(position: int, metadata: str = "") -> LogRecord:
    """A position of group "g", as it lies in the log."""
    return GroupRules().written(OffsetStored(OffsetKey("g", "t", 0), CommittedOffset(position, -1, metadata, 1)))


def batch_of(records: list[LogRecord], *, codec: int = 0, damaged: bool = False) -> bytearray:
    """One batch; a damaged one cannot be opened, under a right CRC."""
    batch = build_batch([NewRecord(each.key, each.value, 1) for each in records], codec=codec)
    if damaged:
        batch[HEADER_SIZE] ^= 0xFF
        set_crc(batch, 0, len(batch))
    return batch


class MemoryLogs:
    """The broker's services on a list of batches. With `is_stalled` nothing gets committed until `let_go`."""

    def __init__(self) -> None:
        self.node_id = 1
        self.config = NodeConfig(node_id=1, offsets_topic_num_partitions=1)
        self.purgatory = Purgatory()
        self.clock_ms = 1_000_000
        self.batches: list[bytes] = []
        self.end_offset = 0
        self.high_watermark = 0
        self.is_stalled = False
        self.refuses = ErrorCode.NONE
        self.reads = 0
        self.read_of: list[int] = []
        self.log_start = 0
        self.is_deposed = self.is_alone = False
        self._waiting: list[Callable[[ErrorCode], None]] = []
        self.walks = Walks()
        self.warnings: list[str] = []
        self.on_warning = self.warnings.append
        self.notices: list[Notice] = []
        self.on_notice = self.notices.append
        self._ids = 0
        self.deadline_changes = 0

    def deadline_changed(self) -> None:
        self.deadline_changes += 1

    @property
    def image(self) -> MetadataImage:
        partition = PartitionRegistration(replicas=(1,), isr=(1,), leader=1)
        topic = TopicImage(name=OFFSETS_TOPIC, id=TOPIC_ID, partitions=Map({0: partition}))
        topics = TopicsImage(by_name=Map({OFFSETS_TOPIC: topic}), by_id=Map({TOPIC_ID: topic}))
        return changed(EMPTY_IMAGE, topics=topics)

    def now_ms(self) -> int:
        return self.clock_ms

    def wall_ms(self) -> int:
        return self.clock_ms

    def new_uuid(self) -> Uuid:
        self._ids += 1
        return Uuid(self._ids.to_bytes(16, "big"))

    def forward(self, request: object, context: RequestContext) -> Deferred:
        raise AssertionError("groups ask no controller")

    def auto_create_topic(self, name: str, context: RequestContext) -> Deferred:
        raise AssertionError("the topic is there")

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        return 0

    def log_bounds(self, topic: str, partition: int) -> tuple[int, int, int] | None:
        return self.log_start, self.high_watermark, self.end_offset

    def is_withheld(self, topic: str, partition: int) -> bool:
        return self.is_alone

    def append_internal(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray,
        on_committed: Callable[[InternalAppend], None],
    ) -> None:
        if self.refuses is not ErrorCode.NONE:
            on_committed(InternalAppend(self.refuses))
            return
        done = InternalAppend(ErrorCode.NONE, self.end_offset)
        self.put(batch)
        if not self.is_stalled:
            self.high_watermark = self.end_offset
        self.when_committed(topic, partition, self.end_offset, lambda _: on_committed(done))

    def when_committed(
        self, topic: str, partition: int, end_offset: int, on_committed: Callable[[ErrorCode], None]
    ) -> None:
        if self.high_watermark < end_offset:
            self._waiting.append(on_committed)
        else:
            on_committed(ErrorCode.NONE)

    def put(self, batch: bytes | bytearray) -> None:
        written = bytearray(batch)
        set_offset_and_epoch(written, 0, self.end_offset, 0)
        self.batches.append(bytes(written))
        self.end_offset = next(iter_batches(written))[1].next_offset

    def let_go(self) -> None:
        self.high_watermark = self.end_offset
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each(ErrorCode.NOT_LEADER_OR_FOLLOWER if self.is_deposed else ErrorCode.NONE)

    def read_internal(self, topic: str, partition: int, offset: int, *, max_bytes: int, upper_offset: int) -> bytes:
        self.reads += 1
        self.read_of.append(partition)
        found = b""
        for batch in self.batches:
            header = next(iter_batches(batch))[1]
            if (
                header.next_offset > offset
                and header.base_offset < upper_offset
                and (not found or len(found) < max_bytes)
            ):
                found += batch
        return found


def service(logs: MemoryLogs, *, ticks: int = 100) -> GroupService:
    """A service that leads the one partition and had time to load it."""
    groups = GroupService(logs)
    groups.elected(0, 0)
    for _ in range(ticks):
        groups.tick(logs.now_ms())
    return groups


def commit(groups: GroupService, offset: int) -> Reply | Deferred:
    result = groups.ask("g", commit_request(offset), CONTEXT, refused=lambda error: error)
    assert isinstance(result, Reply | Deferred)
    return result


def code(response: Any) -> int:
    assert isinstance(response, OffsetCommitResponse)
    return response.topics[0].partitions[0].error_code


def position(groups: GroupService) -> int:
    machine = groups.coordinator_of("g")
    assert not isinstance(machine, ErrorCode)
    return topics_of(machine.positions("g"), [("t", ZERO_UUID, (0,))])[0].partitions[0].committed_offset


def test_a_commit_is_answered_at_once_when_the_log_commits_at_once() -> None:
    """B-P06: one broker: no deferred is made."""
    logs = MemoryLogs()
    groups = service(logs)
    result = commit(groups, 5)
    assert isinstance(result, Reply)
    assert (code(result.message), position(groups)) == (0, 5)


def test_a_commit_waits_for_the_high_watermark() -> None:
    """G4: acknowledged means committed."""
    logs = MemoryLogs()
    groups = service(logs)
    logs.is_stalled = True
    result = commit(groups, 5)
    assert isinstance(result, Deferred)
    assert (result.is_done, position(groups)) == (False, -1)
    logs.let_go()
    assert isinstance(result.reply, Reply)
    assert (code(result.reply.message), position(groups)) == (0, 5)


def test_a_refused_append_is_told() -> None:
    """B28: NOT_ENOUGH_REPLICAS of the log is COORDINATOR_NOT_AVAILABLE of the group."""
    logs = MemoryLogs()
    groups = service(logs)
    logs.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    result = commit(groups, 5)
    assert isinstance(result, Reply)
    assert code(result.message) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_was_committed_is_loaded_by_the_next_one() -> None:
    """G4: through the log and nothing else."""
    logs = MemoryLogs()
    commit(service(logs), 5)
    assert position(service(logs)) == 5


def test_a_large_log_is_loaded_in_slices() -> None:
    """M6, G4, K42: COORDINATOR_LOAD_IN_PROGRESS until all of it is read; each tick reads one slice."""
    logs = MemoryLogs()
    for number in range(60):
        record = offset_record(number, "x" * 4_000)
        logs.put(build_batch([NewRecord(record.key, record.value, 1)] * 4))
    logs.high_watermark = logs.end_offset
    size = sum(map(len, logs.batches))
    groups = service(logs, ticks=2)
    assert groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.all_coordinators() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.next_deadline_ms() == logs.now_ms()
    for _ in range(size // SLICE_BYTES + 2):
        groups.tick(logs.now_ms())
    assert (position(groups), logs.reads >= size // (SLICE_BYTES + 20_000)) == (59, True)


def test_nothing_is_served_before_the_loaded_records_are_committed() -> None:
    """G4, K42: the tail of the log might still be cut."""
    logs = MemoryLogs()
    record = offset_record(7)
    logs.put(build_batch([NewRecord(record.key, record.value, 1)]))
    groups = service(logs)
    assert groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.next_deadline_ms() is None
    logs.let_go()
    assert position(groups) == 7


@pytest.mark.parametrize("damage", ["crc", "value", "read"])
def test_a_damaged_log_is_no_group(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B28: half a group is none: NOT_COORDINATOR, and the reason is kept."""
    logs = MemoryLogs()
    record = offset_record(7)
    value = b"\x00\x63" if damage == "value" else record.value
    batch = build_batch([NewRecord(record.key, value, 1)])
    logs.put(batch)
    if damage == "crc":
        logs.batches[0] = logs.batches[0][:-1] + b"?"
    if damage == "read":

        def refuse(*_: object, **__: object) -> bytes:
            raise PeerError(ErrorCode.OFFSET_OUT_OF_RANGE)

        monkeypatch.setattr(logs, "read_internal", refuse)
    logs.high_watermark = logs.end_offset
    groups = service(logs)
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR
    assert list(groups.failures) == [0]
    assert groups.next_deadline_ms() is None


def test_who_waits_is_sent_on_when_the_leadership_goes() -> None:
    """B28: NOT_COORDINATOR for joins and commits that wait; a late commit of the log changes nothing."""
    logs = MemoryLogs()
    groups = service(logs)
    member = groups.ask("g", join_request(), CONTEXT, refused=lambda error: error)
    assert isinstance(member, Reply)
    joining = groups.ask("g", join_request(member.message.member_id), CONTEXT, refused=lambda error: error)
    assert isinstance(joining, Deferred)
    groups.resigned(0, 1)
    assert isinstance(joining.reply, Reply)
    assert joining.reply.message.error_code == ErrorCode.NOT_COORDINATOR
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR


def test_an_older_resignation_is_not_for_us() -> None:
    """P15: epochs order elections and resignations."""
    logs = MemoryLogs()
    groups = GroupService(logs)
    groups.elected(0, 5)
    groups.tick(logs.now_ms())
    groups.resigned(0, 4)
    assert not isinstance(groups.coordinator_of("g"), ErrorCode)
    groups.elected(0, 5)
    groups.resigned(0, 6)
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR


def test_deadlines_ring_through_the_service() -> None:
    """GL1: the first generation begins after its delay, by ticks alone."""
    logs = MemoryLogs()
    groups = service(logs)
    result = groups.ask("g", join_request(), RequestContext(api_key=11, api_version=3), refused=lambda error: error)
    assert isinstance(result, Deferred)
    due = groups.next_deadline_ms()
    assert due == logs.now_ms() + 3_000
    logs.clock_ms = due
    groups.tick(due)
    assert isinstance(result.reply, Reply)


def test_deadlines_of_many_coordinators_ring_in_turns() -> None:
    """M6: those of all come together when each looks for what is expired, ten minutes after the start."""
    logs = MemoryLogs()
    groups = GroupService(logs)
    for partition in range(5):
        groups.elected(partition, 0)
    for _ in range(20):
        groups.tick(logs.now_ms())
    interval_ms = logs.config.offsets_retention_check_interval_ms
    logs.clock_ms += interval_ms
    due = []
    while (deadline := groups.next_deadline_ms()) is not None and deadline <= logs.clock_ms:
        due.append(deadline)
        groups.tick(logs.clock_ms)
    assert len(due) == 3
    assert groups.next_deadline_ms() == logs.clock_ms + interval_ms


def test_a_coordinator_that_may_have_been_replaced_serves_nobody() -> None:
    """S0-15, S2-29, inv:H14: another one may have taken commits; it serves again when its broker knows that it leads."""
    logs = MemoryLogs()
    groups = service(logs)
    first = commit(groups, 7)
    assert isinstance(first, Reply)
    assert code(first.message) == ErrorCode.NONE
    logs.is_alone = True
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR
    assert commit(groups, 8) == Reply(ErrorCode.NOT_COORDINATOR)
    assert groups.all_coordinators() == []
    logs.is_alone = False
    assert position(groups) == 7


def test_a_stopped_service_answers_that_it_is_not_available() -> None:
    """B28: COORDINATOR_NOT_AVAILABLE while stopping."""
    logs = MemoryLogs()
    groups = service(logs)
    groups.shut_down()
    request = HeartbeatRequest(group_id="g")
    result = groups.ask("g", request, CONTEXT, refused=lambda error: HeartbeatResponse(error_code=error))
    assert result == Reply(HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert groups.all_coordinators() is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_topics_deleted_while_loading_are_forgotten_after_it() -> None:
    """PR6: whatever the order of the two."""
    logs = MemoryLogs()
    commit(service(logs), 5)
    groups = GroupService(logs)
    groups.elected(0, 1)
    groups.topics_deleted([("t", TOPIC_ID)])
    for _ in range(3):
        groups.tick(logs.now_ms())
    assert position(groups) == -1


def test_an_abandoned_request_is_forgotten() -> None:
    """M5: a connection that closed leaves nothing behind but the member."""
    logs = MemoryLogs()
    groups = service(logs)
    logs.is_stalled = True
    result = commit(groups, 5)
    assert isinstance(result, Deferred)
    result.abandon()
    assert groups._waiting == {}
    logs.let_go()
    assert position(groups) == 5


def test_loading_coordinators_take_turns() -> None:
    """M6: one turn of one of them a tick, however many there are."""
    logs = MemoryLogs()
    for number in range(60):
        logs.put(batch_of([offset_record(number, "x" * 4_000)] * 4))
    logs.high_watermark = logs.end_offset
    groups = GroupService(logs)
    for partition in range(5):
        groups.elected(partition, 0)
    ticks = 0
    while groups.next_deadline_ms() == logs.now_ms():
        reads = logs.reads
        groups.tick(logs.now_ms())
        ticks += 1
        assert logs.reads <= reads + 1
    coordinators = groups.all_coordinators()
    assert not isinstance(coordinators, ErrorCode)
    assert [each.shard.committed.positions_of("g")["t"][0].offset for each in coordinators] == [59] * 5
    assert logs.reads <= ticks <= logs.reads + 10
    assert logs.read_of[:7] == [0, 1, 2, 3, 4, 0, 1]


def test_a_large_batch_is_loaded_in_turns_and_opened_elsewhere() -> None:
    """M6: what opens to much leaves the loop; its records are replayed a thousand a turn."""
    logs = MemoryLogs()
    jobs: list[WalkJob] = []
    logs.walks.begin = jobs.append
    logs.put(batch_of([offset_record(number, "x" * 100) for number in range(3_500)], codec=Codec.GZIP))
    logs.high_watermark = logs.end_offset
    groups = service(logs, ticks=1)
    assert (len(jobs), groups.next_deadline_ms()) == (1, None)
    changes = logs.deadline_changes
    jobs[0].run(iter)
    jobs[0].finish()
    assert logs.deadline_changes > changes
    ticks = 0
    while groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        groups.tick(logs.now_ms())
        ticks += 1
    assert (ticks, position(groups)) == (4, 3_499)


def test_a_large_batch_that_is_damaged_is_no_group() -> None:
    """B28: found out elsewhere, told here."""
    logs = MemoryLogs()
    jobs: list[WalkJob] = []
    logs.walks.begin = jobs.append
    logs.put(batch_of([LogRecord(Random(1).randbytes(300_000), None)], codec=Codec.GZIP, damaged=True))
    logs.high_watermark = logs.end_offset
    groups = service(logs, ticks=1)
    jobs[0].run(iter)
    jobs[0].finish()
    groups.tick(logs.now_ms())
    assert groups.coordinator_of("g") is ErrorCode.NOT_COORDINATOR
    assert len(logs.warnings) == 1


def test_records_of_unknown_types_are_told_of_once() -> None:
    """B-P06: left alone, as in Kafka, and said in one line."""
    logs = MemoryLogs()
    logs.put(batch_of([LogRecord(b"\x00\x63key", b"?"), offset_record(7)]))
    logs.high_watermark = logs.end_offset
    groups = service(logs)
    assert position(groups) == 7
    assert logs.warnings == ["1 records of unknown types in __consumer_offsets-0 were left alone"]


def test_a_log_that_somebody_else_wrote_into_is_read_anew() -> None:
    """G4: Kafka lets one client id write there; who waits is sent away, and what that client wrote counts."""
    logs = MemoryLogs()
    groups = service(logs)
    logs.put(batch_of([offset_record(50)]))
    result = commit(groups, 5)
    assert isinstance(result, Reply)
    assert code(result.message) == ErrorCode.NOT_COORDINATOR
    assert groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    groups.tick(logs.now_ms())
    assert (position(groups), len(logs.warnings)) == (5, 1)
    commit(groups, 6)
    assert position(groups) == 6


def test_outcomes_for_a_coordinator_that_was_replaced_are_for_nobody() -> None:
    """G4: two commits wait when the log turns out to hold another's record; the one that reads it anew hears of neither."""
    logs = MemoryLogs()
    groups = service(logs)
    logs.is_stalled = True
    logs.put(batch_of([offset_record(50)]))
    replies = [commit(groups, 5), commit(groups, 6)]
    logs.let_go()
    for reply in replies:
        assert isinstance(reply, Deferred)
        assert isinstance(reply.reply, Reply)
        assert code(reply.reply.message) == ErrorCode.NOT_COORDINATOR
    groups.tick(logs.now_ms())
    assert position(groups) == 6


def test_nothing_is_served_when_the_leadership_ends_before_the_log_is_committed() -> None:
    """G4: the tail that was read may be cut."""
    logs = MemoryLogs()
    logs.put(batch_of([offset_record(7)]))
    groups = service(logs)
    logs.is_deposed = True
    logs.let_go()
    groups.tick(logs.now_ms())
    assert groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_records_below_the_log_start_do_not_count() -> None:
    """B-P03: deleted records may still stand in the first batch."""
    logs = MemoryLogs()
    logs.put(batch_of([offset_record(7), LogRecord(b"\x00\x63key", b"?")]))
    logs.high_watermark = logs.end_offset
    logs.log_start = 1
    assert position(service(logs)) == -1


def test_what_is_written_while_the_log_is_read_is_read_too() -> None:
    """G4: until the end that the log has when everything before it was read."""
    logs = MemoryLogs()
    logs.put(batch_of([offset_record(7)]))
    groups = GroupService(logs)
    groups.elected(0, 0)
    assert groups.coordinator_of("g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    logs.put(batch_of([offset_record(8)]))
    logs.high_watermark = logs.end_offset
    for _ in range(3):
        groups.tick(logs.now_ms())
    assert position(groups) == 8


def test_parts_of_an_answer_are_gathered_in_their_order() -> None:
    """B-P06: OffsetFetch and DeleteGroups of many groups."""
    late = Deferred()
    whole = gather([Reply("a"), late, Reply("c")], "".join)
    assert isinstance(whole, Deferred)
    assert not whole.is_done
    late.complete(Reply("b"))
    assert whole.reply == Reply("abc")
    assert gather([Reply("a")], "".join) == Reply("a")
    other = Deferred()
    waiting = gather([other], "".join)
    assert isinstance(waiting, Deferred)
    waiting.abandon()
    assert other.is_done


def test_members_may_say_so_much_of_themselves_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """PR8, inv:M1: of all groups together; sessions last for minutes after a client has gone. Who is here may come back."""

    def joining(size: int, *, group: str = "g", instance: str = "one") -> JoinGroupRequest:
        protocols = (JoinGroupRequestProtocol(name="range", metadata=bytes(size)),)
        return JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=protocols,
        )

    groups = service(MemoryLogs())
    assert groups.has_room_for(joining(50_000))
    groups.ask("g", joining(50_000), CONTEXT, refused=lambda error: error)
    monkeypatch.setattr("headrace.broker.coordinators.groups.MOST_MEMBER_BYTES", 80_000)
    assert not groups.has_room_for(joining(50_000, group="h"))
    assert not groups.has_room_for(joining(50_000, instance="two"))
    assert not groups.has_room_for(joining(90_000))
    assert groups.has_room_for(joining(50_000))
    assert groups.has_room_for(joining(20_000, group="h"))


def test_requests_about_many_members_take_turns() -> None:
    """PR8, M6: hundreds of static members that come back at once were one turn of a second."""
    groups = service(MemoryLogs())

    def ask(instance: str) -> HandlerResult:
        protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=protocols,
        )
        return groups.ask_in_turn("g", request, replace(CONTEXT, api_version=5), refused=lambda error: error)

    assert all(isinstance(ask(f"i{number}"), Deferred) for number in range(31))
    late = ask("i31")
    assert isinstance(late, InSteps)
    assert [next(late.steps, "done"), isinstance(ended(late.steps), Deferred)] == [None, True]


def ended(steps: Steps[HandlerResult]) -> HandlerResult:
    """What is left of the steps returns."""
    with pytest.raises(StopIteration) as end:
        next(steps)
    found: HandlerResult = end.value.value
    return found
