"""The history of a cluster: what each record of the metadata log changed, and why.

`Historian` is fed the log in its order, from its first record or from a snapshot on, and tells one `Happened` for each record that changed
something. It holds one image, the present one, and nothing of what is past. S3-08; C2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import DecodeError
from headrace.core.values import changed, value_class
from headrace.metadata.cause import decode_caused
from headrace.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, MetadataProvenance
from headrace.metadata.replay import ReplayError, replay
from headrace.records.control import ControlType
from headrace.wire.codec import decode
from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.core.ids import Uuid
    from headrace.metadata.cause import Cause
    from headrace.metadata.image import PartitionRegistration
    from headrace.metadata.loader import CommittedBatch
    from headrace.wire.schema import Message

_PARTITION, _PARTITION_CHANGE, _NO_OP = 3, 5, 20
_BEGIN, _END, _ABORT = 23, 24, 25
QUORUM_LEADER: Final = "quorum-leader"


@value_class
class Happened:
    """One record of the log and what it changed. `before` and `after` are the images around it, `record` is None for the quorum's own.

    `topic`, `partition` and `broker` are what it is about: empty or -1 for none. `is_new_process` is of registrations: whether another process
    registered than the last time, by its incarnation id; None where that is not known.
    """

    offset: int
    time_ms: int
    epoch: int
    what: str
    topic: str = ""
    partition: int = -1
    broker: int = -1
    record: Message | None = None
    before: MetadataImage = EMPTY_IMAGE
    after: MetadataImage = EMPTY_IMAGE
    cause: Cause | None = None
    is_new_process: bool | None = None

    def partitions(self) -> tuple[PartitionRegistration | None, PartitionRegistration | None]:
        """The partition before and after."""
        return self.before.topics.partition(self.topic, self.partition), self.after.topics.partition(
            self.topic, self.partition
        )

    def concerns(self, broker_id: int) -> bool:
        """Whether it is about this broker, comes from it, or moves a replica or a leadership to or from it."""
        if broker_id == self.broker or (self.cause is not None and broker_id == self.cause.broker_id):
            return True
        was, now = self.partitions() if self.partition >= 0 else (None, None)
        old = (-1, set[int](), set[int]()) if was is None else (was.leader, set(was.isr), set(was.replicas))
        new = (-1, set[int](), set[int]()) if now is None else (now.leader, set(now.isr), set(now.replicas))
        has_moved = old[0] != new[0] and broker_id in (old[0], new[0])
        return has_moved or broker_id in (old[1] ^ new[1]) | (old[2] ^ new[2])


class HistoryFault(Exception):
    """The log holds what cannot be understood."""


class Historian:
    """Follows the log. `image` is the state behind what was told last."""

    def __init__(self) -> None:
        self.image = EMPTY_IMAGE
        self._at_begin: MetadataImage | None = None
        """The image where an open metadata transaction began."""
        self._left: dict[int, Uuid] = {}
        """The incarnation ids of brokers that were unregistered: one that still runs registers again."""
        self._knows_all = True

    def load_snapshot(self, image: MetadataImage) -> None:
        """Go on from a snapshot's content."""
        self.image = image
        self._at_begin = None
        self._left = {}
        self._knows_all = False

    def tell(self, batch: CommittedBatch) -> Iterator[Happened]:
        """What the records of a batch changed, in their order. Raises HistoryFault."""
        cause: Cause | None = None
        for number, data in enumerate(batch.records):
            offset = batch.base_offset + number
            try:
                record, own = decode_caused(data)
                cause = own or cause
                found = self._take(record, offset, batch, cause)
            except (DecodeError, ReplayError) as error:
                raise HistoryFault(f"the record at offset {offset}: {error}") from None
            if found is not None:
                yield found
        self._go_to(batch)

    def tell_control(self, batch: CommittedBatch, keys_and_values: Sequence[tuple[bytes, bytes]]) -> Iterator[Happened]:
        """What a batch of the quorum's own says: who leads it from here on."""
        for number, (key, value) in enumerate(keys_and_values):
            if len(key) >= 4 and int.from_bytes(key[2:4], "big") == ControlType.LEADER_CHANGE:
                message = decode(LeaderChangeMessage, value, int.from_bytes(value[:2], "big"))
                yield Happened(
                    offset=batch.base_offset + number,
                    time_ms=batch.timestamp,
                    epoch=batch.epoch,
                    what=QUORUM_LEADER,
                    broker=message.leader_id,
                    before=self.image,
                    after=self.image,
                )
        self._go_to(batch)

    def _go_to(self, batch: CommittedBatch) -> None:
        where = MetadataProvenance(
            last_contained_offset=batch.last_offset,
            last_contained_epoch=batch.epoch,
            last_contained_log_time_ms=batch.timestamp,
        )
        self.image = changed(self.image, provenance=where)

    def _take(self, record: Message, offset: int, batch: CommittedBatch, cause: Cause | None) -> Happened | None:
        kind = record.SCHEMA.api_key
        if kind == _BEGIN:
            self._at_begin = self.image
        elif kind == _ABORT and self._at_begin is not None:
            self.image, self._at_begin = self._at_begin, None
        elif kind == _END:
            self._at_begin = None
        if kind in (_NO_OP, _BEGIN, _END):
            return None
        before = self.image
        if kind != _ABORT:
            self.image = replay(before, record)
        what, about = _about(record, before, self.image)
        if what == "broker-directories" and _same_directories(before, self.image, about["broker"]):
            return None
        is_new_process = self._registers_anew(what, record, before)
        return Happened(
            offset=offset,
            time_ms=batch.timestamp,
            epoch=batch.epoch,
            what=what,
            record=record,
            before=before,
            after=self.image,
            cause=cause,
            is_new_process=is_new_process,
            **about,
        )

    def _registers_anew(self, what: str, record: Any, before: MetadataImage) -> bool | None:
        """Whether the process that registers is another one than the last that did under its id; None: it is not known, or nobody registers."""
        if what == "broker-unregistered":
            self._left[record.broker_id] = before.cluster.brokers[record.broker_id].incarnation_id
        if what == "broker-registered":
            former = before.cluster.brokers.get(record.broker_id)
            last = self._left.get(record.broker_id) if former is None else former.incarnation_id
            return (True if self._knows_all else None) if last is None else last != record.incarnation_id
        if what == "controller-registered":
            known = before.cluster.controllers.get(record.controller_id)
            return None if known is None else known.incarnation_id != record.incarnation_id
        return None


