"""What a controller has only while it is active, and how it writes.

A term decides onto its own image at once (`replay`) and orders the same records to be appended (`write`). All of it is dropped when
leadership ends; what was decided and not committed is taken back out of the indexes (B-C23, S2-32).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.controller.causes import marks_of, room_for, with_causes
from headrace.controller.decision import Situation, batches
from headrace.controller.eligibility import NOBODY
from headrace.controller.events import AppendRecords
from headrace.controller.partition_change import is_unclean_leader
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.loader import Decided
from headrace.metadata.replay import replay_all
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.frame import encode_record
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.config.node_config import NodeConfig
    from headrace.controller.decision import Moves
    from headrace.controller.derived import Derived, Places
    from headrace.controller.events import LeadershipGained, RequestArrived, RequestCause
    from headrace.controller.heartbeats import Heartbeats
    from headrace.controller.statistics import ControllerStatistics
    from headrace.core.ids import TopicIdPartition, Uuid
    from headrace.core.ports import Rng
    from headrace.metadata.cause import Cause
    from headrace.metadata.image import MetadataImage
    from headrace.metadata.snapshot import VersionedRecord
    from headrace.wire.schema import Message

_BATCH_OVERHEAD: Final = 100
UNCLEAN_KEY: Final = "unclean.leader.election.enable"


class Asked(NamedTuple):
    """A request that is answered later."""

    token: int
    request: Any
    api_version: int
    name: str
    received_ms: int


class Waiting(NamedTuple):
    """An answer that leaves when everything below `after` is committed."""

    after: int
    asked: Asked
    response: Message


class Uncommitted(NamedTuple):
    """What was decided and is not visible yet, and the places that it touched."""

    decided: Decided
    places: Places


class Postponed(NamedTuple):
    """A decision on very many things whose records are encoded, and replayed and appended in a step of their own."""

    records: Sequence[VersionedRecord]
    parts: Sequence[tuple[bytes, ...]]
    asked: Asked
    response: Message
    since_ms: int


class Surroundings(NamedTuple):
    """What a term needs from the machine and does not change."""

    config: NodeConfig
    cluster_id: str
    rng: Rng
    statistics: ControllerStatistics


class OngoingMoves:
    """Partitions that are looked at slice by slice, and who is told when it is done (nobody, for what time brought)."""

    def __init__(
        self,
        moves: tuple[Moves, ...],
        cause: RequestCause,
        asked: Asked | None = None,
        response: Message | None = None,
        *,
        why: Cause | None = None,
    ) -> None:
        """`why` is the cause of records of moves that have none of their own."""
        self.queue = deque(moves)
        self.cause = cause
        self.why = why
        self.asked = asked
        self.response = response
        self.places: Iterator[TopicIdPartition] | None = None

    @property
    def leaving(self) -> int:
        """The broker that is moved away; -1 when it is about something else."""
        return self.queue[0].remove if self.queue else NOBODY

    @property
    def is_a_look(self) -> bool:
        """Nothing is moved by what comes next of it."""
        return bool(self.queue) and self.queue[0].is_a_look


class ActiveTerm:
    """The state of one term as active controller."""

    def __init__(
        self,
        event: LeadershipGained,
        around: Surroundings,
        derived: Derived,
        *,
        heartbeats: Heartbeats,
        kraft_version: int,
    ) -> None:
        self.epoch = event.epoch
        self.derived = derived
        self.heartbeats = heartbeats
        self.kraft_version = kraft_version
        self.next_offset = event.next_offset
        self.committed = event.next_offset
        self.waiting: deque[Waiting] = deque()
        self.uncommitted: deque[Uncommitted] = deque()
        self.appended: deque[tuple[int, int]] = deque()
        """(end offset, when it was ordered in ms) of appends that are not committed."""
        self.moves: deque[OngoingMoves] = deque()
        self.postponed: Postponed | None = None
        """Taken up (`resume`) before anything else is decided."""
        self.raft_asked: dict[int, RequestArrived] = {}
        """UpdateFeatures requests whose kraft.version raft was asked for."""
        self.last_event_ms = event.now_ms
        self.no_op_at_ms: int | None = None
        self.balance_at_ms: int | None = None
        self.unclean_at_ms: int | None = None
        self.continue_at_ms: int | None = None
        self.started = False
        self._around = around

    @property
    def image(self) -> MetadataImage:
        """Everything decided, committed or not (C3: for decisions only)."""
        return self.derived.image

    def leaving(self) -> tuple[int, ...]:
        """Brokers whose leaderships are just being moved away."""
        return tuple(each.remove for each in self._leavers())

    def losing(self) -> dict[int, set[Uuid]]:
        """Those of them that leave only what is in directories that failed, and these."""
        found: dict[int, set[Uuid]] = {}
        for each in self._leavers():
            found.setdefault(each.remove, set()).update(each.lost)
        for each in self._leavers():
            if not each.lost:
                found.pop(each.remove, None)
        return found

    def _leavers(self) -> Iterator[Moves]:
        begun = (work.queue for work in self.moves if not work.is_a_look)
        return (each for queue in begun for each in queue if each.remove != NOBODY)

    def retiring(self) -> tuple[int, ...]:
        """Those that go for good, with their replicas, or are looked at because they are to."""
        return tuple(each.remove for work in self.moves for each in work.queue if each.is_for_good)

    def next_deadline_ms(self) -> int | None:
        """When time must be told next."""
        if self.postponed is not None:
            return self.postponed.since_ms
        if self.moves:
            return self.continue_at_ms
        due = self.heartbeats.next_expiry_ms()
        for at_ms in (self.no_op_at_ms, self.balance_at_ms, self.unclean_at_ms):
            if at_ms is not None and (due is None or at_ms < due):
                due = at_ms
        return due

    def situation(self, cause: RequestCause, now_ms: int) -> Situation:
        """What a decision may look at now."""
        around = self._around
        return Situation(
            image=self.derived.image,
            index=self.derived.index,
            names=self.derived.names,
            config=around.config,
            cluster_id=around.cluster_id,
            kraft_version=self.kraft_version,
            rng=around.rng,
            next_offset=self.next_offset,
            now_ms=now_ms,
            cause=cause,
            leaving=self.leaving() if self.moves else (),
            losing=self.losing() if self.moves else {},
            retiring=self.retiring() if self.moves else (),
        )

    # Writing

    def append(self, records: Sequence[VersionedRecord], now_ms: int, *, is_atomic: bool = True) -> list[AppendRecords]:
        """Records that are written together or not at all (C4); those that are not `is_atomic`, in as few batches as the limits allow.

        Raises ReplayError and EncodeError (a bug of ours), PeerError(POLICY_VIOLATION): too much for one batch (B-C22).
        """
        return self._take(records, self._encoded(records, is_atomic=is_atomic), now_ms) if records else []

    def postpone(
        self,
        records: Sequence[VersionedRecord],
        asked: Asked,
        response: Message,
        now_ms: int,
        *,
        is_atomic: bool = True,
    ) -> None:
        """Encode the records of a decision; `resume` does the rest. Raises as `append`, but no ReplayError."""
        assert self.postponed is None, "a decision was made before the last one was taken up"
        self.postponed = Postponed(records, self._encoded(records, is_atomic=is_atomic), asked, response, now_ms)

    def resume(self, now_ms: int) -> list[AppendRecords]:
        """Replay and append what was postponed. Raises ReplayError (a bug of ours)."""
        postponed, self.postponed = self.postponed, None
        assert postponed is not None, "something was postponed"
        return self._take(postponed.records, postponed.parts, now_ms)

    def _encoded(self, records: Sequence[VersionedRecord], *, is_atomic: bool) -> list[tuple[bytes, ...]]:
        parts = self._batches(records)
        if is_atomic and len(parts) > 1:
            raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        return parts

    def _take(
        self, records: Sequence[VersionedRecord], parts: Sequence[tuple[bytes, ...]], now_ms: int
    ) -> list[AppendRecords]:
        self.replay(records, [])
        if any(isinstance(each.record, ConfigRecord) and each.record.name == UNCLEAN_KEY for each in records):
            self.unclean_at_ms = now_ms
        return self._offer(parts, now_ms)

    def write(self, records: Sequence[VersionedRecord], now_ms: int) -> list[AppendRecords]:
        """Records that were replayed, in as few batches as the limits allow. Raises as `append`."""
        return self._offer(self._batches(records), now_ms) if records else []

    def replay(self, records: Sequence[VersionedRecord], into: list[VersionedRecord]) -> None:
        """Decide the records: the image and what is derived from it go on, and their offsets are taken. Raises ReplayError."""
        if not records:
            return
        before, messages, base_offset = self.image, [each.record for each in records], self.next_offset
        after = replay_all(before, messages)
        places = self.derived.replayed(records, after)
        self.next_offset += len(records)
        decided = Decided(base_offset, self.next_offset, self.epoch, messages, before, after)
        self.uncommitted.append(Uncommitted(decided, places))
        self._around.statistics.unclean_elections += sum(_is_unclean(each, before, after) for each in records)
        into += records

    def note_write(self, now_ms: int) -> None:
        """A NoOp is due when nothing was written for `metadata.max.idle.interval.ms` (0 = never) (B-C16, S4-56)."""
        interval = self._around.config.metadata_max_idle_interval_ms
        self.no_op_at_ms = now_ms + interval if interval > 0 else None

    def _batches(self, records: Sequence[VersionedRecord]) -> list[tuple[bytes, ...]]:
        """Raises EncodeError; PeerError(POLICY_VIOLATION): one record alone is too large (B-C22)."""
        limit = self._around.config.internal_metadata_max_batch_size_in_bytes - _BATCH_OVERHEAD
        marks = marks_of(records) if self._around.config.headrace_record_causes else ()
        room = room_for(records, marks)
        encoded = [encode_record(each.record, each.version) for each in records]
        parts = list(batches(encoded, max_bytes=limit - room))
        if any(len(part) == 1 and len(part[0]) > limit for part in parts):
            raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        return with_causes(parts, records, marks, limit=limit) if marks else parts

    def _offer(self, parts: Sequence[tuple[bytes, ...]], now_ms: int) -> list[AppendRecords]:
        """The order to append what was replayed last."""
        effects: list[AppendRecords] = []
        offset = self.next_offset - sum(map(len, parts))
        for part in parts:
            effects.append(AppendRecords(records=part, base_offset=offset, epoch=self.epoch))
            offset += len(part)
        self.appended.append((offset, now_ms))
        self.note_write(now_ms)
        return effects

    # What is committed

    def committed_to(self, upto: int, now_ms: int) -> None:
        """The high watermark moved."""
        self.committed = max(self.committed, upto)
        while self.appended and self.appended[0][0] <= upto:
            _, since_ms = self.appended.popleft()
            self._around.statistics.committed.add(max(0, now_ms - since_ms))

    def visible(self, image: MetadataImage) -> None:
        """The committed image went on: what it shows needs no undoing any more.

        When it shows everything that was decided, it takes the place of our own copy: the same content once in memory.
        """
        end = image.provenance.last_contained_offset + 1
        while self.uncommitted and self.uncommitted[0].decided.end_offset <= end:
            self.uncommitted.popleft()
        if end == self.next_offset and not self.uncommitted:
            self.derived.image = image

    def undo(self, committed: MetadataImage) -> None:
        """Back to what is committed. Cost: what was not (B-C23)."""
        places: Places = {}
        for each in self.uncommitted:
            for topic_id, partitions in each.places.items():
                places.setdefault(topic_id, {}).update(partitions)
        self.uncommitted.clear()
        self.derived.move(places, committed)


def _is_unclean(each: VersionedRecord, before: MetadataImage, after: MetadataImage) -> bool:
    """Unclean elections are counted, also those of a partition that has not recovered from the last one (C11)."""
    record = each.record
    if not isinstance(record, PartitionChangeRecord) or record.leader < 0:
        return False
    old = before.topics.partition_by_id(record.topic_id, record.partition_id)
    new = after.topics.partition_by_id(record.topic_id, record.partition_id)
    return old is not None and new is not None and is_unclean_leader(record.leader, old, new)
