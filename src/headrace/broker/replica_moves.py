"""Replicas on their way from one log directory of this broker to another (KIP-113), and what the controller is told of it (KIP-858).

    COPYING -> TOLD -> KNOWN -> ENDING -> done

COPYING   the future log is filled from the log, in pieces; where their histories part it is cut
TOLD      it has caught up: the controller is told that the replica is there; copying goes on
KNOWN     the controller knows it; copying goes on until everything is there once more
ENDING    syncs of the log are held; the future log is made durable, the rest is copied, and it takes the place of the log

The controller knows the new place before it is taken: who fails then is thought to be in the directory that it is on its way to, so a broker whose old directory
fails says that the replica is lost. A move that is given up after the controller was told is told back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import LOST_DIRECTORY, TopicIdPartition
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import DiskFull
from headrace.core.values import value_class
from headrace.log.ports import FileSlice, OutOfRange
from headrace.log.store_ports import MoveStep
from headrace.replication.truncation import common_end

if TYPE_CHECKING:
    from headrace.broker.directory_assignments import DirectoryAssignments
    from headrace.broker.log_syncs import LogSyncs
    from headrace.broker.partitions import HostedPartition, PartitionTable
    from headrace.config.node_config import NodeConfig
    from headrace.core.ids import TopicPartition, Uuid
    from headrace.log.store_ports import LogMovePort, LogStorePort, MoveJob
    from headrace.metadata.image import MetadataImage
    from headrace.replication.quota import ReplicationQuota

PIECE_BYTES: Final = 512 * 1024
"""What one job copies: a few milliseconds of a thread's time."""
TAIL_BYTES: Final = 64 * 1024
"""So much is copied in the event loop, where the future log takes its place: less than a millisecond's work."""
_SOON_MS: Final = 5
_LOOK_MS: Final = 50
"""So often a move that waits for the controller looks whether more is to be copied."""
_REST_MS: Final = 1_000
"""After a disk was full, and after too many tries to end."""
_MOST_TRIES: Final = 50
_LONGEST_NAME: Final = 255 - len(".-future") - 32
"""Of a partition's directory, so that its future one fits a file system (KAFKA-4893)."""


class MoveState(Enum):
    """See above."""

    COPYING = auto()
    TOLD = auto()
    KNOWN = auto()
    ENDING = auto()


class MovingBroker(Protocol):
    """What moves need of their broker."""

    @property
    def node_id(self) -> int:
        """This node's id."""

    @property
    def config(self) -> NodeConfig:
        """The settings in force."""

    @property
    def image(self) -> MetadataImage:
        """The newest published metadata."""

    @property
    def partitions(self) -> PartitionTable:
        """The replicas here."""

    @property
    def logs(self) -> LogStorePort:
        """Their logs."""

    @property
    def log_syncs(self) -> LogSyncs:
        """Syncs that acknowledgements wait for."""

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """Directories that take no new replicas."""

    @property
    def on_warning(self) -> Callable[[str], None]:
        """Takes one line for the operator."""

    @property
    def on_storage_fault(self) -> Callable[[StorageFault], None]:
        """Takes a directory offline."""

    @property
    def deadline_changed(self) -> Callable[[], None]:
        """To be called when something is due sooner than before."""

    def now_ms(self) -> int:
        """A clock that never goes back."""

    def wall_ms(self) -> int:
        """The wall clock."""


@dataclass(slots=True, eq=False)
class _Move:
    log: LogMovePort
    place: TopicIdPartition
    home: Uuid
    """Where it was when it began."""
    state: MoveState = MoveState.COPYING
    is_busy: bool = False
    is_synced: bool = False
    due_ms: int = 0
    tries: int = 0


@value_class
class CopyPiece:
    """Effect: a step of a copy, for a thread; then `finish`, or `failed` when a disk refuses."""

    run: Callable[[], None] = field(repr=False)
    finish: Callable[[], None] = field(repr=False)
    failed: Callable[[StorageFault], None] = field(repr=False)


