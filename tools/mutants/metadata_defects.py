"""Mistakes above the metadata log: deltas, publishers, heartbeats, features, registrations, directories, snapshots' content."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.publishers.partitions import PartitionPublisher
from headrace.controller import (
    alter_partition,
    broker_states,
    brokers,
    eligibility,
    features,
    machine,
    partition_change,
    partitions,
    requests,
)
from headrace.core.values import changed
from headrace.metadata import loader, touched
from headrace.metadata.compare import compare_images
from headrace.metadata.image import EMPTY_IMAGE, FeatureRange
from headrace.metadata.snapshot import snapshot_content
from headrace.node import metadata_plane
from headrace.node.machine import NodeMachine
from headrace.raft import voting
from headrace.raft.election import may_grant_vote, starting_role
from headrace.raft.roles import Follower, Unattached
from headrace.raft.voter_changes import VoterChanges
from headrace.sim.faults import FaultKind
from tools.mutants.planting import Defect, Planting
from tools.mutants.raft_defects import users

if TYPE_CHECKING:
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import MetadataImage

_CONFIG_RECORD = 4


def forgets_its_vote_at_restart(planting: Planting) -> None:
    """Y1: whoever voted for another and starts again does not know for whom."""

    def without_vote(*given: Any, **known: Any) -> Any:
        role = starting_role(*given, **known)
        if isinstance(role, Unattached | Follower):
            return replace(role, voted_id=-1, voted_directory_id=None)
        return role

    planting.replace_everywhere(starting_role, without_vote, *users("starting_role"))


def grants_pre_votes_while_served(planting: Planting) -> None:
    """Y2."""

    def may_grant(role: Any, **asked: Any) -> bool:
        known = replace(role, has_fetched=False) if isinstance(role, Follower) else role
        return may_grant_vote(known, **asked)

    planting.replace(voting, "may_grant_vote", may_grant)


def takes_any_incarnation_into_the_isr(planting: Planting) -> None:
    """Y3: the broker epochs of the members of an AlterPartition are not looked at (KIP-903)."""
    honest = alter_partition.is_ineligible

    def is_ineligible(situation: Any, member: Any) -> bool:
        return honest(situation, changed(member, broker_epoch=-1))

    planting.replace(alter_partition, "is_ineligible", is_ineligible)


def lets_stopping_brokers_lead(planting: Planting) -> None:
    """Y4: a broker in controlled shutdown stays eligible for leadership (KIP-841)."""
    honest = eligibility.Eligible.__init__

    def init(self: Any, cluster: Any, **rest: Any) -> None:
        staying = {each: changed(broker, in_controlled_shutdown=False) for each, broker in cluster.brokers.items()}
        honest(self, changed(cluster, brokers=staying), **rest)

    planting.replace(eligibility.Eligible, "__init__", init)


def keeps_the_leader_epoch_when_replicas_go(planting: Planting) -> None:
    """Y5."""
    planting.replace(partition_change, "_must_bump", lambda *_: False)


def ignores_what_nodes_support(planting: Planting) -> None:
    """Y6: UpdateFeatures asks only whether this very node supports the level (KIP-584)."""
    honest = features.__dict__["_not_supported"]

    def not_supported(situation: Any, name: str, level: int) -> str | None:
        alone = changed(situation.image, cluster=EMPTY_IMAGE.cluster)
        config = replace(situation.config, controller_quorum_voters=())
        return honest(changed(situation, image=alone, config=config), name, level)  # type: ignore[no-any-return]

    planting.replace(features, "_not_supported", not_supported)


def forgets_deleted_topics(planting: Planting) -> None:
    """Y7: the delta from a snapshot does not say which topics are gone (KIP-630)."""

    def compare(previous: MetadataImage, image: MetadataImage) -> MetadataDelta:
        return changed(compare_images(previous, image), deleted_topics={})

    planting.replace(loader, "compare_images", compare)


def reports_the_end_of_the_log(planting: Planting) -> None:
    """Y8: a heartbeat reports the end of the metadata log for the offset that was applied."""
    honest = NodeMachine.add_broker

    def add_broker(self: Any, **rest: Any) -> Any:
        broker = honest(self, **rest)
        core = vars(self._plane.raft)["_core"]
        vars(self.lifecycle)["_metadata_offset"] = lambda: core.log.log_end_offset - 1
        return broker

    planting.replace(NodeMachine, "add_broker", add_broker)


def publishes_nothing_when_recovered(planting: Planting) -> None:
    """Y9: a broker that recovered its logs is not told of the metadata that were there already."""
    honest = NodeMachine.__dict__["_publish_to_broker"]

    def publish(self: Any, delta: MetadataDelta) -> None:
        if delta.previous is EMPTY_IMAGE:
            self.broker.image = delta.image
        else:
            honest(self, delta)

    planting.replace(NodeMachine, "_publish_to_broker", publish)


def unregisters_without_moving(planting: Planting) -> None:
    """Y10: a broker that is unregistered stays leader and in the ISRs."""
    honest = brokers.decide_unregistration

    def decide(*given: Any) -> Any:
        decision = honest(*given)
        return replace(decision, moves=tuple(replace(each, places=()) for each in decision.moves))

    table = {**vars(requests)["_WITH_SESSIONS"]}
    table = {kind: decide if value is honest else value for kind, value in table.items()}
    planting.replace(requests, "_WITH_SESSIONS", table)


def forgets_changed_settings(planting: Planting) -> None:
    """Y11: a delta does not say which settings changed."""
    noters = {**vars(touched)["_NOTERS"]}
    del noters[_CONFIG_RECORD]
    planting.replace(touched, "_NOTERS", noters)


def snapshots_forget_who_stops(planting: Planting) -> None:
    """Y12: a snapshot does not hold that a broker is in controlled shutdown."""

    def content(image: MetadataImage) -> Any:
        cluster = image.cluster
        staying = cluster.brokers
        for broker_id, broker in cluster.brokers.items():
            staying = staying.set(broker_id, changed(broker, in_controlled_shutdown=False))
        return snapshot_content(changed(image, cluster=changed(cluster, brokers=staying)))

    planting.replace(metadata_plane, "snapshot_content", content)


def ignores_lost_directories(planting: Planting) -> None:
    """Y13: what a heartbeat says of directories that went offline is not heard (KIP-858)."""
    planting.replace(broker_states, "_lost_directories", lambda situation, broker, request: iter(()))


def places_replicas_in_cordoned_directories(planting: Planting) -> None:
    """Y14: KIP-1066."""
    honest = partition_change.default_directory

    def default_directory(cluster: Any, broker_id: int) -> Any:
        broker = cluster.brokers.get(broker_id)
        return honest(cluster, broker_id) if broker is None or not broker.log_dirs else broker.log_dirs[0]

    planting.replace_everywhere(honest, default_directory, *_holders(honest))


def registers_who_cannot_follow(planting: Planting) -> None:
    """Y15: a broker that does not support a finalized level is registered (KIP-584)."""
    honest = brokers.__dict__["_checked_features"]

    def checked(situation: Any, request: Any) -> Any:
        image = changed(situation.image, features=EMPTY_IMAGE.features)
        asked = changed(request, features=tuple(changed(each, min_supported_version=0) for each in request.features))
        honest(changed(situation, image=image), asked)
        return {
            each.name: FeatureRange(each.min_supported_version, each.max_supported_version) for each in request.features
        }

    planting.replace(brokers, "_checked_features", checked)


def keeps_what_moved_away(planting: Planting) -> None:
    """Y16: a replica that is to go stays where it is."""
    planting.replace(PartitionPublisher, "_remove", lambda self, change: None)


def answers_heartbeats_from_before(planting: Planting) -> None:
    """Y17: a heartbeat that changes a broker's state is answered with the state that it had."""
    honest = broker_states.decide_heartbeat

    def decide(situation: Any, request: Any, heartbeats: Any) -> Any:
        before = heartbeats.state(request.broker_id) if request.broker_id in heartbeats.silences_ms(0) else None
        outcome = honest(situation, request, heartbeats)
        if before is None:
            return outcome
        told: Any = outcome.decision.response
        response = changed(told, is_fenced=before.is_fenced)
        return replace(outcome, decision=replace(outcome.decision, response=response))

    planting.replace_everywhere(honest, decide, broker_states, requests)
    honest_end = broker_states.as_committed
    planting.replace_everywhere(honest_end, lambda request, response, committed: response, broker_states, machine)


