"""Administrators and operators of a cluster that is being broken.

`Admin` makes and removes topics and settings and asks about the quorum; where the run's plan says so it moves replicas, elects leaders and
reads too (`partition_requests`). `Operator` changes the voters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.versions import ELR_FEATURE, KRAFT_VERSION, LATEST_METADATA_VERSION
from headrace.sim.clients import LONGEST_CALL_MS, Client
from headrace.sim.formatting import CLUSTER_ID
from headrace.sim.observation import Outcome
from headrace.sim.partition_requests import Asks
from headrace.sim.scripted_broker import FIRST_SCRIPTED_BROKER_ID
from headrace.sim.serving import BROKER_PORT, CONTROLLER_PORT
from headrace.wire.messages import (
    add_raft_voter,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    incremental_alter_configs,
    update_features,
)
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage
    from headrace.sim.node import SimNode
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message


_ASKS_OF_PARTITIONS = 0.7
"""The share of an administrator's calls that are about replicas, leaders or reads, where the plan has any of these."""


class Admin(Client):
    """Topics, partitions and settings, now and then a look at the quorum."""

    def __init__(self, cluster: Stage, client_id: int) -> None:
        super().__init__(cluster, client_id)
        self._asks = Asks(cluster.plan, self.chance)

    @property
    def is_at_rest(self) -> bool:
        """Administrators rest first: what they began must come to its end."""
        return self.cluster.clients_rest or self.cluster.admins_rest

    def act(self) -> None:
        """One of the things that an administrator does."""
        images = self.images()
        request = self._request_of_brokers(images)
        if request is not None:
            self.ask_controller(request)
        elif self._asks.has_any and images and self.chance.random() < _ASKS_OF_PARTITIONS:
            self._ask_of_partitions(images)
        else:
            self.ask_controller(self._request_by_chance())

    def _ask_of_partitions(self, images: list[MetadataImage]) -> None:
        """A read goes to any node that serves it, everything else to the controller."""
        request = self._asks.request(self.chance.choice(images))
        brokers = [node for node in self.cluster.nodes.values() if not node.is_controller]
        if self._asks.is_for_brokers(request):
            self.ask(self.chance.choice(brokers), request, BROKER_PORT, timeout_ms=3_000)
        elif self._asks.is_for_all(request):
            node = self.chance.choice(list(self.cluster.nodes.values()))
            self.ask(node, request, CONTROLLER_PORT if node.is_controller else BROKER_PORT, timeout_ms=3_000)
        else:
            self.ask_controller(request)

    def _request_of_brokers(self, images: list[MetadataImage]) -> Message | None:
        """Where the plan has it: another level of a feature, or a broker that is unregistered."""
        plan, chance = self.cluster.plan, self.chance
        if plan.upgrades and images and chance.random() < 0.08:
            return self._feature_update(chance.choice(images))
        if plan.moves_brokers and plan.scripted_brokers and chance.random() < 0.02:
            broker_id = FIRST_SCRIPTED_BROKER_ID + chance.randrange(0, plan.scripted_brokers)
            return UnregisterBrokerRequest(broker_id=broker_id)
        if plan.decommissions and (plan.brokers or plan.scripted_brokers) and chance.random() < 0.03:
            return self._decommission()
        return None

    def _decommission(self) -> Message:
        """A broker that is to leave with its replicas; by force only where no client counts on what was acknowledged."""
        plan, chance = self.cluster.plan, self.chance
        brokers = [node.node_id for node in self.cluster.nodes.values() if not node.is_controller]
        brokers += range(FIRST_SCRIPTED_BROKER_ID, FIRST_SCRIPTED_BROKER_ID + plan.scripted_brokers)
        is_forced = not plan.producers and chance.random() < 0.3
        return UnregisterBrokerRequest(broker_id=chance.choice(brokers), remove_from_assignments=True, force=is_forced)

    def _feature_update(self, image: MetadataImage) -> Message:
        """UpdateFeatures: mostly metadata.version some levels up, now and then down, now and then the level of the quorum, or ELR."""
        chance = self.chance
        if chance.random() < 0.25:
            asked = update_features.FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1, upgrade_type=1)
        elif chance.random() < 0.25:
            level = chance.choice((0, 1, 1))
            asked = update_features.FeatureUpdateKey(
                feature=ELR_FEATURE, max_version_level=level, upgrade_type=1 if level else 2
            )
        else:
            level = (image.features.metadata_version or LATEST_METADATA_VERSION) + chance.choice((1, 1, 2, 4, 30, -1))
            asked = update_features.FeatureUpdateKey(
                feature=METADATA_VERSION,
                max_version_level=min(level, LATEST_METADATA_VERSION),
                upgrade_type=chance.choice((1, 1, 1, 2, 3)),
            )
        return update_features.UpdateFeaturesRequest(
            feature_updates=(asked,), validate_only=chance.random() < 0.15, timeout_ms=2_000
        )

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """After a moment, the next."""
        if isinstance(request, UnregisterBrokerRequest):
            self._mark_unregistered(request, response, outcome)
        if outcome is Outcome.OK and isinstance(request, update_features.UpdateFeaturesRequest):
            feature = request.feature_updates[0].feature
            self.cluster.markers.hit(f"{feature} {'judged' if request.validate_only else 'updated'}")
        self.begin(self.chance.randrange(0, self.cluster.think_ms))

    def _mark_unregistered(self, request: UnregisterBrokerRequest, response: Any, outcome: Outcome) -> None:
        """What became of a broker that was to leave."""
        hit = self.cluster.markers.hit
        if outcome is Outcome.OK and not request.remove_from_assignments:
            hit("broker unregistered")
        elif outcome is Outcome.OK:
            hit("broker decommissioned by force" if request.force else "broker decommissioned")
        elif response is not None and response.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS:
            hit("broker kept: it was needed")

    def _request_by_chance(self) -> Message:
        chance = self.chance
        drawn = chance.randrange(0, 10)
        name = f"topic-{chance.randrange(0, 8)}"
        if drawn < 3:
            return self._create(name)
        if drawn < 5:
            return delete_topics.DeleteTopicsRequest(
                topics=(delete_topics.DeleteTopicState(name=name),), timeout_ms=self._timeout_ms()
            )
        if drawn < 6:
            more = create_partitions.CreatePartitionsTopic(name=name, count=chance.randrange(2, 6), assignments=None)
            return create_partitions.CreatePartitionsRequest(topics=(more,), timeout_ms=self._timeout_ms())
        if drawn < 9:
            return self._configure(name)
        asked = describe_quorum.RequestPartitionData(partition_index=0)
        topic = describe_quorum.RequestTopicData(topic_name="__cluster_metadata", partitions=(asked,))
        return describe_quorum.DescribeQuorumRequest(topics=(topic,))

    def _timeout_ms(self) -> int:
        """Now and then so short that the request is too late when it is its turn, or waits until its deadline for a commit."""
        return self.chance.choice((1, 10, 50)) if self.chance.random() < 0.05 else 2_000

    def _create(self, name: str) -> Message:
        chance = self.chance
        topics = [
            create_topics.CreatableTopic(
                name=name if number == 0 else f"{name}-{number}",
                num_partitions=chance.randrange(1, 4),
                replication_factor=chance.randrange(1, 4),
                configs=self._min_isr(),
            )
            for number in range(chance.choice((1, 1, 1, 2, 3)))
        ]
        return create_topics.CreateTopicsRequest(topics=tuple(topics), timeout_ms=self._timeout_ms())

    def _min_isr(self) -> tuple[create_topics.CreatableTopicConfig, ...]:
        """Half of the topics need two in sync: there an ELR may come about."""
        if self.chance.random() < 0.5:
            return ()
        return (create_topics.CreatableTopicConfig(name="min.insync.replicas", value="2"),)

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
        listener = add_raft_voter.Listener(name="CONTROLLER", host=node.host, port=CONTROLLER_PORT)
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=5_000,
            voter_id=node.node_id,
            voter_directory_id=node.directory_id,
            listeners=(listener,),
            ack_when_committed=self.chance.random() < 0.8,
        )
