"""A broker that is none, as the controller sees it: registration, heartbeats, and what a leader of partitions asks.

Where the plan says so (`moves_brokers`) it also stops in good order, loses and cordons log directories, says where its replicas are, and
believes in incarnations of other brokers that are gone; where it `upgrades`, some begin with an older release's features.

So runs without whole brokers have something to decide. `LeadingBroker` also does what a leader owes its partitions: replicas that come
join the ISR, a partition that lost records is told to be recovered; and it goes away for long, so that others must lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.metadata.image import LEADER_RECOVERED, METADATA_VERSION
from headrace.metadata.versions import LATEST_METADATA_VERSION, SUPPORTED_FEATURES
from headrace.sim.clients import Client
from headrace.sim.formatting import CLUSTER_ID
from headrace.sim.observation import Outcome
from headrace.wire.messages import alter_partition, assign_replicas_to_dirs, broker_registration
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from headrace.metadata.image import ClusterImage, MetadataImage, PartitionRegistration
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message


FIRST_SCRIPTED_BROKER_ID: Final = 201
"""Whole brokers have lower ids."""


class ScriptedBroker(Client):
    """What the controller sees of a broker: registration, heartbeats, changes of ISRs, blocks of producer ids."""

    def __init__(self, cluster: Stage, client_id: int, *, broker_id: int, rack: str | None, wants_fence: float) -> None:
        super().__init__(cluster, client_id)
        self._wants_fence = wants_fence
        self.broker_id = broker_id
        self._rack = rack
        self._incarnation = self._new_incarnation()
        self._epoch = -1
        self._previous_epoch = -1
        self._is_fenced = True
        self._directories = tuple(
            Uuid(bytes([64 + number, *([broker_id & 255] * 15)])) for number in range(2 if self._moves else 1)
        )
        self._offline: tuple[Uuid, ...] = ()
        self._cordoned: tuple[Uuid, ...] | None = None
        self._is_stopping = False
        self._newest_level = self._level_of_release()
        self._known_epochs: dict[int, int] = {}
        """Broker -> its epoch as this one saw it some time ago."""

    @property
    def _moves(self) -> bool:
        return self.cluster.plan.moves_brokers

    def _level_of_release(self) -> int:
        """The newest metadata.version of its software. Some brokers of a cluster that is being upgraded are not yet, or not any more."""
        is_old = self.cluster.plan.upgrades and self.chance.random() < 0.3
        return self.cluster.plan.first_metadata_version if is_old else LATEST_METADATA_VERSION

    def _new_incarnation(self) -> Uuid:
        return Uuid(self.chance.randbytes(16))

    def act(self) -> None:
        """Register, or a heartbeat, or what a leader of partitions asks."""
        chance = self.chance
        if self._epoch < 0:
            self.ask_controller(self._registration(), timeout_ms=2_000)
        elif not self._is_fenced and chance.random() < 0.25:
            self.ask_controller(self._isr_change() or self._heartbeat(), timeout_ms=2_000)
        elif not self._is_fenced and chance.random() < 0.03:
            request = AllocateProducerIdsRequest(broker_id=self.broker_id, broker_epoch=self._epoch)
            self.ask_controller(request, timeout_ms=2_000)
        elif self._moves and not self._is_fenced and not self._is_stopping and chance.random() < 0.06:
            self.ask_controller(self._assignment() or self._heartbeat(), timeout_ms=2_000)
        else:
            self.ask_controller(self._heartbeat(), timeout_ms=2_000)

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """Take what the answer says; now and then start anew, or fall silent for longer than a session."""
        wait_ms = self.cluster.limits.broker_heartbeat_interval_ms
        if outcome is not Outcome.OK:
            wait_ms = self.chance.randrange(20, 200)
        if isinstance(response, broker_registration.BrokerRegistrationResponse) and outcome is Outcome.OK:
            self._epoch, self._is_fenced = response.broker_epoch, True
            wait_ms = 10
        elif isinstance(response, broker_registration.BrokerRegistrationResponse):
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION:  # its software is upgraded, too
                self._newest_level = LATEST_METADATA_VERSION
        elif isinstance(request, BrokerHeartbeatRequest) and response is not None:
            self._take_heartbeat(response)
            if self._is_fenced:
                wait_ms = min(wait_ms, 100)
        self.begin(wait_ms + self._whim())

    def _whim(self) -> int:
        """Silence in ms that comes by chance, for longer than a session; or it starts anew."""
        drawn = self.chance.random()
        if drawn < 0.01:
            return 2 * self.cluster.limits.broker_session_timeout_ms
        if drawn < (0.1 if self.cluster.plan.upgrades else 0.02):  # an upgrade starts every broker anew
            self._start_anew(is_clean=self.chance.random() < 0.5)
        elif self._moves:
            self._move()
        return 0

    def _move(self) -> None:
        """It begins to stop, or its directories change."""
        if self.cluster.is_healing:
            return
        drawn = self.chance.random()
        if drawn < 0.015:
            self._is_stopping = True
        elif drawn < 0.025:
            self._lose(self.chance.choice(self._directories))
        elif drawn < 0.06:
            self._cordoned = self.chance.choice(((), self._directories[:1], self._directories[1:], self._directories))

    def _lose(self, directory: Uuid) -> None:
        """A directory that failed is offline as long as the process lives; it stops when that was the last one (KIP-112, KIP-858)."""
        self._offline = tuple(each for each in self._directories if each == directory or each in self._offline)
        if self._offline == self._directories:
            self._start_anew(is_clean=False)

    def _start_anew(self, *, is_clean: bool) -> None:
        """Another process, after a clean stop or an unclean one, on directories that work."""
        self._previous_epoch = self._epoch if is_clean else -1
        self._incarnation, self._epoch, self._is_fenced = self._new_incarnation(), -1, True
        self._is_stopping = False
        self._offline, self._cordoned = (), None
        self._newest_level = self._level_of_release()

    def _take_heartbeat(self, response: Any) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self._is_fenced = response.is_fenced
            if response.should_shut_down and self._is_stopping:
                self._start_anew(is_clean=True)
        elif code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self._epoch, self._is_fenced = -1, True

    def _registration(self) -> Message:
        listener = broker_registration.Listener(
            name="PLAINTEXT", host=f"b{self.broker_id}", port=9092, security_protocol=0
        )
        return broker_registration.BrokerRegistrationRequest(
            broker_id=self.broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self._incarnation,
            listeners=(listener,),
            features=tuple(
                broker_registration.Feature(
                    name=name,
                    min_supported_version=low,
                    max_supported_version=min(high, self._newest_level) if name == METADATA_VERSION else high,
                )
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ),
            rack=self._rack,
            log_dirs=self._directories,
            previous_broker_epoch=self._previous_epoch,
        )

    def _heartbeat(self) -> Message:
        applied = max((image.provenance.last_contained_offset for image in self.images()), default=-1)
        return BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self._epoch - (1 if self.chance.random() < 0.02 else 0),
            current_metadata_offset=max(applied, self._epoch) if self.chance.random() < 0.9 else 0,
            want_fence=self.chance.random() < self._wants_fence,
            want_shut_down=self._is_stopping,
            offline_log_dirs=self._offline,
            cordoned_log_dirs=self._cordoned,
        )

    def _assignment(self) -> Message | None:
        """AssignReplicasToDirs (KIP-858): some of its replicas are in one of its directories, which may have gone offline a moment ago."""
        images = self.images()
        usable = [each for each in self._directories if not self.cluster.is_healing or each not in self._offline]
        if not images:
            return None
        image = self.chance.choice(images)
        topics: list[assign_replicas_to_dirs.RequestTopicData] = []
        for topic_id, topic in sorted(image.topics.by_id.items()):
            mine = [number for number, each in sorted(topic.partitions.items()) if self.broker_id in each.replicas]
            chosen = [number for number in mine if self.chance.random() < 0.4]
            asked = tuple(assign_replicas_to_dirs.RequestPartitionData(partition_index=each) for each in chosen)
            if asked:
                topics.append(assign_replicas_to_dirs.RequestTopicData(topic_id=topic_id, partitions=asked))
        if not topics:
            return None
        place = assign_replicas_to_dirs.RequestDirectoryData(id=self.chance.choice(usable), topics=tuple(topics))
        return assign_replicas_to_dirs.AssignReplicasToDirsRequest(
            broker_id=self.broker_id, broker_epoch=self._epoch, directories=(place,)
        )

    def _isr_change(self) -> Message | None:
        """A change of the ISR of a partition that this broker leads, as some node's metadata has it."""
        images = self.images()
        if not images:
            return None
        image = self.chance.choice(images)
        led = self._led(image)
        if not led:
            return None
        topic_id, number, partition = led[self.chance.randrange(0, len(led))]
        wanted = [one for one in partition.replicas if one == self.broker_id or self.chance.random() < 0.7]
        data = alter_partition.RequestPartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=self._members_by_chance(wanted, image.cluster),
            partition_epoch=partition.partition_epoch - (1 if self.chance.random() < 0.1 else 0),
        )
        return self._alter_partition({topic_id: [data]})

    def _members_by_chance(self, wanted: list[int], cluster: ClusterImage) -> tuple[alter_partition.BrokerState, ...]:
        """Now and then it saw some members fetch before they were started anew (KIP-903)."""
        members = _members(wanted, cluster)
        if not self._moves:
            return members
        if self.chance.random() < 0.3:
            members = tuple(
                alter_partition.BrokerState(
                    broker_id=each.broker_id, broker_epoch=self._known_epochs.get(each.broker_id, each.broker_epoch)
                )
                for each in members
            )
        if self.chance.random() < 0.1:
            self._known_epochs = {broker_id: broker.broker_epoch for broker_id, broker in cluster.brokers.items()}
        return members

    def _led(self, image: MetadataImage) -> list[tuple[Uuid, int, PartitionRegistration]]:
        return [
            (topic_id, number, partition)
            for topic_id, topic in sorted(image.topics.by_id.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader == self.broker_id
        ]

    def _alter_partition(self, data: dict[Uuid, list[alter_partition.RequestPartitionData]]) -> Message:
        topics = [
            alter_partition.RequestTopicData(topic_id=topic_id, partitions=tuple(each))
            for topic_id, each in data.items()
        ]
        return alter_partition.AlterPartitionRequest(
            broker_id=self.broker_id, broker_epoch=self._epoch, topics=tuple(topics)
        )


def _members(wanted: list[int], cluster: ClusterImage) -> tuple[alter_partition.BrokerState, ...]:
    brokers = cluster.brokers
    return tuple(
        alter_partition.BrokerState(broker_id=one, broker_epoch=brokers[one].broker_epoch if one in brokers else -1)
        for one in wanted
    )


class LeadingBroker(ScriptedBroker):
    """A scripted broker that leads its partitions to where they are to be, and is away more often."""

    def act(self) -> None:
        """What its partitions need, every other time; after the faults nothing else."""
        if self.cluster.is_healing:
            self._wants_fence = 0.0
        request = None
        if self._epoch >= 0 and not self._is_fenced and self.chance.random() < 0.5:
            request = self._what_partitions_need()
        if request is None:
            super().act()
        else:
            self.ask_controller(request, timeout_ms=2_000)

    def _whim(self) -> int:
        """It is away rather often, for a little more than its session."""
        if self.cluster.is_healing:
            return 0
        drawn = self.chance.random()
        session_ms = self.cluster.limits.broker_session_timeout_ms
        if drawn < 0.04:
            return session_ms + self.chance.randrange(200, session_ms)
        if drawn < 0.05:
            self._start_anew(is_clean=self.chance.random() < 0.5)
        elif self._moves:
            self._move()
        return 0

    def _what_partitions_need(self) -> Message | None:
        """One request for all led partitions that wait for something; None when none does."""
        images = self.images()
        if not images:
            return None
        is_healing = self.cluster.is_healing
        image = max(images, key=lambda each: each.provenance.last_contained_offset)
        active = {broker_id for broker_id, broker in image.cluster.brokers.items() if broker.is_active}
        data: dict[Uuid, list[alter_partition.RequestPartitionData]] = {}
        for topic_id, number, partition in self._led(image):
            waits = partition.adding_replicas or partition.removing_replicas or not _is_recovered(partition)
            if not waits or not (is_healing or self.chance.random() < 0.4):
                continue
            wanted = [one for one in partition.replicas if one == self.broker_id or one in active]
            if not is_healing:
                wanted = [one for one in wanted if one == self.broker_id or self.chance.random() < 0.7]
            asked = alter_partition.RequestPartitionData(
                partition_index=number,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=_members(wanted, image.cluster),
                partition_epoch=partition.partition_epoch,
            )
            data.setdefault(topic_id, []).append(asked)
        return self._alter_partition(data) if data else None


def _is_recovered(partition: PartitionRegistration) -> bool:
    return partition.leader_recovery_state == LEADER_RECOVERED
