"""Records with several copies against what clients were told: what was acknowledged or shown stays wherever it must.  PR1 PR2 PR4 E2 P1 P2 P3 P4 P16 P17 PL1 PL2

A promise belongs to a partition. What clients were told with acks=all, or were shown, is held by its leader and by every member of the ISR and the ELR, until
`min.insync.replicas` copies of it lost what was not synced, or all of these members did (one alone may be in sync, without KIP-966; and where nobody is
left in ISR and ELR, who led last may lead again). A replica that lost something counts as wounded until it has registered anew, left ISR and ELR and come back.
What any replica has below its high watermark is committed in truth: every other one has the same there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.log.ports import FileSlice
from headrace.sim.checkers.eligible_replicas import needed_in_sync
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.promises import Place, Promise, Wound, hosted_at, hosted_on, registered_at, topic_id_at
from headrace.sim.checkers.records import asked_partition, batches_of, records_in, values_of
from headrace.sim.group_clients import OFFSETS_TOPIC
from headrace.sim.observation import CallEnded, CallStarted, Crash, ImagePublished, StepKind
from headrace.sim.record_clients import is_copied
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.records.record import Record
    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView

_READ_BYTES: Final = 1 << 20
_ALL: Final = -1
_FORGOTTEN: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)


class _Begun(NamedTuple):
    """A call that goes on, and what was true when it began."""

    promise: Promise
    losses: int
    end: int
    leader: tuple[int, int]
    is_write: bool


class CopiedRecords(Group):
    """What producers were told and consumers were shown of partitions with several copies, and what lies in these."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._promises = scene.promises
        self._begun: dict[int, _Begun] = {}
        self._sent: dict[bytes, set[Uuid]] = {}
        """Value -> the topics that it was sent to; `ZERO_UUID` where by name, which may reach a later one of that name."""
        self._cuts: dict[tuple[int, int], int] = {}
        self._started: dict[int, int] = {}
        """Node -> the step in which its process began."""
        self._acknowledged: dict[bytes, int] = {}
        """First value of a batch -> the step in which it was acknowledged last."""

    def after_changes(self) -> Mapping[type, Handler]:
        """New metadata, by which a replica leads, or follows and perhaps cuts its log."""
        return {ImagePublished: self._published}

    def _published(self, life: Life, change: ImagePublished) -> None:
        if self.scene.cluster is not None:
            for place, promise in self._promises.items():
                self._in_sync(self.scene.cluster, place, promise)

    # --- calls ---

    def called(self, event: object) -> None:
        """A produce or a fetch begins or has ended."""
        if isinstance(event, CallStarted) and isinstance(event.request, ProduceRequest | FetchRequest):
            place = asked_partition(event.request, self.ghost)
            if not is_copied(place[0]):
                return
            if isinstance(event.request, ProduceRequest):
                written = event.request.topic_data[0]
                for value in values_of(written.partition_data[0].records):
                    self._sent.setdefault(value, set()).add(written.topic_id)
            promise = self._promises.setdefault(place, Promise(topic_id_at(self._image(), place)))
            if promise.is_void or not is_about(event.request, self.scene, place):
                return
            is_write = isinstance(event.request, ProduceRequest)
            self._begun[event.call_id] = _Begun(promise, promise.losses, promise.end, self._leader(place), is_write)
        elif isinstance(event, CallEnded) and event.call_id in self._begun:
            begun = self._begun.pop(event.call_id)
            if begun.promise.losses != begun.losses:
                return
            if isinstance(event.response, ProduceResponse) and isinstance(event.request, ProduceRequest):
                self._produced(begun, event.request, event.response)
            elif isinstance(event.response, FetchResponse) and isinstance(event.request, FetchRequest):
                self._fetched(begun, event.request, event.response)

    def _leader(self, place: Place) -> tuple[int, int]:
        """Who leads the partition by what is committed, and in which epoch."""
        partition = registered_at(self._image(), place)
        return (-1, -1) if partition is None else (partition.leader, partition.leader_epoch)

    def _image(self) -> MetadataImage:
        return self.ghost.committed.replayed[-1].image

    def _produced(self, begun: _Begun, request: ProduceRequest, response: ProduceResponse) -> None:
        told = response.responses[0].partition_responses[0]
        if told.error_code in _FORGOTTEN:
            self._known_again(begun.promise, request)
        if told.error_code != ErrorCode.NONE:
            return
        values = values_of(request.topic_data[0].partition_data[0].records)
        self._acknowledged[values[0]] = self.scene.step.number
        if request.acks != _ALL:
            return
        for offset, value in enumerate(values, told.base_offset):
            self._hold(begun.promise, offset, value)
        self.hit("copied records acknowledged", len(values))
        assert self.scene.cluster is not None, "a call belongs to a cluster"
        self._in_sync(self.scene.cluster, asked_partition(request, self.ghost), begun.promise)

    def _known_again(self, promise: Promise, request: ProduceRequest) -> None:
        """What a producer sends again is one of its last batches: where it is stored, it is answered with its offset (E2).

        A process that began later, with a producer snapshot, knows the very last one only, as Kafka's does.
        """
        values = values_of(request.topic_data[0].partition_data[0].records)
        if values and all(value in promise.offsets for value in values):
            is_last = promise.offsets[values[-1]] + 1 == promise.end
            started = self._started.get(self.scene.step.node.node_id, 0)
            if not is_last and started > self._acknowledged.get(values[0], 0):
                self.hit("batch before the last forgotten by a restart")
                return
            if self._has_forgotten():
                return
            raise self.broken(
                "E2", f"{values[0]!r} lies at {promise.offsets[values[0]]}, and is not known again", self._life()
            )

    def _hold(self, promise: Promise, offset: int, value: bytes) -> None:
        """A record is at an offset. No other one is, and it is at no other one."""
        life = self._life()
        if promise.held.setdefault(offset, value) != value:
            raise self.broken("PR1", f"offset {offset} holds {promise.held[offset]!r}, and {value!r}", life)
        if promise.offsets.setdefault(value, offset) != offset and not self._has_forgotten():
            raise self.broken("PR4", f"{value!r} is at offset {promise.offsets[value]}, and at {offset}", life)
        promise.end = max(promise.end, offset + 1)

    def _has_forgotten(self) -> bool:
        """Whether some broker, which may have led, expired what it knew of producers, since its clock ran ahead."""
        cluster = self.scene.cluster
        if cluster is None or not self.scene.may_have_forgotten_producers(cluster.nodes):
            return False
        self.hit("copied record stored again where a clock ran ahead")
        return True

    def _fetched(self, begun: _Begun, request: FetchRequest, response: FetchResponse) -> None:
        if response.error_code or not response.responses:
            return
        told = response.responses[0].partitions[0]
        asked = request.topics[0].partitions[0]
        node = self.scene.step.node
        if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and asked.fetch_offset < begun.end:
            leads_still = begun.leader[0] == node.node_id and begun.leader == self._leader(
                asked_partition(request, self.ghost)
            )
            if leads_still:
                raise self.broken(
                    "PR1", f"the leader has nothing at offset {asked.fetch_offset}, below {begun.end}", self._life()
                )
        if told.error_code == ErrorCode.NONE:
            self._read(begun.promise, asked.fetch_offset, told.high_watermark, told.records or b"")

    def _read(self, promise: Promise, fetched: int, high_watermark: int, records: bytes | memoryview) -> None:
        life, expected = self._life(), -1
        for base_offset, next_offset, batch in batches_of(records):
            if expected < 0 and not base_offset <= fetched < next_offset:
                raise self.broken("P17", f"asked for offset {fetched}, got a batch at {base_offset}", life)
            if expected >= 0 and base_offset != expected:
                raise self.broken("P16", f"a batch at {base_offset} follows one that ends at {expected}", life)
            if next_offset > high_watermark:
                raise self.broken("P17", f"offset {next_offset - 1} is shown above {high_watermark}", life)
            expected = next_offset
            for offset, value in batch:
                if not self._sent.get(value, set()) & {promise.topic_id, ZERO_UUID}:
                    raise self.broken("PR2", f"nobody sent to this topic what is at offset {offset}: {value!r}", life)
                self._hold(promise, offset, value)
                self.hit("copied record read")

    # --- processes ---

    def began(self, life: Life) -> None:
        """A process knows what it found on its disk."""
        self._started[life.node_id] = self.scene.step.number

    def ended(self, life: Life, kind: StepKind) -> None:
        """What was not synced may be gone with the power, all with the disk."""
        crash = self.scene.step.event
        if kind is not StepKind.CRASHED or not isinstance(crash, Crash) or not (crash.is_lossy or crash.is_disk_lost):
            return
        if not self._promises:
            return
        image = self._image()
        registered = image.cluster.brokers.get(life.node_id)
        epoch = -1 if registered is None else registered.broker_epoch
        for place, promise in self._promises.items():
            partition = registered_at(image, place)
            if partition is None or life.node_id not in partition.replicas:
                continue
            promise.wounds[life.node_id] = Wound(epoch)
            needed = needed_in_sync(image, place[0], partition)
            if len(promise.wounds) >= needed or _is_lost(promise, partition):
                promise.forget()
                self.hit("too many copies lost something")
            elif promise.held:
                self.hit("acknowledged records outlive the loss of a copy")

    def committed(self, replayed: Replayed) -> None:
        """Replicas that lost something come back; whoever comes into sync has what is promised."""
        for place, promise in self._promises.items():
            topic_id = topic_id_at(replayed.image, place)
            if topic_id != promise.topic_id:
                promise.begin_life(topic_id)
                self.hit("topic made anew under its name", int(topic_id is not None))
            partition = registered_at(replayed.image, place)
            if partition is not None and not promise.is_void and _is_lost(promise, partition):
                promise.forget()
            is_touched = replayed.delta is not None and topic_id in replayed.delta.changed_topics
            if is_touched and self.scene.cluster is not None:
                self._in_sync(self.scene.cluster, place, promise)
            if promise.wounds:
                self._heal(replayed.image, promise, partition)
            elif promise.is_void and partition is not None and len(partition.isr) == len(partition.replicas):
                promise.is_void = False

    def _heal(self, image: MetadataImage, promise: Promise, partition: PartitionRegistration | None) -> None:
        """A wounded replica that has registered anew, was out of sync and is in sync again has what it must have."""
        for node_id, wound in list(promise.wounds.items()):
            registered = image.cluster.brokers.get(node_id)
            if registered is None or partition is None or registered.broker_epoch == wound.broker_epoch:
                continue
            if node_id not in (*partition.isr, *partition.eligible_leader_replicas):
                wound.is_out = True
            elif wound.is_out and node_id in partition.isr:
                del promise.wounds[node_id]
                self.hit("wounded copy came into sync")

    # --- what lies there ---

    def now_and_then(self, cluster: ClusterView) -> None:
        """Somebody, the leader, and every member of the ISR and the ELR, reach to the end of what is promised (P2, P1, P3)."""
        if self._promises:
            self._count_cuts(cluster)
        for place, promise in self._promises.items():
            self._somewhere(cluster, place, promise)
            self._in_sync(cluster, place, promise)
            partition = registered_at(self._image(), place)
            for node_id, log in _copies(
                cluster, place, () if partition is None else partition.replicas, promise.topic_id
            ):
                self._compare_committed(cluster, place, promise, (node_id, log))

    def _count_cuts(self, cluster: ClusterView) -> None:
        for node in cluster.nodes.values():
            broker: Any = None if node.machine is None else node.machine.broker
            if broker is not None:
                known = self._cuts.get((node.node_id, node.run), 0)
                cuts = self._cuts[node.node_id, node.run] = broker.replica_fetchers.cuts
                if cuts > known:
                    self.hit("follower cut its log", cuts - known)

    def _somewhere(self, cluster: ClusterView, place: Place, promise: Promise) -> None:
        """Where all copies can be looked at, one of them has what is promised, whoever leads or does not (P2)."""
        partition = registered_at(self._image(), place)
        if partition is None or not promise.end:
            return
        ends = [log.log_end_offset for _, log in _copies(cluster, place, partition.replicas, promise.topic_id)]
        if len(ends) == len(partition.replicas) and max(ends) < promise.end:
            raise self.broken("P2", f"the copies of {place} end at {ends}, {promise.end} is promised")

    def _in_sync(self, cluster: ClusterView, place: Place, promise: Promise) -> None:
        partition = registered_at(self._image(), place)
        if partition is None:
            return
        for node_id, log in _copies(
            cluster, place, (*partition.isr, *partition.eligible_leader_replicas), promise.topic_id
        ):
            if node_id not in promise.wounds and log.log_end_offset < promise.end:
                raise self.broken(
                    "P3",
                    f"{place} at broker {node_id}, in sync or eligible, ends at {log.log_end_offset}, {promise.end} is promised",
                    self.ghost.lives[node_id],
                )

    def _compare_committed(self, cluster: ClusterView, place: Place, promise: Promise, copy: tuple[int, Any]) -> None:
        """What the copy has below its high watermark is what others have there (P4)."""
        node_id, log = copy
        if promise.is_void:
            return
        key = (node_id, cluster.nodes[node_id].run)
        start = min(promise.compared.get(key, 0), log.log_end_offset)
        end = promise.compared[key] = log.high_watermark
        for offset, record in _read(cluster, node_id, log, start) if start < end else ():
            if offset < end and promise.truth.setdefault(offset, record) != record:
                raise self.broken(
                    "P4",
                    f"{place} at broker {node_id} has {record!r} at {offset}, committed is {promise.truth[offset]!r}",
                    self.ghost.lives[node_id],
                )

    def at_end(self, cluster: ClusterView) -> None:
        """Every live replica is in sync, and holds what is promised, where it was promised (PL1, PL2, PR1, P4)."""
        for place, promise in self._promises.items():
            image = self._image()
            partition = registered_at(image, place)
            if partition is None:
                continue
            live = {each for each in partition.replicas if (one := image.cluster.brokers.get(each)) and one.is_active}
            if partition.leader >= 0 and set(partition.isr) != live:
                raise self.broken("PL1", f"{place} has {sorted(live)} alive, in sync are {partition.isr}")
            copies = dict(_copies(cluster, place, (*partition.isr, *sorted(live)), promise.topic_id))
            self._everywhere(place, promise, copies, live if partition.leader >= 0 else set())
            self._compare(cluster, place, promise, [(each, copies[each]) for each in partition.isr if each in copies])

    def _everywhere(self, place: Place, promise: Promise, copies: dict[int, Any], live: set[int]) -> None:
        """No write waits any more, and what was acknowledged is on every live replica (PL2)."""
        if any(begun.promise is promise and begun.is_write for begun in self._begun.values()):
            raise self.broken("PL2", f"a write to {place} was never answered")
        for each in sorted(live):
            if each not in copies or copies[each].log_end_offset < promise.end:
                end = copies[each].log_end_offset if each in copies else None
                raise self.broken(
                    "PL2", f"{place} at broker {each}, which lives, ends at {end}, {promise.end} is promised"
                )

    def _compare(self, cluster: ClusterView, place: Place, promise: Promise, copies: list[tuple[int, Any]]) -> None:
        committed = 0 if promise.is_void else min((log.high_watermark for _, log in copies), default=0)
        first: dict[int, tuple[int, bytes]] | None = None
        for node_id, log in copies:
            life = self.ghost.lives[node_id]
            found = dict(_read(cluster, node_id, log))
            for offset, value in promise.held.items():
                if offset >= log.log_start_offset and found.get(offset, (0, b""))[1] != value:
                    raise self.broken(
                        "PR1",
                        f"{place} at broker {node_id} holds {found.get(offset)!r} at {offset}, not {value!r}",
                        life,
                    )
            below = {offset: record for offset, record in found.items() if offset < committed}
            if first is not None and place[0] == OFFSETS_TOPIC:  # one copy is compacted before the other
                below = {offset: record for offset, record in below.items() if offset in first}
                first = {offset: record for offset, record in first.items() if offset in below}
            if first is not None and below != first:
                different = min(at for at in {*below, *first} if below.get(at) != first.get(at))
                raise self.broken(
                    "P4",
                    f"{place} differs at {different}: {first.get(different)!r}, {below.get(different)!r}",
                    life,
                )
            first = below
            self.hit("copies compared with each other")

    def _life(self) -> Life:
        return self.ghost.lives[self.scene.step.node.node_id]


