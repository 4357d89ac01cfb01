"""A coordinator with a log that a test can hold up: what the tests of groups share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headrace.coordinator.groups.config import GroupConfig
from headrace.coordinator.groups.group import ClassicGroup
from headrace.coordinator.groups.machine import GroupCoordinator
from headrace.coordinator.groups.positions import StoredPositions, TopicsAsked
from headrace.coordinator.groups.requests import DeleteGroups, FetchStableOffsets
from headrace.coordinator.runtime.events import (
    Answer,
    AppendFailed,
    AppendRecords,
    CoordinatorEvent,
    LoadedRecord,
    LoadFinished,
    LogRecord,
    RecordsCommitted,
    RecordsLoaded,
    RequestReceived,
    TimePassed,
    TransactionEnded,
)
from headrace.coordinator.runtime.machine import Runtime
from headrace.coordinator.runtime.shard import Status
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from headrace.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

START_MS = 1_700_000_000_000
GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000


@dataclass
class Joined:
    """A member as a test knows it after its JoinGroup was answered."""

    member_id: str
    generation_id: int
    leader: str
    instance: str | None = None

    @property
    def leads(self) -> bool:
        return self.member_id == self.leader


class Bench:
    """Gives events to a coordinator, keeps its log and its answers. With `holds_log` the test commits appends itself."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        log: list[LogRecord] | None = None,
        now_ms: int = START_MS,
        transactions: Iterable[RecordsLoaded | TransactionEnded] = (),
    ) -> None:
        """A coordinator that loaded `transactions` and then `log`."""
        self.config = config or GroupConfig()
        self.machine = GroupCoordinator(self.config)
        self.runtime = Runtime(self.machine, self.machine.shard)
        self.now_ms = now_ms
        self.log: list[LogRecord] = []
        self.appends: list[AppendRecords] = []
        self.answers: dict[int, Any] = {}
        self.holds_log = False
        self._tokens = 0
        self._ids = 0
        self.log.extend(log or ())
        for event in transactions:
            self.step(event)
        loaded = [LoadedRecord(offset, *record) for offset, record in enumerate(self.log)]
        self.step(RecordsLoaded(records=loaded, producer_id=-1))
        self.step(LoadFinished(next_offset=len(self.log), now_ms=self.now_ms))
        while self.machine.shard.status is Status.LOADING:
            self.step(TimePassed(now_ms=self.now_ms))

    # ---- driving

    def step(self, event: CoordinatorEvent) -> None:
        for effect in self.runtime.step(event):
            if isinstance(effect, Answer):
                assert effect.token not in self.answers, "a request is answered once"
                self.answers[effect.token] = effect.response
                continue
            assert isinstance(effect, AppendRecords), "nobody else writes into this log"
            if self.holds_log:
                self.appends.append(effect)
            else:
                self._commit(effect)

    def commit_next(self) -> None:
        self._commit(self.appends.pop(0))

    def fail_next(self, error: ErrorCode) -> None:
        append = self.appends.pop(0)
        self.step(AppendFailed(append_id=append.append_id, error=error, now_ms=self.now_ms))

    def _commit(self, append: AppendRecords) -> None:
        base_offset = len(self.log)
        self.log.extend(append.records)
        self.step(RecordsCommitted(append_id=append.append_id, base_offset=base_offset, now_ms=self.now_ms))

    def pass_time(self, by_ms: int) -> None:
        """Let time go on and every deadline ring at its moment."""
        until = self.now_ms + by_ms
        while (due := self.runtime.next_deadline_ms) is not None and due <= until:
            self.now_ms = max(self.now_ms, due)
            self.step(TimePassed(now_ms=self.now_ms))
        self.now_ms = until

    def send(self, request: Any, *, version: int = 9, client_id: str = "client") -> int:
        """Send a request; its token. The answer, when there is one, is in `answers`."""
        self._tokens += 1
        self._ids += 1
        self.step(
            RequestReceived(
                token=self._tokens,
                request=request,
                api_version=version,
                client_id=client_id,
                client_host="/10.0.0.1",
                fresh_id=f"id{self._ids}",
                now_ms=self.now_ms,
            )
        )
        return self._tokens

    def ask(self, request: Any, *, version: int = 9) -> Any:
        """Send a request that is answered at once."""
        return self.answers[self.send(request, version=version)]

    def restarted(self) -> Bench:
        """A new coordinator that loaded what this one's log holds."""
        other = Bench(self.config, log=self.log, now_ms=self.now_ms)
        other._ids = self._ids
        return other

    # ---- what members do

    @property
    def group(self) -> ClassicGroup:
        return self.machine.shard.groups[GROUP]

    def start_join(self, member_id: str = "", *, instance: str | None = None, version: int = 9, **other: Any) -> int:
        return self.send(join_request(member_id, instance=instance, **other), version=version)

    def start_member(self, **other: Any) -> tuple[str, int]:
        """Get a member id as a dynamic member does (KIP-394), and join with it: (member id, token of the join)."""
        refused = self.answers[self.start_join(**other)]
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return refused.member_id, self.start_join(refused.member_id, **other)

    def joined(self, token: int, *, instance: str | None = None) -> Joined:
        response: JoinGroupResponse = self.answers[token]
        assert response.error_code == ErrorCode.NONE
        return Joined(response.member_id, response.generation_id, response.leader, instance)

    def stable_group(self, *, size: int = 1, instances: tuple[str | None, ...] = ()) -> list[Joined]:
        """A Stable group of dynamic members, or of static ones by their instance ids; the leader comes first."""
        tokens = []
        for instance in instances or (None,) * size:
            tokens.append(self.start_join(instance=instance) if instance else self.start_member()[1])
        self.pass_time(self.config.initial_rebalance_delay_ms)
        while any(token not in self.answers for token in tokens):
            self.pass_time(self.config.initial_rebalance_delay_ms)
        members = [
            self.joined(token, instance=instance)
            for token, instance in zip(tokens, instances or (None,) * size, strict=True)
        ]
        self.sync_all(members)
        return sorted(members, key=lambda member: not member.leads)

    def sync_all(self, members: list[Joined]) -> dict[str, SyncGroupResponse]:
        """Let every member fetch its assignment, the leader assigning `a-<member id>` to each."""
        tokens = {
            m.member_id: self.sync(m, {each.member_id: f"a-{each.member_id}".encode() for each in members})
            for m in members
        }
        return {member_id: self.answers[token] for member_id, token in tokens.items()}

    def sync(self, member: Joined, assignment: dict[str, bytes] | None = None, **changes: Any) -> int:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=key, assignment=value) for key, value in (assignment or {}).items()
            )
            if member.leads
            else (),
        )
        return self.send(replace(request, **changes), version=5)

    def heartbeat(self, member: Joined, **changes: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=member.instance,
        )
        return ErrorCode(self.ask(replace(request, **changes), version=4).error_code)

    def leave(self, *members: Joined) -> list[ErrorCode]:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=tuple(MemberIdentity(member_id=m.member_id, group_instance_id=m.instance) for m in members),
        )
        return [ErrorCode(each.error_code) for each in self.ask(request, version=5).members]

    # ---- positions

    def start_commit(self, offset: int, member: Joined | None = None, *, version: int = 9, **changes: Any) -> int:
        return self.send(commit_request(offset, member, **changes), version=version)

    def commit(self, offset: int, member: Joined | None = None, *, version: int = 9, **changes: Any) -> ErrorCode:
        """Commit one position; the error of its partition."""
        response: OffsetCommitResponse = self.answers[self.start_commit(offset, member, version=version, **changes)]
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def fetch(self, *, topic: str = "t", partition: int = 0, topic_id: Uuid = ZERO_UUID, group: str = GROUP) -> int:
        """The committed offset that a reader sees, -1 when there is none."""
        topics = topics_of(self.machine.positions(group), [(topic, topic_id, (partition,))])
        return topics[0].partitions[0].committed_offset

    def stable(self, token: int) -> OffsetFetchResponsePartitions:
        """What a stable fetch found in the first partition of topic t."""
        return topics_of(self.answers[token], [("t", ZERO_UUID, (0,))])[0].partitions[0]

    def start_stable_fetch(self) -> int:
        return self.send(FetchStableOffsets(group_id=GROUP))

    def delete_groups(self, *group_ids: str) -> list[ErrorCode]:
        results = self.ask(DeleteGroups(group_ids=group_ids), version=2)
        return [ErrorCode(each.error_code) for each in results]


def topics_of(positions: StoredPositions, asked: TopicsAsked | None) -> tuple[OffsetFetchResponseTopics, ...]:
    """Positions as a response has them, all steps taken."""
    steps = positions.topics(asked)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: tuple[OffsetFetchResponseTopics, ...] = end.value
            return found


def join_request(
    member_id: str = "",
    *,
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = (("range", b"sub"),),
    **changes: Any,
) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols),
    )
    return replace(request, **changes)


def commit_request(
    offset: int,
    member: Joined | None = None,
    *,
    topic: str = "t",
    partition: int = 0,
    topic_id: Uuid = ZERO_UUID,
    metadata: str | None = "",
    **changes: Any,
) -> OffsetCommitRequest:
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=member.generation_id if member else -1,
        member_id=member.member_id if member else "",
        group_instance_id=member.instance if member else None,
        topics=(
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=5,
                        committed_metadata=metadata,
                    ),
                ),
            ),
        ),
    )
    return replace(request, **changes)
