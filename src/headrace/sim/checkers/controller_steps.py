"""Decisions of the active controller, and responses that wait until they are committed.  C1 C3 C4 C13 RL2

Each event of a controller is judged with the image that it decided on and the one it led to; both are made here, from the records that it
ordered, not taken from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.controller.events import (
    Answer,
    AppendRecords,
    BrokerUnreachable,
    KRaftVersionAnswered,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    Resign,
    TimeAdvanced,
)
from headrace.core.error_code import ErrorCode
from headrace.core.values import value_class
from headrace.metadata.image import MetadataImage
from headrace.metadata.replay import ReplayError, replay_all
from headrace.raft.roles import Leader
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import LogAppended, StepKind
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationResponse
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.frame import decode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView, MachineStep

ATOMIC: Final = (
    AllocateProducerIdsRequest,
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
"""Operations whose records are visible together or not at all. What a broker asks of many partitions is an operation for each of them."""


class Unanswered(NamedTuple):
    """A request without its answer. `end`: of everything that was decided by then; `since_ms`: by the node's own clock."""

    event: RequestArrived
    end: int
    has_written: bool
    since_ms: int


@dataclass(slots=True, eq=False)
class Reign:
    """One controller's time of being active, as ordered by its own effects. `image`: everything it decided so far."""

    life: Life
    epoch: int
    image: MetadataImage
    next_offset: int
    began_ms: int
    decided_end: int = 0
    """The end of the last records that it ordered, or of what it began with."""
    waiting: dict[int, Unanswered] = field(default_factory=dict)
    """By token."""
    answering: Unanswered | None = None
    """The request whose answer the judges are told of."""
    going: frozenset[int] = frozenset()
    """Brokers that may just be moved away, slice by slice, for what they or the time said: nothing new comes to them (B-C22, B-C24)."""


@value_class
class Decided:
    """One event of an active controller and what it led to. `base_offset` is that of the first of `records`, `batches` have them as they are written."""

    reign: Reign
    event: Any
    before: MetadataImage
    after: MetadataImage
    records: tuple[Any, ...]
    batches: tuple[tuple[bytes, ...], ...]
    base_offset: int
    answers: tuple[Answer, ...]

    @property
    def life(self) -> Life:
        """The process that decided."""
        return self.reign.life


class Judge:
    """Rules about single decisions; `ControllerSteps` calls it. A subclass overrides what it needs."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def gained(self, reign: Reign) -> None:
        """A controller became active."""

    def decided(self, decided: Decided) -> None:
        """It took one event."""

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every 1,000 steps and at the end."""

    def answered(self, reign: Reign, request: Any, answer: Answer, now_ms: int) -> None:
        """An answer to what it was asked leaves, and its records are committed."""


