"""Replicas that appear, change their role or go because of a metadata delta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from headrace.broker.broker import Broker
from headrace.broker.due_roles import DueRole
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.log_settings import log_config
from headrace.broker.partitions import HostedPartition
from headrace.config.topic_config import TopicConfig
from headrace.core.errors import StorageFault
from headrace.core.ids import (
    LOST_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    TopicIdPartition,
    TopicPartition,
    Uuid,
    is_reserved_uuid,
)
from headrace.core.ports import DiskFull
from headrace.log.ports import PartitionLogPort
from headrace.metadata.delta import LocalPartition, MetadataDelta
from headrace.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC
from headrace.replication.leader import LeaderTerms, PartitionLeader
from headrace.replication.quota import lists_replica

_TakeRole = Callable[[LocalPartition], HostedPartition]
_Change = LocalPartition | MetadataDelta | tuple[HostedPartition, ...]

_TURN_COST: Final = 256
"""What is done in one turn: a few milliseconds."""
_COST_OF_LOG: Final = 64
"""A log that must be made: a directory, files and links, which take a millisecond."""
_COST_OF_REMOVAL: Final = 4
_SETTINGS_AT_ONCE: Final = 128
_COST_OF_SETTINGS: Final = 64
"""So many partitions that get other settings."""
_COST_OF_ROLE: Final = 1


class PartitionPublisher:
    """Gives the broker's replicas the roles that a delta says. Driven by `node.machine`: `publish` after `broker.image` was set, `tick` for the rest of long deltas.

    Order: settings, then roles of partitions whose log is there, leaders before followers, then logs that go or come, groups, and so delta after delta; those
    who wait for a partition are tried again when it has its role. What takes more than a turn is done in later ones (`broker.due_roles`): a client that comes too early looks for the leader again. A replica whose directory has no
    room for it has no log until there is some (D10); it is tried again by `LogStorePort.maintain`.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._roomless: dict[TopicPartition, LocalPartition] = {}
        self._withdrawn: dict[tuple[Uuid, int], HostedPartition] = {}

    def publish(self, delta: MetadataDelta) -> None:
        """Apply one delta, or begin to. A log directory that fails goes offline and the other partitions go on."""
        broker = self._broker
        if delta.changed_features:
            broker.logs.cordon(broker.cordoned_log_dirs)
        if delta.changed_brokers:
            broker.brokers_changed(delta)
        changes = delta.local_changes(broker.node_id)
        due = broker.due_roles
        was_behind = bool(due)
        for part in self._with_new_settings(delta):
            due.add(DueRole(self._apply_settings, part), needs_log_work=False)
        if broker.state_changes is not None:
            broker.state_changes.received(changes, delta)
        for gone in changes.removed:
            self._withdraw(gone)
            due.add(DueRole(self._remove, gone, _place(gone)), needs_log_work=True)
        for take_role, changed in ((self._lead, changes.leaders), (self._follow, changes.followers)):
            for each in changed:
                due.add(DueRole(take_role, each, _place(each)), needs_log_work=not self._has_log(each))
        if delta.deleted_topics and broker.has_groups:
            due.add(DueRole(self._topics_deleted, delta), needs_log_work=True)
        if not was_behind:
            self.tick()

    def publish_at_once(self, delta: MetadataDelta) -> None:
        """The same to its end, before anybody is served."""
        self.publish(delta)
        while self._broker.due_roles:
            self.tick()

    def tick(self) -> None:
        """A turn's worth of what is due."""
        due = self._broker.due_roles
        left = _TURN_COST
        while due and left > 0:
            take_role, change, _ = due.next()
            left -= self._cost(take_role, change)
            if self._is_overtaken(take_role, change):
                continue
            hosted = take_role(change)
            self._ended(change, hosted)
            if hosted is not None:
                self._broker.partition_changed(hosted)
        self._roles_taken()

    def _roles_taken(self) -> None:
        """Who is followed now is fetched from, and who follows is called back."""
        self._broker.replica_fetchers.begin()
        self._broker.new_leaderships.answer_waiting()

    def _ended(self, change: _Change, hosted: HostedPartition | None) -> None:
        """Whoever follows the life of state changes is told."""
        if self._broker.state_changes is not None and isinstance(change, LocalPartition):
            self._broker.state_changes.ended(change, hosted)

    def next_deadline_ms(self) -> int | None:
        """At once while something is due."""
        return 0 if self._broker.due_roles else None

    def _cost(self, take_role: object, change: _Change) -> int:
        if not isinstance(change, LocalPartition):
            return _COST_OF_ROLE if isinstance(change, MetadataDelta) else _COST_OF_SETTINGS
        if take_role == self._remove:
            return _COST_OF_REMOVAL
        known = self._broker.partitions.get(change.topic, change.partition)
        return _COST_OF_ROLE if known is not None and known.topic_id == change.topic_id else _COST_OF_LOG

    def _has_log(self, change: LocalPartition) -> bool:
        """Whether the partition's own log is there, so that its role costs little."""
        known = self._broker.partitions.get(change.topic, change.partition)
        return (
            known is not None
            and known.log is not None
            and known.topic_id == change.topic_id
            and known.first_leader_epoch == change.delta.after.first_leader_epoch
        )

    def _is_gone(self, change: LocalPartition) -> bool:
        """Whether it was deleted, alone or with its topic, in this delta or a later one."""
        return self._broker.image.topics.partition_by_id(change.topic_id, change.partition) is None

    def _is_overtaken(self, take_role: object, change: _Change) -> bool:
        """Whether there is nothing left to lead or follow."""
        return isinstance(change, LocalPartition) and take_role != self._remove and self._is_gone(change)

    def _withdraw(self, change: LocalPartition) -> None:
        """Nobody finds a partition of a deleted topic any more, though it is removed in a later turn: another topic may have its name, and what a client
        writes to that would be acknowledged and go with this one."""
        partitions = self._broker.partitions
        hosted = partitions.get(change.topic, change.partition)
        if hosted is not None and hosted.topic_id == change.topic_id and self._is_gone(change):
            partitions.remove(change.topic, change.partition)
            self._withdrawn[change.topic_id, change.partition] = hosted

    def _topics_deleted(self, delta: MetadataDelta) -> None:
        gone = sorted((topic.name, topic.id) for topic in delta.deleted_topics.values())
        self._broker.groups.topics_deleted(gone)

    # --- roles ---

    def _lead(self, change: LocalPartition) -> HostedPartition:
        """Lead a partition: start its epoch, or take newer terms within it."""
        broker = self._broker
        after = change.delta.after
        hosted = self._host(change, self._lead)
        terms = LeaderTerms(
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            replicas=after.replicas,
            isr=after.isr,
            leader_recovery_state=after.leader_recovery_state,
        )
        hosted.leader_id = after.leader
        broker.replica_fetchers.leave(hosted)
        if hosted.leader is not None and hosted.leader_epoch == after.leader_epoch:
            self._tell_place(change, hosted.leader.log)
            hosted.leader.update(terms, now_ms=broker.now_ms())
            return hosted
        hosted.leader_epoch = after.leader_epoch
        if hosted.log is None:
            return hosted
        self._tell_place(change, hosted.log)
        if hosted.log.after_cut(partial(self._lead_after_cut, change)):
            hosted.leader = None
            return hosted
        try:
            hosted.leader = PartitionLeader(
                broker_id=broker.node_id,
                log=hosted.log,
                terms=terms,
                now_ms=broker.now_ms(),
                lag_time_max_ms=broker.config.replica_lag_time_max_ms,
                min_insync_replicas=broker.topic_config(change.topic).min_insync_replicas,
            )
            hosted.leader.waiters = hosted.waiters
            hosted.leader.traffic = hosted.traffic
            hosted.leader.want_sync = broker.log_syncs.want
            hosted.log.watch_start(hosted.waiters.log_start_moved)
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            return hosted
        broker.new_leaderships.begun(hosted, hosted.leader.followers, broker.now_ms())
        if change.topic == OFFSETS_TOPIC:
            broker.groups.elected(change.partition, after.leader_epoch)
        return hosted

    def _lead_after_cut(self, change: LocalPartition) -> None:
        """The log of a partition to lead was cut; unless a later change has overtaken this one."""
        hosted = self._broker.partitions.get(change.topic, change.partition)
        if (
            hosted is None
            or hosted.topic_id != change.topic_id
            or hosted.leader_epoch != change.delta.after.leader_epoch
        ):
            return
        if hosted.leader_id == self._broker.node_id:
            self._broker.partition_changed(self._lead(change))
            self._ended(change, hosted)
            self._roles_taken()

    def _follow(self, change: LocalPartition) -> HostedPartition:
        """Hold a replica without leading it."""
        after = change.delta.after
        hosted = self._host(change, self._follow)
        was_leader = hosted.leader is not None
        hosted.leader = None
        hosted.leader_id = after.leader
        hosted.leader_epoch = after.leader_epoch
        if was_leader and change.topic == OFFSETS_TOPIC:
            self._broker.groups.resigned(change.partition, after.leader_epoch)
        if hosted.log is not None:
            self._tell_place(change, hosted.log)
            hosted.log.watch_start(hosted.waiters.log_start_moved)
        self._broker.replica_fetchers.follow(hosted)
        return hosted

    def _tell_place(self, change: LocalPartition, log: PartitionLogPort) -> None:
        """The controller is told where the replica is when it says otherwise; not of one on its way to where it says (KIP-858)."""
        broker = self._broker
        known, actual = (
            change.delta.after.directory_of(broker.node_id),
            broker.replica_moves.directory_ids[log.directory],
        )
        if known == actual or is_reserved_uuid(actual) or known == broker.replica_moves.goes_to(log.topic_partition):
            return
        place = TopicIdPartition(change.topic_id, change.partition)
        if broker.assignments.word_of(place) is None:
            broker.assignments.assign(place, actual)

    def _remove(self, change: LocalPartition) -> HostedPartition | None:
        """The replica's directory is renamed to `-delete` and goes after `file.delete.delay.ms` (S1-37)."""
        broker = self._broker
        hosted = self._withdrawn.pop((change.topic_id, change.partition), None)
        if hosted is None:
            hosted = broker.partitions.get(change.topic, change.partition)
            if hosted is None or hosted.topic_id != change.topic_id:
                return None
            broker.partitions.remove(change.topic, change.partition)
        self._roomless.pop(TopicPartition(change.topic, change.partition), None)
        broker.replica_moves.removed(TopicPartition(change.topic, change.partition))
        broker.replica_fetchers.leave(hosted)
        was_leader = hosted.leader is not None
        hosted.leader = None
        if was_leader and change.topic == OFFSETS_TOPIC:
            broker.groups.resigned(change.partition, None)
        if hosted.log is not None:
            hosted.log = None
            self._delete_log(TopicPartition(change.topic, change.partition))
        return hosted

    def _host(self, change: LocalPartition, take_role: _TakeRole) -> HostedPartition:
        """The hosted partition, with a log; made when it is new here. If there is no room for one, `take_role` is tried again later."""
        broker = self._broker
        known = broker.partitions.get(change.topic, change.partition)
        name = TopicPartition(change.topic, change.partition)
        first_epoch = change.delta.after.first_leader_epoch
        if known is not None and known.topic_id == change.topic_id and known.first_leader_epoch == first_epoch:
            if name in self._roomless:
                self._make_log(known, change, take_role)
            return known
        if known is not None:  # another topic of that name, or a partition that was removed and made anew
            if known.leader is not None and change.topic == OFFSETS_TOPIC:
                broker.groups.resigned(change.partition, None)
            broker.replica_moves.removed(name)
            broker.replica_fetchers.leave(known)
            broker.partitions.remove(change.topic, change.partition)
            self._roomless.pop(name, None)
            self._delete_log(name)
        hosted = HostedPartition(
            topic=change.topic,
            topic_id=change.topic_id,
            partition=change.partition,
            log=None,
            first_leader_epoch=first_epoch,
        )
        broker.partitions.add(hosted)
        if broker.image.configs.of_topic(change.topic):
            self._throttle(hosted, broker.topic_config(change.topic))
        self._make_log(hosted, change, take_role)
        return hosted

    def _make_log(self, hosted: HostedPartition, change: LocalPartition, take_role: _TakeRole) -> None:
        broker = self._broker
        name = TopicPartition(change.topic, change.partition)
        found = broker.logs.get(name)
        if found is not None and found.topic_id == change.topic_id and not is_of_removed(found, change):
            hosted.log = found
            self._roomless.pop(name, None)
            return
        settings = log_config(broker.topic_config(change.topic), broker.config)
        directory = change.delta.after.directory_of(broker.node_id)
        if broker.logs.is_unsure(name):
            broker.assignments.assign(TopicIdPartition(change.topic_id, change.partition), LOST_DIRECTORY)
        if broker.logs.is_unsure(name) or not self._may_make(directory):
            broker.on_warning(f"{name} may be in a log directory that is offline: it is not made anew")
            return
        try:
            if found is not None:
                broker.logs.mark_stray(name)
            hosted.log = broker.logs.create(name, topic_id=change.topic_id, config=settings, directory_id=directory)
            self._roomless.pop(name, None)
        except DiskFull as fault:
            self._roomless[name] = change
            broker.logs.wait_for_room(str(fault), partial(self._try_again, change, take_role))
        except StorageFault as fault:
            broker.on_storage_fault(fault)

    def _may_make(self, directory: Uuid) -> bool:
        """A replica of which the metadata say that it lies where this process cannot look is not made anew elsewhere (KIP-858)."""
        infos = self._broker.logs.directories()
        if directory == UNASSIGNED_DIRECTORY or all(info.is_online for info in infos):
            return True
        return any(info.is_online and info.directory_id == directory for info in infos)

    def _try_again(self, change: LocalPartition, take_role: _TakeRole) -> None:
        """There may be room by now; unless the replica is gone, or a later change was a try of its own."""
        if self._roomless.get(TopicPartition(change.topic, change.partition)) is change:
            hosted = take_role(change)
            self._ended(change, hosted)
            self._broker.partition_changed(hosted)
            self._roles_taken()

    def _delete_log(self, name: TopicPartition) -> None:
        try:
            self._broker.logs.delete(name, self._broker.wall_ms())
        except StorageFault as fault:
            self._broker.on_storage_fault(fault)

    # --- settings ---

    def _throttle(self, hosted: HostedPartition, settings: TopicConfig) -> None:
        """Whether the replica is among those that are throttled (KIP-73)."""
        partition, node_id = hosted.partition, self._broker.node_id
        hosted.is_throttled_leader = lists_replica(settings.leader_replication_throttled_replicas, partition, node_id)
        listed = lists_replica(settings.follower_replication_throttled_replicas, partition, node_id)
        if listed is not hosted.is_throttled_follower:
            hosted.is_throttled_follower = listed
            self._broker.replica_fetchers.throttle(hosted)

    def _with_new_settings(self, delta: MetadataDelta) -> Iterator[tuple[HostedPartition, ...]]:
        """The partitions whose topic's settings, or the broker's settings that are defaults of topics, are others now; some of one topic at a time."""
        broker = self._broker
        topics = {each.resource_name for each in delta.changed_configs if each.resource_type == RESOURCE_TOPIC}
        is_any = any(each.resource_type == RESOURCE_BROKER for each in delta.changed_configs)
        if is_any:
            broker.update_dynamic_settings()
        by_topic: dict[str, list[HostedPartition]] = {}
        for hosted in broker.partitions if topics or is_any else ():
            if is_any or hosted.topic in topics:
                by_topic.setdefault(hosted.topic, []).append(hosted)
        for of_topic in by_topic.values():
            for at in range(0, len(of_topic), _SETTINGS_AT_ONCE):
                yield tuple(of_topic[at : at + _SETTINGS_AT_ONCE])

    def _apply_settings(self, partitions: tuple[HostedPartition, ...]) -> None:
        """Obey what is set for their topic now; who waits is told where more is committed by that."""
        broker = self._broker
        settings = broker.topic_config(partitions[0].topic)
        for_log = log_config(settings, broker.config)
        for hosted in partitions:
            if hosted.log is not None:
                hosted.log.update_config(for_log)
            self._throttle(hosted, settings)
            if hosted.leader is not None and hosted.leader.set_min_insync_replicas(settings.min_insync_replicas):
                broker.partition_changed(hosted)


def _place(change: LocalPartition) -> tuple[Uuid, int]:
    return change.topic_id, change.partition


def is_of_removed(log: PartitionLogPort, change: LocalPartition) -> bool:
    """The log begins in an epoch from before this partition was made: it is of one that had its number and was removed while this broker was away (S3-78)."""
    begins_in = log.epoch_at(log.log_start_offset)
    return begins_in is not None and begins_in < change.delta.after.first_leader_epoch
