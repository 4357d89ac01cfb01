"""Who works with the cluster while it is being broken, and what became of each call?

`Admin` makes and removes topics and settings and asks about the quorum, `Operator` changes the voters, `ScriptedBroker` registers and sends
heartbeats as a broker does, without being one: so quorum-only runs have something to decide. A call ends ok, failed or unknown; a call
whose answer says that the controller moved may still have happened, so it is unknown too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.core.peers import Destination, SendFailure
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.sim.formatting import CLUSTER_ID
from headrace.sim.observation import CallEnded, CallStarted, Outcome, StepKind
from headrace.sim.serving import CONTROLLER_PORT
from headrace.wire.messages import (
    add_raft_voter,
    alter_partition,
    broker_registration,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    incremental_alter_configs,
)
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

if TYPE_CHECKING:
    import random

    from headrace.sim.network import Server
    from headrace.sim.node import SimNode
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message

LONGEST_CALL_MS: Final = 6_000
"""No call is waited for longer."""

_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Client:
    """Calls one at a time. Implements `network.Caller`; a client has an id below zero."""

    is_up = True
    run = 1

    def __init__(self, cluster: Stage, client_id: int) -> None:
        self.cluster = cluster
        self.node_id = client_id
        self.chance: random.Random = cluster.world.chance(f"client {client_id}")
        self._call = 0
        self._request: Message | None = None
        self._asked: SimNode | None = None

    @property
    def is_waiting(self) -> bool:
        """A call has no outcome yet."""
        return self._request is not None

    def begin(self, wait_ms: int) -> None:
        """Do something in a while."""
        self.cluster.world.schedule.after(wait_ms * 1_000, self._due)

    def _due(self, _one: object, _two: object) -> None:
        if not self.cluster.clients_rest and not self.is_waiting:
            self.act()

    def act(self) -> None:
        """Make a call, or `begin` again."""
        raise NotImplementedError

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """The outcome of a call is known, or known to be unknown."""
        raise NotImplementedError

    def ask_controller(self, request: Message, *, timeout_ms: int = 3_000) -> None:
        """Call the controller that probably leads, now and then any other."""
        cluster = self.cluster
        leader = cluster.leader()
        if leader is None or self.chance.random() < 0.1:
            leader = self.chance.choice(cluster.controllers)
        self.ask(leader, request, CONTROLLER_PORT, timeout_ms=timeout_ms)

    def ask(self, node: SimNode, request: Message, port: int, *, timeout_ms: int) -> None:
        """Call one node."""
        world = self.cluster.world
        self._call += 1
        self._request, self._asked = request, node
        call_id = -self.node_id * 1_000_000 + self._call
        started = CallStarted(call_id=call_id, client_id=-self.node_id, request=request, api_version=-1)
        node.note(StepKind.CALL, started)
        world.network.send(
            self,
            Destination(node.node_id, f"n{node.node_id}", port),
            "client",
            self._call,
            request,
            timeout_us=timeout_ms * 1_000,
        )

    def heard(self, correlation: int, outcome: Message | SendFailure, source: Server | None) -> None:
        """See `network.Caller`."""
        request, node = self._request, self._asked
        if correlation != self._call or request is None or node is None:
            return
        self._request = None
        response = None if isinstance(outcome, SendFailure) else outcome
        known = judged(outcome)
        ended = CallEnded(
            call_id=-self.node_id * 1_000_000 + self._call,
            client_id=-self.node_id,
            request=request,
            response=None if known is Outcome.UNKNOWN else response,
            outcome=known,
        )
        node.note(StepKind.CALL, ended)
        self.ended(request, response, known)


def judged(outcome: Message | SendFailure) -> Outcome:
    """What an answer says about whether the call took effect."""
    if isinstance(outcome, SendFailure):
        return Outcome.FAILED if outcome is SendFailure.REFUSED else Outcome.UNKNOWN
    codes = sorted(set(error_codes(outcome)))
    if any(ErrorCode(code) in _MOVED for code in codes):
        return Outcome.UNKNOWN
    return Outcome.OK if not any(codes) else Outcome.FAILED


def error_codes(response: Any) -> list[int]:
    """All error codes in a response, at the top and one level below."""
    found = [response.error_code] if hasattr(response, "error_code") else []
    for name in ("topics", "responses", "results"):
        for each in getattr(response, name, ()):
            if hasattr(each, "error_code"):
                found.append(each.error_code)
            for partition in getattr(each, "partitions", ()):
                found.append(partition.error_code)
    return found


class Admin(Client):
    """Topics, partitions and settings, now and then a look at the quorum."""

    def act(self) -> None:
        """One of the things that an administrator does."""
        self.ask_controller(self._request_by_chance())

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """After a moment, the next."""
        self.begin(self.chance.randrange(0, self.cluster.think_ms))

    def _request_by_chance(self) -> Message:
        chance = self.chance
        drawn = chance.randrange(0, 10)
        name = f"topic-{chance.randrange(0, 8)}"
        if drawn < 3:
            return self._create(name)
        if drawn < 5:
            return delete_topics.DeleteTopicsRequest(
                topics=(delete_topics.DeleteTopicState(name=name),), timeout_ms=2_000
            )
        if drawn < 6:
            more = create_partitions.CreatePartitionsTopic(name=name, count=chance.randrange(2, 6), assignments=None)
            return create_partitions.CreatePartitionsRequest(topics=(more,), timeout_ms=2_000)
        if drawn < 9:
            return self._configure(name)
        asked = describe_quorum.RequestPartitionData(partition_index=0)
        topic = describe_quorum.RequestTopicData(topic_name="__cluster_metadata", partitions=(asked,))
        return describe_quorum.DescribeQuorumRequest(topics=(topic,))

    def _create(self, name: str) -> Message:
        chance = self.chance
        topics = [
            create_topics.CreatableTopic(
                name=name if number == 0 else f"{name}-{number}",
                num_partitions=chance.randrange(1, 4),
                replication_factor=chance.randrange(1, 4),
            )
            for number in range(chance.choice((1, 1, 1, 2, 3)))
        ]
        return create_topics.CreateTopicsRequest(topics=tuple(topics), timeout_ms=2_000)

    def _configure(self, name: str) -> Message:
        chance = self.chance
        value = str(1_000 + chance.randrange(0, 1_000_000))
        change = incremental_alter_configs.AlterableConfig(
            name=chance.choice(("retention.ms", "flush.ms", "segment.ms")), config_operation=0, value=value
        )
        of_topic = incremental_alter_configs.AlterConfigsResource(
            resource_type=2, resource_name=name, configs=(change,)
        )
        if chance.random() < 0.5:
            return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(of_topic,))
        for_all = incremental_alter_configs.AlterableConfig(
            name=chance.choice(("log.retention.ms", "log.flush.interval.ms")), config_operation=0, value=value
        )
        of_brokers = incremental_alter_configs.AlterConfigsResource(
            resource_type=4, resource_name="", configs=(for_all,)
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(of_brokers,))


class Operator(Client):
    """Adds and removes voters of a dynamic quorum, and puts a replaced disk in its old one's place."""

    def act(self) -> None:
        """One change of the voters, when there is one to make."""
        request = self._change()
        if request is None:
            self.begin(500)
        else:
            self.ask_controller(request, timeout_ms=LONGEST_CALL_MS)

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """After a while, or at once, the next."""
        if outcome is Outcome.OK:
            marker = "voter added" if isinstance(request, add_raft_voter.AddRaftVoterRequest) else "voter removed"
            self.cluster.markers.hit(marker)
        self.begin(0 if self.chance.random() < 0.2 else self.chance.randrange(50, self.cluster.voter_change_ms))

    def _change(self) -> Message | None:
        cluster, chance = self.cluster, self.chance
        leader = cluster.leader()
        if leader is None or leader.raft is None:
            return None
        voters = leader.raft.voters
        for voter in voters.voters:
            if voter.directory_id != cluster.nodes[voter.voter_id].directory_id:
                return self._remove(voter.voter_id, voter.directory_id)
        outside = [one for one in cluster.controllers if one.node_id not in voters.ids and one.is_up]
        few = len(voters.ids) < cluster.fewest_voters
        if cluster.is_healing and not few:
            return None
        if outside and (few or chance.random() < 0.5):
            return self._add(chance.choice(outside))
        if len(voters.ids) > cluster.fewest_voters:
            voter = chance.choice(voters.voters)
            return self._remove(voter.voter_id, voter.directory_id)
        return None

    def _remove(self, voter_id: int, directory_id: Uuid) -> Message:
        return RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=voter_id, voter_directory_id=directory_id)

    def _add(self, node: SimNode) -> Message:
        listener = add_raft_voter.Listener(name="CONTROLLER", host=f"n{node.node_id}", port=CONTROLLER_PORT)
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5_000,
            voter_id=node.node_id,
            voter_directory_id=node.directory_id,
            listeners=(listener,),
            ack_when_committed=self.chance.random() < 0.8,
        )


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
        elif isinstance(request, BrokerHeartbeatRequest) and response is not None:
            self._take_heartbeat(response)
            if self._is_fenced:
                wait_ms = min(wait_ms, 100)
        drawn = self.chance.random()
        if drawn < 0.01:
            wait_ms += 2 * self.cluster.limits.broker_session_timeout_ms
        elif drawn < 0.02:
            is_clean = self.chance.random() < 0.5
            self._previous_epoch = self._epoch if is_clean else -1
            self._incarnation, self._epoch, self._is_fenced = self._new_incarnation(), -1, True
        self.begin(wait_ms)

    def _take_heartbeat(self, response: Any) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.NONE:
            self._is_fenced = response.is_fenced
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
                broker_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ),
            rack=self._rack,
            log_dirs=(Uuid(bytes([64, *([self.broker_id & 255] * 15)])),),
            previous_broker_epoch=self._previous_epoch,
        )

    def _heartbeat(self) -> Message:
        applied = max((one.image.provenance.last_contained_offset for one in self._views()), default=-1)
        return BrokerHeartbeatRequest(
            broker_id=self.broker_id,
            broker_epoch=self._epoch - (1 if self.chance.random() < 0.02 else 0),
            current_metadata_offset=max(applied, self._epoch) if self.chance.random() < 0.9 else 0,
            want_fence=self.chance.random() < self._wants_fence,
            want_shut_down=False,
        )

    def _views(self) -> list[Any]:
        return [one for one in self.cluster.controllers if one.image is not None]

    def _isr_change(self) -> Message | None:
        """A change of the ISR of a partition that this broker leads, as some node's metadata has it."""
        views = self._views()
        if not views:
            return None
        image = self.chance.choice(views).image
        led = [
            (topic_id, number, partition)
            for topic_id, topic in sorted(image.topics.by_id.items())
            for number, partition in sorted(topic.partitions.items())
            if partition.leader == self.broker_id
        ]
        if not led:
            return None
        topic_id, number, partition = led[self.chance.randrange(0, len(led))]
        wanted = [one for one in partition.replicas if one == self.broker_id or self.chance.random() < 0.7]
        brokers = image.cluster.brokers
        members = tuple(
            alter_partition.BrokerState(broker_id=one, broker_epoch=brokers[one].broker_epoch if one in brokers else -1)
            for one in wanted
        )
        data = alter_partition.RequestPartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=partition.partition_epoch - (1 if self.chance.random() < 0.1 else 0),
        )
        topic = alter_partition.RequestTopicData(topic_id=topic_id, partitions=(data,))
        return alter_partition.AlterPartitionRequest(
            broker_id=self.broker_id, broker_epoch=self._epoch, topics=(topic,)
        )