class ControllerSteps(Group):
    """The records of decisions, their answers, and the judges of their content."""

    def __init__(self, scene: Scene, judges: tuple[type[Judge], ...] = ()) -> None:
        super().__init__(scene)
        self._reigns: dict[int, Reign] = {}
        self._judges = [make(self) for make in judges]
        self._split: list[tuple[int, int, str, int]] = []
        """(start, end, request, epoch) of operations in several batches."""
        self._blocks: dict[int, int] = {}
        self._last_reign_node = -1

    def before_changes(self) -> Mapping[type, Handler]:
        """Who appends must lead (C1)."""
        return {LogAppended: self._appended}

    def machine_events(self) -> Mapping[type, Handler]:
        """Everything a controller hears."""
        kinds = (RequestArrived, TimeAdvanced, BrokerUnreachable, RecordsCommitted, KRaftVersionAnswered)
        return {
            **dict.fromkeys(kinds, self._heard),
            LeadershipGained: self._gained,
            LeadershipEnded: self._lost,
        }

    def began(self, life: Life) -> None:
        """A new process is not active."""
        self._reigns.pop(life.node_id, None)

    def ended(self, life: Life, kind: StepKind) -> None:
        """Whoever waited for a dead process never hears."""
        reign = self._reigns.pop(life.node_id, None)
        if reign is not None and any(each.end > self.ghost.committed.end for each in reign.waiting.values()):
            self.hit("answer withheld: leadership lost before commit")

    # only the leader that has replayed everything writes (C1)

    def _appended(self, life: Life, batch: LogAppended) -> None:
        role = life.role
        if batch.is_control or self.scene.step.kind is not StepKind.EVENT or not isinstance(role, Leader):
            return
        if life.applied < role.epoch_start_offset:
            raise self.broken(
                "C1",
                f"controller {life.node_id} writes at {batch.base_offset}, it has replayed up to {life.applied} only",
                life,
            )
        reign = self._reigns.get(life.node_id)
        if reign is not None and reign.epoch != role.epoch:
            raise self.broken("C1", f"a controller of epoch {reign.epoch} writes in epoch {role.epoch}", life)

    # Reigns

    def _gained(self, life: Life, step: MachineStep) -> None:
        event = step.event
        assert isinstance(event, LeadershipGained)
        reign = Reign(
            life=life,
            epoch=event.epoch,
            image=event.image,
            next_offset=event.next_offset,
            began_ms=event.now_ms,
            decided_end=event.image.provenance.last_contained_offset + 1,
        )
        self._reigns[life.node_id] = reign
        end = reign.decided_end
        if end > self.ghost.committed.end:
            raise self.broken("C3", f"controller {life.node_id} begins with {end}, committed is less", life)
        if self._last_reign_node not in (-1, life.node_id):
            self.hit("controller failover")
        self._last_reign_node = life.node_id
        for judge in self._judges:
            judge.gained(reign)
        self._take(reign, step)

    def _lost(self, life: Life, step: MachineStep) -> None:
        reign = self._reigns.pop(life.node_id, None)
        if reign is None or not reign.waiting:
            return
        self.hit("answer withheld: leadership lost before commit")
        told = {effect.token for effect in step.effects if isinstance(effect, Answer)}
        self._never_answered([each for token, each in reign.waiting.items() if token not in told], life)

    def _heard(self, life: Life, step: MachineStep) -> None:
        reign = self._reigns.get(life.node_id)
        if reign is not None and reign.life is life:
            self._take(reign, step)

    def _take(self, reign: Reign, step: MachineStep) -> None:
        event: Any = step.event
        before, base_offset = reign.image, -1
        records: list[Any] = []
        batches: list[tuple[bytes, ...]] = []
        for effect in step.effects:
            if isinstance(effect, AppendRecords):
                base_offset = effect.base_offset if base_offset < 0 else base_offset
                reign.next_offset = reign.decided_end = effect.base_offset + len(effect.records)
                records += [decode_record(each) for each in effect.records]
                batches.append(effect.records)
        if records:
            try:
                reign.image = replay_all(before, records)
            except ReplayError as error:
                raise self.broken(
                    "C18", f"controller {reign.life.node_id} writes what cannot be replayed: {error}", reign.life
                ) from error
        self._note_asker(reign, event, has_written=bool(records))
        is_split = len(batches) > 1 and isinstance(event, RequestArrived) and isinstance(event.request, ATOMIC)
        if is_split and not isinstance(records[0], BeginTransactionRecord):
            self._split.append((base_offset, reign.next_offset, type(event.request).__name__, reign.epoch))
        answers = tuple(effect for effect in step.effects if isinstance(effect, Answer))
        decided = Decided(
            reign=reign,
            event=event,
            before=before,
            after=reign.image,
            records=tuple(records),
            batches=tuple(batches),
            base_offset=base_offset,
            answers=answers,
        )
        if records or not isinstance(event, RecordsCommitted):
            for judge in self._judges:
                judge.decided(decided)
        is_over = any(isinstance(effect, Resign) for effect in step.effects)
        for answer in answers:
            self._answered(reign, answer, event.now_ms, is_over=is_over)

    def _note_asker(self, reign: Reign, event: Any, *, has_written: bool) -> None:
        """Who waits for an answer, and for what: a level of the quorum itself is written by raft first."""
        if isinstance(event, RequestArrived):
            now_ms = self._local_ms(reign.life)
            reign.waiting[event.token] = Unanswered(event, reign.decided_end, has_written, now_ms)
        elif isinstance(event, KRaftVersionAnswered) and event.token in reign.waiting:
            asked = reign.waiting[event.token]
            reign.waiting[event.token] = asked._replace(end=reign.decided_end, has_written=has_written)

    # answers are of what is committed, and blocks of ids never overlap (C3, C13)

    def _answered(self, reign: Reign, answer: Answer, now_ms: int, *, is_over: bool) -> None:
        asked = reign.waiting.pop(answer.token, None)
        if asked is None or is_over:
            return
        response, end = answer.response, asked.end
        if isinstance(response, BrokerRegistrationResponse) and response.error_code == ErrorCode.NONE:
            end = max(end, response.broker_epoch + 1)
        if end > self.ghost.committed.end and (asked.has_written or shows_state(response)):
            raise self.broken(
                "C3",
                f"controller {reign.life.node_id} answers {type(asked.event.request).__name__}, which tells of what ends at {end}; "
                f"committed is {self.ghost.committed.end}",
                reign.life,
            )
        if isinstance(response, AllocateProducerIdsResponse) and response.error_code == ErrorCode.NONE:
            self._block(reign, response)
        reign.answering = asked
        for judge in self._judges:
            judge.answered(reign, asked.event.request, answer, now_ms)

    def _block(self, reign: Reign, response: AllocateProducerIdsResponse) -> None:
        start, count = response.producer_id_start, response.producer_id_len
        for known, length in self._blocks.items():
            if start < known + length and known < start + count:
                raise self.broken(
                    "C13", f"the producer ids {start}..{start + count - 1} were given out twice", reign.life
                )
        self._blocks[start] = count

    # operations are whole (C4)

    def committed(self, replayed: Replayed) -> None:
        """Part of an operation is committed: is it visible alone?"""
        end = replayed.batch.last_offset + 1
        if not self._split:
            return
        for start, stop, what, epoch in self._split:
            if start < end < stop and replayed.batch.epoch == epoch and not replayed.in_transaction:
                raise self.broken(
                    "C4", f"the first records of a {what} are visible, those from {end} to {stop} are not"
                )
        self._split = [each for each in self._split if each[1] > end]

    def now_and_then(self, cluster: ClusterView) -> None:
        """What a judge counts."""
        for judge in self._judges:
            judge.now_and_then(cluster)

    # every call ends (RL2)

    def at_end(self, cluster: ClusterView) -> None:
        """Who asked an active controller has its answer, but for what came a moment ago."""
        for node_id, reign in self._reigns.items():
            before_ms = cluster.local_ms(node_id) - 2 * cluster.fetch_timeout_ms
            self._never_answered([each for each in reign.waiting.values() if each.since_ms < before_ms], reign.life)

    def _never_answered(self, left: list[Unanswered], life: Life) -> None:
        if left:
            what = ", ".join(sorted({type(each.event.request).__name__ for each in left}))
            raise self.broken(
                "RL2", f"controller {life.node_id} left {len(left)} requests without an answer: {what}", life
            )

    def _local_ms(self, life: Life) -> int:
        assert self.scene.cluster is not None
        return self.scene.cluster.local_ms(life.node_id)


def shows_state(response: Any) -> bool:
    """Whether an answer tells something of the metadata: one that refuses everything does not, unless it says that something is there."""
    if getattr(response, "error_code", ErrorCode.NONE) != ErrorCode.NONE:
        return False
    parts = [each for name in ("topics", "responses", "results") for each in getattr(response, name, ())]
    codes = [each.error_code for each in parts if hasattr(each, "error_code")]
    return not codes or any(code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) for code in codes)