def _same_directories(before: MetadataImage, after: MetadataImage, broker_id: int) -> bool:
    """Whether a broker has the directories that it had, and the same take no new replicas: it was told, and is what was taken for granted."""
    was, now = before.cluster.brokers[broker_id], after.cluster.brokers[broker_id]
    return (set(was.log_dirs), was.cordoned_log_dirs or ()) == (set(now.log_dirs), now.cordoned_log_dirs or ())


def _about(record: Any, before: MetadataImage, after: MetadataImage) -> tuple[str, dict[str, Any]]:
    """What kind of change a record is, and of what."""
    kind = record.SCHEMA.api_key
    if kind in (_PARTITION, _PARTITION_CHANGE):
        topic = after.topics.by_id[record.topic_id]
        about = {"topic": topic.name, "partition": record.partition_id}
        was = before.topics.partition_by_id(record.topic_id, record.partition_id)
        return _of_partition(was, topic.partitions[record.partition_id]), about
    name = _NAMES.get(kind, type(record).__name__)
    match name:
        case "topic-created":
            return name, {"topic": record.name}
        case "topic-deleted":
            return name, {"topic": before.topics.by_id[record.topic_id].name}
        case "config":
            about = {"topic": record.resource_name} if record.resource_type == 2 else {}
            if record.resource_type == 4 and record.resource_name.isdigit():
                about = {"broker": int(record.resource_name)}
            return name, about
        case "broker-changed":
            return _of_broker(record), {"broker": record.broker_id}
        case "controller-registered":
            return name, {"broker": record.controller_id}
    return name, {"broker": getattr(record, "broker_id", -1)}


def _of_partition(before: PartitionRegistration | None, after: PartitionRegistration) -> str:
    if before is None:
        return "partition-created"
    if before.leader != after.leader:
        return "leader-lost" if after.leader == NO_LEADER else "leader"
    if before.replicas != after.replicas or before.adding_replicas != after.adding_replicas:
        return "replicas"
    return "isr" if set(before.isr) != set(after.isr) else "partition"


def _of_broker(record: Any) -> str:
    if record.fenced:
        return "broker-fenced" if record.fenced > 0 else "broker-unfenced"
    return "broker-stopping" if record.in_controlled_shutdown else "broker-directories"


_NAMES: Final[dict[int, str]] = {
    0: "broker-registered",
    1: "broker-unregistered",
    2: "topic-created",
    4: "config",
    7: "broker-fenced",
    8: "broker-unfenced",
    9: "topic-deleted",
    12: "feature",
    15: "producer-ids",
    17: "broker-changed",
    27: "controller-registered",
    _ABORT: "transaction-aborted",
}
