"""A hostile peer: a client that sends what no honest node would, to any node at any time.

Its packets claim epochs, senders, directories, offsets, cluster ids and broker epochs that are wrong in one way or another. What it sends is never
what an honest node might send in its place: a peer that names the right voter, epoch and offset cannot be told from that voter without
authentication. So all that is promised must hold (promise PR8): the checkers of safety and liveness judge the run as any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.ids import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from headrace.core.peers import Destination
from headrace.sim.clients import Client
from headrace.sim.formatting import CLUSTER_ID
from headrace.sim.serving import BROKER_PORT, CONTROLLER_PORT
from headrace.wire.messages import (
    allocate_producer_ids,
    alter_partition,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    unregister_broker,
    vote,
)
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest
from headrace.wire.messages.add_raft_voter import Listener as AddedListener
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.messages.update_raft_voter import Listener as UpdatedListener
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.peers import SendFailure
    from headrace.sim.links import Server
    from headrace.sim.node import SimNode
    from headrace.sim.observation import Outcome
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message

NAME: Final = "__cluster_metadata"
OTHER_CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
NO_NODE: Final = 77
"""An id that no node of any run has."""

_AHEAD: Final = (1, 1, 2, 5, 31, 32, 33, 1_000, 1 << 20, 1 << 30)
_LAST_EPOCH: Final = (1 << 31) - 1


class HostilePeer(Client):
    """Sends one forged request after the other until the faults stop; nobody judges its calls, and it heeds no response."""

    def __init__(self, cluster: Stage, client_id: int) -> None:
        super().__init__(cluster, client_id)
        self._forgeries: tuple[tuple[str, Callable[[SimNode], Message | None]], ...] = (
            ("vote", self._vote),
            ("vote", self._vote),
            ("begin", self._begin_epoch),
            ("end", self._end_epoch),
            ("fetch", self._fetch),
            ("fetch", self._fetch),
            ("fetch snapshot", self._fetch_snapshot),
            ("add voter", self._add_voter),
            ("remove voter", self._remove_voter),
            ("update voter", self._update_voter),
            ("heartbeat", self._heartbeat),
            ("registration", self._registration),
            ("alter partition", self._alter_partition),
            ("unregister", self._unregister),
            ("producer ids", self._allocate),
        )

    @property
    def is_at_rest(self) -> bool:
        """It ends with the faults: what is judged afterwards is whether the cluster recovers."""
        return self.cluster.clients_rest or self.cluster.is_healing

    @property
    def is_waiting(self) -> bool:
        """It waits for nobody."""
        return False

    def act(self) -> None:
        """One forged request, to any node."""
        cluster, chance = self.cluster, self.chance
        node = chance.choice(list(cluster.nodes.values()))
        kind, forge = chance.choice(self._forgeries)
        request = forge(node)
        if request is not None:
            self._call += 1
            port = CONTROLLER_PORT if node.is_controller else BROKER_PORT
            to = Destination(node.node_id, f"n{node.node_id}", port)
            cluster.world.network.send(self, to, "hostile", self._call, request, timeout_us=1_000_000)
            cluster.markers.hit(f"forged packet: {kind}")
        self.begin(chance.randrange(5, 400))

    def heard(self, correlation: int, outcome: Message | SendFailure, source: Server | None) -> None:
        """Whatever it hears, it goes on."""

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """See `heard`."""

    # Claims

    def _epoch(self, node: SimNode) -> int:
        """The receiver's epoch, or the newest of all."""
        rafts = [one.raft for one in self.cluster.controllers if one.raft is not None]
        own = -1 if node.raft is None else node.raft.epoch
        return own if own >= 0 and self.chance.random() < 0.5 else max((raft.epoch for raft in rafts), default=0)

    def _later_epoch(self, node: SimNode) -> int:
        return min(self._epoch(node) + self.chance.choice(_AHEAD), _LAST_EPOCH)

    def _sender(self) -> tuple[int, Uuid]:
        """A controller with its directory, one with another's, or nobody."""
        one = self.chance.choice(self.cluster.controllers)
        drawn = self.chance.random()
        if drawn < 0.5:
            return one.node_id, one.directory_id
        if drawn < 0.75:
            return one.node_id, self._directory()
        return NO_NODE, self._directory()

    def _directory(self) -> Uuid:
        return Uuid(b"\x41" + self.chance.randbytes(15))

    def _cluster_id(self) -> str | None:
        drawn = self.chance.random()
        return OTHER_CLUSTER_ID if drawn < 0.1 else None if drawn < 0.4 else CLUSTER_ID

    def _offset(self) -> int:
        return self.chance.choice((0, 1, 7, 1 << 20, 1 << 40, (1 << 63) - 1, -1))

    # The quorum

    def _vote(self, node: SimNode) -> Message:
        """A vote or pre-vote for a sender that does not ask for it, whose log is said to be as long as can be, or empty."""
        sender, directory_id = self._sender()
        epoch = self._later_epoch(node)
        is_long = self.chance.random() < 0.5
        partition = vote.RequestPartitionData(
            replica_epoch=epoch,
            replica_id=sender,
            replica_directory_id=directory_id,
            last_offset=1 << 40 if is_long else 0,
            last_offset_epoch=epoch - 1 if is_long else 0,
            pre_vote=self.chance.random() < 0.4,
        )
        topic = vote.RequestTopicData(topic_name=NAME, partitions=(partition,))
        return vote.VoteRequest(cluster_id=self._cluster_id(), topics=(topic,))

    def _begin_epoch(self, node: SimNode) -> Message:
        """Somebody is said to lead: one that nobody elected, found where nobody listens."""
        partition = begin_quorum_epoch.RequestPartitionData(
            leader_id=self._sender()[0], leader_epoch=self._later_epoch(node)
        )
        topic = begin_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,))
        nowhere = begin_quorum_epoch.LeaderEndpoint(name="CONTROLLER", host="nowhere", port=1)
        return begin_quorum_epoch.BeginQuorumEpochRequest(
            cluster_id=self._cluster_id(), topics=(topic,), leader_endpoints=(nowhere,)
        )

    def _end_epoch(self, node: SimNode) -> Message:
        """Somebody is said to have led."""
        sender = self._sender()[0]
        epoch = self._epoch(node) if self.chance.random() < 0.5 else self._later_epoch(node)
        partition = end_quorum_epoch.RequestPartitionData(
            leader_id=sender, leader_epoch=epoch, preferred_successors=(NO_NODE, node.node_id)
        )
        topic = end_quorum_epoch.RequestTopicData(topic_name=NAME, partitions=(partition,))
        nowhere = end_quorum_epoch.LeaderEndpoint(name="CONTROLLER", host="nowhere", port=1)
        return end_quorum_epoch.EndQuorumEpochRequest(
            cluster_id=self._cluster_id(), topics=(topic,), leader_endpoints=(nowhere,)
        )

    def _fetch(self, node: SimNode) -> Message:
        """A reader in a wrong epoch, or one that is no voter at any offset: a voter's own fetch would count as its word."""
        sender, directory_id = self._sender()
        epoch = self._later_epoch(node)
        if sender == NO_NODE and self.chance.random() < 0.5:
            epoch = self._epoch(node)
        partition = fetch.FetchPartition(
            current_leader_epoch=epoch,
            fetch_offset=self._offset(),
            last_fetched_epoch=self.chance.choice((0, epoch, epoch - 1, -1)),
            replica_directory_id=directory_id,
            high_watermark=self._offset(),
        )
        return fetch.FetchRequest(
            cluster_id=self._cluster_id(),
            replica_state=fetch.ReplicaState(replica_id=sender),
            max_wait_ms=self.chance.choice((0, 500, 60_000)),
            topics=(fetch.FetchTopic(topic=NAME, topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )

    def _fetch_snapshot(self, node: SimNode) -> Message:
        """A piece of a snapshot that may not be there."""
        sender, directory_id = self._sender()
        partition = fetch_snapshot.RequestPartitionSnapshot(
            current_leader_epoch=self._later_epoch(node),
            snapshot_id=fetch_snapshot.RequestSnapshotId(end_offset=self._offset(), epoch=1),
            position=self._offset(),
            replica_directory_id=directory_id,
        )
        topic = fetch_snapshot.RequestTopicSnapshot(name=NAME, partitions=(partition,))
        return fetch_snapshot.FetchSnapshotRequest(
            cluster_id=self._cluster_id(), replica_id=sender, max_bytes=1_000, topics=(topic,)
        )

    def _add_voter(self, node: SimNode) -> Message:
        """A voter that does not exist, where nobody listens."""
        return AddRaftVoterRequest(
            cluster_id=self._cluster_id(),
            timeout_ms=self.chance.choice((-1, 0, 200)),
            voter_id=self.chance.choice((NO_NODE, -1)),
            voter_directory_id=self._directory(),
            listeners=(AddedListener(name="CONTROLLER", host="nowhere", port=1),),
        )

    def _remove_voter(self, node: SimNode) -> Message:
        """A voter of another directory, or none."""
        return RemoveRaftVoterRequest(
            cluster_id=self._cluster_id(), voter_id=self._sender()[0], voter_directory_id=self._directory()
        )

    def _update_voter(self, node: SimNode) -> Message:
        """A voter of another directory, or in a wrong epoch, is said to listen where nobody does."""
        sender, _ = self._sender()
        return UpdateRaftVoterRequest(
            cluster_id=self._cluster_id(),
            current_leader_epoch=self._later_epoch(node),
            voter_id=sender,
            voter_directory_id=self._directory(),
            listeners=(UpdatedListener(name="CONTROLLER", host="nowhere", port=1),),
        )

    # The controller

    def _broker(self) -> Any:
        """A registration as some controller has it; None when there is none."""
        images = self.images()
        brokers = list(self.chance.choice(images).cluster.brokers.values()) if images else []
        return self.chance.choice(brokers) if brokers else None

    def _stale_epoch(self, epoch: int) -> int:
        return self.chance.choice((epoch - 1, epoch + 1, -1, 1 << 60))

    def _heartbeat(self, node: SimNode) -> Message | None:
        """A broker of another incarnation wants to be fenced, or to stop."""
        broker = self._broker()
        if broker is None:
            return None
        return broker_heartbeat.BrokerHeartbeatRequest(
            broker_id=broker.broker_id,
            broker_epoch=self._stale_epoch(broker.broker_epoch),
            current_metadata_offset=1 << 60,
            want_fence=self.chance.random() < 0.5,
            want_shut_down=self.chance.random() < 0.5,
            offline_log_dirs=broker.log_dirs,
        )

    def _registration(self, node: SimNode) -> Message | None:
        """Another process with a broker's id: of another cluster, without directories, or with another's directories."""
        broker = self._broker()
        if broker is None:
            return None
        return broker_registration.BrokerRegistrationRequest(
            broker_id=self.chance.choice((broker.broker_id, -1)),
            cluster_id=self.chance.choice((OTHER_CLUSTER_ID, CLUSTER_ID)),
            incarnation_id=self._directory(),
            log_dirs=self.chance.choice(((), (ZERO_UUID,), (Uuid(bytes(15) + b"\x01"),))),
        )

    def _alter_partition(self, node: SimNode) -> Message | None:
        """A leader of another incarnation throws everybody else out of an ISR."""
        broker, images = self._broker(), self.images()
        topics = sorted(images[0].topics.by_name) if images else []
        if broker is None or not topics:
            return None
        topic = images[0].topics.by_name[self.chance.choice(topics)]
        number = self.chance.choice(sorted(topic.partitions))
        partition = topic.partitions[number]
        change = alter_partition.RequestPartitionData(
            partition_index=number,
            leader_epoch=partition.leader_epoch,
            new_isr_with_epochs=(alter_partition.BrokerState(broker_id=broker.broker_id, broker_epoch=-1),),
            partition_epoch=partition.partition_epoch,
        )
        return alter_partition.AlterPartitionRequest(
            broker_id=broker.broker_id,
            broker_epoch=self._stale_epoch(broker.broker_epoch),
            topics=(alter_partition.RequestTopicData(topic_id=topic.id, partitions=(change,)),),
        )

    def _unregister(self, node: SimNode) -> Message:
        return unregister_broker.UnregisterBrokerRequest(broker_id=self.chance.choice((NO_NODE, -1, (1 << 31) - 1)))

    def _allocate(self, node: SimNode) -> Message | None:
        broker = self._broker()
        if broker is None:
            return None
        return allocate_producer_ids.AllocateProducerIdsRequest(
            broker_id=broker.broker_id, broker_epoch=self._stale_epoch(broker.broker_epoch)
        )