def forgets_where_voters_moved(planting: Planting) -> None:
    """Y18: a voter that says where it listens now is told that all is well, and nothing is written (KIP-853)."""
    planting.replace(VoterChanges, "_update", lambda self, voter: None)


def _holders(function: Any) -> list[Any]:
    """The modules of the controller that use a function by its name."""
    from headrace.controller import more_partitions, reassignment, topics

    modules = (more_partitions, partition_change, partitions, reassignment, topics, brokers)
    return [module for module in modules if vars(module).get(function.__name__) is function]


DEFECTS = (
    Defect(id="Y1", what="a vote is forgotten at a restart", plant=forgets_its_vote_at_restart, voters=2),
    Defect(id="Y2", what="a served follower grants pre-votes", plant=grants_pre_votes_while_served, voters=3),
    Defect(
        id="Y3", what="another incarnation joins an ISR", plant=takes_any_incarnation_into_the_isr, level="partitions"
    ),
    Defect(id="Y4", what="a broker that stops may lead", plant=lets_stopping_brokers_lead, level="partitions"),
    Defect(
        id="Y5",
        what="replicas go, the leader epoch stays",
        plant=keeps_the_leader_epoch_when_replicas_go,
        level="partitions",
    ),
    Defect(id="Y6", what="a level that a broker does not support", plant=ignores_what_nodes_support),
    Defect(id="Y7", what="a snapshot's delta forgets deleted topics", plant=forgets_deleted_topics),
    Defect(id="Y8", what="a heartbeat reports the log's end", plant=reports_the_end_of_the_log, level="cluster"),
    Defect(
        id="Y9", what="a recovered broker publishes nothing", plant=publishes_nothing_when_recovered, level="cluster"
    ),
    Defect(id="Y10", what="an unregistered broker leads on", plant=unregisters_without_moving),
    Defect(id="Y11", what="a delta forgets settings", plant=forgets_changed_settings),
    Defect(id="Y12", what="a snapshot forgets who stops", plant=snapshots_forget_who_stops),
    Defect(id="Y13", what="a lost directory counts as usable", plant=ignores_lost_directories),
    Defect(id="Y14", what="new replicas in cordoned directories", plant=places_replicas_in_cordoned_directories),
    Defect(id="Y15", what="a broker registers that cannot follow", plant=registers_who_cannot_follow),
    Defect(id="Y16", what="a replica that is to go stays", plant=keeps_what_moved_away, level="records"),
    Defect(
        id="Y18",
        what="a voter's new address is not written",
        plant=forgets_where_voters_moved,
        faults=frozenset({FaultKind.READDRESS}),
        voters=3,
    ),
    Defect(id="Y17", what="a heartbeat is answered with the state before", plant=answers_heartbeats_from_before),
)
"""Y: those of no catalogue, planted from outside or in their spirit: none breaks a rule of the log itself."""