def _is_lost(promise: Promise, partition: PartitionRegistration) -> bool:
    """Everybody who may lead lost something."""
    members = (*partition.isr, *partition.eligible_leader_replicas) or partition.last_known_elr
    return bool(promise.wounds) and all(member in promise.wounds for member in members)


def is_about(request: ProduceRequest | FetchRequest, scene: Scene, place: Place) -> bool:
    """Whether a call that begins is about the topic that has the name now: one by name is about whatever the broker hosts, be it deleted."""
    current = topic_id_at(scene.ghost.committed.replayed[-1].image, place)
    asked = request.topic_data[0] if isinstance(request, ProduceRequest) else request.topics[0]
    if current is None or asked.topic_id != ZERO_UUID:
        return asked.topic_id == current
    hosted = hosted_on(scene.step.node, place)
    return hosted is None or hosted.topic_id == current


def _copies(
    cluster: ClusterView, place: Place, members: tuple[int, ...], topic_id: Uuid | None
) -> Iterator[tuple[int, Any]]:
    """The logs of these brokers that are loaded."""
    for node_id in members:
        hosted = hosted_at(cluster, node_id, place, topic_id)
        if hosted is not None and hosted.log is not None:
            yield node_id, hosted.log


def _read(cluster: ClusterView, node_id: int, log: Any, start: int = 0) -> list[tuple[int, tuple[int, bytes]]]:
    """The records of a copy; a read that is to fail fails for the node, not for who looks on."""
    node: Any = cluster.nodes[node_id]
    with node.disk.looked_at():
        return list(_records(log, start))


def _records(log: Any, start: int = 0) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Offset, and (leader epoch, value) of each record from about `start` on."""
    at = max(start, log.log_start_offset)
    while at < log.log_end_offset:
        data = log.read_slice(at, _READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True)
        assert isinstance(data, FileSlice), "what lies between a log's ends can be read"
        for _, at, batch in batches_of(data.read()):  # noqa: B007 - the next read begins there
            for offset, value in batch:
                yield offset, (log.epoch_at(offset), value)


def records_of(cluster: ClusterView, place: Place, node_id: int, topic_id: Uuid | None) -> Iterator[tuple[Any, Record]]:
    """The log of one copy with each of its records; nothing if it is not loaded."""
    for _, log in _copies(cluster, place, (node_id,), topic_id):
        node: Any = cluster.nodes[node_id]
        with node.disk.looked_at():
            at = log.log_start_offset
            while at < log.log_end_offset:
                data = log.read_slice(at, _READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True)
                assert isinstance(data, FileSlice), "what lies between a log's ends can be read"
                for records in records_in(data.read()):
                    at = records[-1].offset + 1
                    yield from ((log, record) for record in records)