class ReplicaMoves:
    """The moves under way. Driven by the broker: `alter` by requests, `resume` after a start, `tick`; `begin` has a `CopyPiece` done.

    As many copy at a time as `num.replica.alter.log.dirs.threads` says (without it, one for each log directory), those that waited longest first.
    """

    def __init__(self, broker: MovingBroker, assignments: DirectoryAssignments, quota: ReplicationQuota) -> None:
        self.assignments = assignments
        self.directory_ids = {info.path: info.directory_id for info in broker.logs.directories()}
        """Of the log directories, by path."""
        self.quota = quota
        """What is copied: `replica.alter.log.dirs.io.max.bytes.per.second`."""
        self.begin: Callable[[CopyPiece], None] = _in_place
        self.take_place: Callable[[LogMovePort, int], None] = _take_place
        """Has a future log take its place; the simulation looks at both sides of it."""
        self._broker = broker
        self._moves: dict[TopicPartition, _Move] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._moves)

    def __iter__(self) -> Iterator[tuple[TopicPartition, MoveState]]:
        return iter([(partition, move.state) for partition, move in self._moves.items()])

    # --- what is moved ---

    def alter(self, partition: TopicPartition, path: str) -> ErrorCode:
        """Have the replica in the log directory `path`, as AlterReplicaLogDirs asks; where it is not here yet, it is made there later (KIP-113)."""
        broker = self._broker
        error = self._refusal(partition, path)
        if error is not None:
            return error
        hosted = broker.partitions.get(*partition)
        if hosted is None:
            broker.logs.prefer(partition, path)
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if hosted.log is None or self._is_over:
            return ErrorCode.KAFKA_STORAGE_ERROR
        move = self._moves.get(partition)
        if move is None or move.log.directory != path:
            self.give_up(partition)
            if hosted.log.directory != path:
                return self._begin_move(partition, path)
        return ErrorCode.NONE

    def _refusal(self, partition: TopicPartition, path: str) -> ErrorCode | None:
        """What Kafka 4.3.1 answers before it looks for the partition, in its order."""
        broker = self._broker
        info = next((each for each in broker.logs.directories() if each.path == path), None)
        if len(str(partition)) > _LONGEST_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if info is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not info.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT if path in broker.cordoned_log_dirs else None

    def _begin_move(self, partition: TopicPartition, path: str) -> ErrorCode:
        broker = self._broker
        try:
            self._add(broker.logs.begin_move(partition, path))
        except DiskFull as fault:
            broker.on_warning(f"{partition} cannot be moved to {path}: {fault}")
            return ErrorCode.KAFKA_STORAGE_ERROR
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def resume(self) -> None:
        """Go on with the moves of the process before."""
        for move in self._broker.logs.moves().values():
            self._add(move)

    def give_up(self, partition: TopicPartition) -> None:
        """The replica stays where it is; a controller that was told otherwise is told so."""
        move = self._moves.pop(partition, None)
        if move is None:
            return
        self._broker.log_syncs.release(move.log.source)
        if move.state is not MoveState.COPYING:
            self.assignments.assign(move.place, move.log.home_id)
        try:
            self._broker.logs.give_up_move(partition)
        except StorageFault as fault:
            self._broker.on_storage_fault(fault)

    def removed(self, partition: TopicPartition) -> None:
        """The replica is not this broker's any more; its logs go by themselves."""
        move = self._moves.pop(partition, None)
        if move is not None:
            self._broker.log_syncs.release(move.log.source)

    def lost(self, hosted: HostedPartition, failed: Uuid | None) -> None:
        """Its log was in a directory that failed; a replica that the controller thinks to be elsewhere it must be told of by itself (KIP-858)."""
        place = TopicIdPartition(hosted.topic_id, hosted.partition)
        known = _known_place(self._broker.image, place, self._broker.node_id)
        if known is not None and (known != failed or self.assignments.word_of(place) is not None):
            self.assignments.assign(place, LOST_DIRECTORY)

    def directory_failed(self) -> None:
        """Some of the logs are closed by now: those replicas that lost the future one stay where they are, and the controller is told."""
        for partition, move in [(each, move) for each, move in self._moves.items() if move.log.is_over]:
            del self._moves[partition]
            self._broker.log_syncs.release(move.log.source)
            if move.state is not MoveState.COPYING and self._broker.logs.get(partition) is not None:
                self.assignments.assign(move.place, move.log.home_id)

    def goes_to(self, partition: TopicPartition) -> Uuid | None:
        """The directory that the controller was told, while the replica is still on its way there."""
        move = self._moves.get(partition)
        return None if move is None or move.state is MoveState.COPYING else move.log.directory_id

    def end(self) -> None:
        """The logs are about to be closed: what was copied stays, the next process goes on with it."""
        self._is_over = True
        for move in self._moves.values():
            self._broker.log_syncs.release(move.log.source)
        self._moves.clear()

    def _add(self, log: LogMovePort) -> None:
        move = _Move(log, TopicIdPartition(log.source.topic_id, log.partition.partition), log.home_id)
        self._moves[log.partition] = move
        self._broker.deadline_changed()

    # --- time ---

    def tick(self, now_ms: int) -> None:
        """Begin what is due, unless the quota is used up."""
        if not self._moves or self.quota.is_exceeded(now_ms):
            return
        free = self._threads() - sum(move.is_busy for move in self._moves.values())
        due = [move for move in self._moves.values() if not move.is_busy and move.due_ms <= now_ms]
        for move in sorted(due, key=lambda each: each.due_ms)[: max(free, 0)]:
            self._advance(move, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; while the threads are all busy, when one of them is done."""
        waiting = [move.due_ms for move in self._moves.values() if not move.is_busy]
        if not waiting or len(self._moves) - len(waiting) >= self._threads():
            return None
        now_ms = self._broker.now_ms()
        if self.quota.is_exceeded(now_ms):
            return max(min(waiting), self.quota.acceptable_at_ms(now_ms, latest_ms=now_ms + _REST_MS))
        return min(waiting)

    def _threads(self) -> int:
        config = self._broker.config
        return max(config.num_replica_alter_log_dirs_threads or len(config.log_dirs), 1)

    # --- one move ---

    def _advance(self, move: _Move, now_ms: int) -> None:
        """The next step: cut, copy, tell, or end."""
        source, future = move.log.source, move.log.future
        if move.log.is_over:
            del self._moves[move.log.partition]
            return
        if source.is_being_cut:
            move.due_ms = now_ms + _LOOK_MS
            return
        step = _next_step(move)
        if step is not None:
            move.tries += 1
            if move.state is MoveState.ENDING and move.tries > _MOST_TRIES:
                self._pause(move, now_ms)
                return
            if move.state is not MoveState.ENDING or step.data is None or step.data.size > TAIL_BYTES:
                self._begin(move, step)
                return
            self._copy_tail(move, step)
            return
        assert future.log_end_offset == source.log_end_offset, "there is nothing to copy"
        move.due_ms = now_ms + _LOOK_MS
        match move.state:
            case MoveState.COPYING:
                self._tell(move)
            case MoveState.TOLD:
                pass
            case MoveState.KNOWN:
                self._broker.log_syncs.hold(source)
                move.state, move.tries, move.is_synced, move.due_ms = MoveState.ENDING, 0, False, now_ms
            case MoveState.ENDING:
                self._end(move, now_ms)

    def _tell(self, move: _Move) -> None:
        """It has caught up: the controller is told, also of what the metadata here say already: a word of a move that was given up may be on its way."""
        move.state = MoveState.TOLD
        self.assignments.assign(move.place, move.log.directory_id, accepted=lambda: self._known(move))

    def _known(self, move: _Move) -> None:
        if self._moves.get(move.log.partition) is move and move.state is MoveState.TOLD:
            move.state, move.due_ms = MoveState.KNOWN, self._broker.now_ms()
            self._broker.deadline_changed()

    def _begin(self, move: _Move, step: MoveStep) -> None:
        broker = self._broker
        move.is_busy = True
        job = move.log.step(step, broker.wall_ms())

        def finish() -> None:
            move.is_busy = False
            self._copied(move, job)

        def failed(fault: StorageFault) -> None:
            move.is_busy = False
            broker.on_storage_fault(fault)

        self.begin(CopyPiece(run=job.run, finish=finish, failed=failed))

    def _copied(self, move: _Move, job: MoveJob) -> None:
        broker = self._broker
        now_ms = broker.now_ms()
        self.quota.record(job.copied, now_ms)
        move.due_ms = now_ms
        if self._moves.get(move.log.partition) is move and job.refusal:
            self._pause(move, now_ms)
            broker.on_warning(f"the move of {move.log.partition} to {move.log.directory} waits for room: {job.refusal}")
        broker.deadline_changed()
        self.tick(now_ms)

    def _pause(self, move: _Move, now_ms: int) -> None:
        """Not at once again; syncs of the log go on meanwhile."""
        move.due_ms = now_ms + _REST_MS
        if move.state is MoveState.ENDING:
            move.state = MoveState.KNOWN
            self._broker.log_syncs.release(move.log.source)

    def _copy_tail(self, move: _Move, step: MoveStep) -> None:
        """What came in the last moment; then end, before more comes."""
        broker = self._broker
        job = move.log.step(step, broker.wall_ms())
        try:
            job.run()
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return
        now_ms = broker.now_ms()
        if job.refusal:
            self._pause(move, now_ms)
        elif _next_step(move) is None:
            self._end(move, now_ms)

    def _end(self, move: _Move, now_ms: int) -> None:
        """All is there: the future log takes its place when it is durable as far as the log is, and no sync of that runs; else it is made so first."""
        broker, log = self._broker, move.log
        move.tries += 1
        if move.tries > _MOST_TRIES:
            self._pause(move, now_ms)
        elif broker.log_syncs.is_syncing(log.source):
            move.due_ms = now_ms + _SOON_MS
        elif not move.is_synced or log.future.durable_end_offset < log.source.durable_end_offset:
            move.is_synced = True
            self._begin(move, MoveStep(is_last=True))
        else:
            self._take_place(move)

    def _take_place(self, move: _Move) -> None:
        broker, log = self._broker, move.log
        del self._moves[log.partition]
        try:
            self.take_place(log, broker.wall_ms())
        except StorageFault as fault:
            broker.on_storage_fault(fault)
        broker.log_syncs.release(log.source)
        self.begin(CopyPiece(run=log.end(), finish=_nothing, failed=broker.on_storage_fault))


def _next_step(move: _Move) -> MoveStep | None:
    """What the future log lacks: it is cut where its history and the log's part, begins anew below where the log begins, or takes what follows (KIP-101)."""
    source, future = move.log.source, move.log.future
    end, epoch = future.log_end_offset, future.latest_epoch
    if end > future.log_start_offset and epoch is not None:
        told = source.end_offset_for_epoch(epoch) or OffsetAndEpoch(source.log_start_offset, -1)
        common = common_end(future, told)
        if common < end:
            return MoveStep(cut_to=max(common, 0))
    if end < source.log_start_offset or end > source.log_end_offset:
        return MoveStep(starts_over_at=source.log_start_offset)
    if end == source.log_end_offset:
        return None
    piece = source.read_slice(end, PIECE_BYTES, upper_offset=source.log_end_offset, min_one_batch=True)
    assert not isinstance(piece, OutOfRange), "the log has what follows"
    return MoveStep(data=piece) if piece.size else _leap(piece, source.log_end_offset)


def _leap(_nothing_left: FileSlice, end: int) -> MoveStep:
    """Compaction left nothing up to the log's end."""
    return MoveStep(leap_to=end)


def _known_place(image: MetadataImage, place: TopicIdPartition, node_id: int) -> Uuid | None:
    partition = image.topics.partition_by_id(place.topic_id, place.partition)
    return None if partition is None else partition.directory_of(node_id)


def _take_place(log: LogMovePort, now_ms: int) -> None:
    log.take_place(now_ms)


def _nothing() -> None:
    """Nobody waits for it."""


def _in_place(piece: CopyPiece) -> None:
    """Without a driver there is no other thread."""
    try:
        piece.run()
    except StorageFault as fault:
        piece.failed(fault)
    else:
        piece.finish()
