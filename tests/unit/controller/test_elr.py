"""Eligible leader replicas: who joins them, who of them leads, and what takes them away (KIP-966)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller.eligibility import Eligible
from headrace.controller.events import Answer, TimeAdvanced
from headrace.controller.isr_index import IsrIndex, in_elr
from headrace.controller.partition_change import Assignment, Election, Wish, change_partition
from headrace.core.error_code import ErrorCode
from headrace.core.ids import LOST_DIRECTORY, MIGRATING_DIRECTORY, TopicIdPartition, Uuid
from headrace.metadata.image import (
    EMPTY_IMAGE,
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    ClusterImage,
    PartitionRegistration,
)
from headrace.metadata.replay import merge, replay_all
from headrace.metadata.versions import ELR_FEATURE
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.wire.metadata_records.clear_elr_record import ClearElrRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.support.controller import ControllerBench, directory, incarnation, registration
from tests.support.partitions import cluster, end, fence, join, partition, topic

ON = {ELR_FEATURE: 1}
MIN_ISR = "min.insync.replicas"
PLACE = TopicIdPartition(Uuid(b"t" * 16), 0)


class Only(Eligible):
    """Just these brokers may lead."""

    def __init__(self, *brokers: int) -> None:
        super().__init__(ClusterImage())
        self._brokers = brokers

    def may_lead(self, _partition: PartitionRegistration, broker_id: int) -> bool:
        """Whether it is one of them."""
        return broker_id in self._brokers


def after(
    before: PartitionRegistration, wish: Wish, *alive: int, min_isr: int | None = 2, level: int = 30
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    """(leader, ISR, ELR, LastKnownElr, mark) once the wish is done."""
    record = change_partition(PLACE, before, wish, Only(*alive), metadata_version=level, min_isr=min_isr)
    if record is not None:
        assert isinstance(record.record, PartitionChangeRecord)
        before = merge(before, record.record)
    elr, known = before.eligible_leader_replicas, before.last_known_elr
    return before.leader, before.isr, elr, known, before.leader_recovery_state


def registered(**fields: Any) -> PartitionRegistration:
    """A partition of three replicas."""
    given: dict[str, Any] = {
        "replicas": (1, 2, 3),
        "directories": (MIGRATING_DIRECTORY,) * 3,
        "isr": (1, 2, 3),
        "leader": 1,
    } | fields
    return PartitionRegistration(**given)


def lost(**fields: Any) -> PartitionRegistration:
    """One that nobody leads and nobody is in sync with."""
    return registered(**({"isr": (), "leader": NO_LEADER} | fields))


OK, MARKED = LEADER_RECOVERED, LEADER_RECOVERING
CASES = {
    "enough are left": (registered(), Wish(isr=(1, 2)), (1, 2), 2, (1, (1, 2), (), (), OK)),
    "too few are left": (registered(isr=(1, 2)), Wish(isr=(1,)), (1,), 2, (1, (1,), (2,), (), OK)),
    "two go at once": (registered(), Wish(isr=(1,)), (1,), 2, (1, (1,), (2, 3), (), OK)),
    "one that is left goes, too": (
        registered(isr=(1,), eligible_leader_replicas=(2,)), Wish(isr=()), (), 2, (-1, (), (1, 2), (1,), OK),
    ),
    "the last goes, one eligible is there": (
        registered(isr=(1,), eligible_leader_replicas=(2,)), Wish(isr=()), (2, 3), 2, (2, (2,), (1,), (), OK),
    ),
    "who is not eligible does not lead": (lost(eligible_leader_replicas=(2,)), Wish(isr=()), (1, 3), 2, (-1, (), (2,), (), OK)),
    "by the order of the replicas": (lost(eligible_leader_replicas=(2, 3)), Wish(isr=()), (3, 2), 2, (2, (2,), (3,), (), OK)),
    "enough again": (registered(isr=(1,), eligible_leader_replicas=(2, 3)), Wish(isr=(1, 2)), (1, 2), 2, (1, (1, 2), (), (), OK)),
    "more are needed than there are replicas": (registered(), Wish(isr=(1, 2)), (1, 2), 9, (1, (1, 2), (3,), (), OK)),
    "unclean leaves the elr": (
        registered(isr=(1,), eligible_leader_replicas=(2, 3)), Wish(isr=(1,), unclean=3), (1,), 2, (1, (1,), (2,), (), OK),
    ),
    "unclean and last in sync": (registered(isr=(1,)), Wish(isr=(), unclean=1), (2,), 1, (-1, (), (), (1,), OK)),
    "the last known leader is back": (lost(last_known_elr=(1,)), Wish(isr=()), (1, 2), 2, (1, (1,), (), (), MARKED)),
    "it is not": (lost(last_known_elr=(1,)), Wish(isr=()), (2, 3), 2, (-1, (), (), (1,), OK)),
    "it is, and somebody eligible is not": (
        lost(eligible_leader_replicas=(2,), last_known_elr=(1,)), Wish(isr=()), (1,), 2, (-1, (), (2,), (1,), OK),
    ),
    "several are not one": (lost(last_known_elr=(1, 2)), Wish(isr=()), (1, 2), 2, (-1, (), (), (1, 2), OK)),
    "the last known is no replica": (lost(last_known_elr=(9,)), Wish(isr=()), (1, 2, 9), 2, (-1, (), (), (), OK)),
    "the last known is no replica any more": (
        lost(eligible_leader_replicas=(3,), last_known_elr=(2,)),
        Wish(isr=(), assignment=Assignment((1, 3))), (1, 2), 2, (-1, (), (3,), (), OK),
    ),
    "the last known begins anew": (lost(last_known_elr=(1,)), Wish(isr=(), emptied=1), (1, 2), 2, (-1, (), (), (), OK)),
    "the leader begins anew": (registered(isr=(1,)), Wish(isr=(), unclean=1, emptied=1), (2,), 1, (-1, (), (), (), OK)),
    "another one begins anew": (lost(last_known_elr=(1,)), Wish(isr=(), emptied=2), (1, 2), 2, (1, (1,), (), (), MARKED)),
    "the only replica begins anew": (
        lost(replicas=(1,), last_known_elr=(1,)), Wish(isr=(), emptied=1), (1,), 2, (1, (1,), (), (), MARKED),
    ),
    "the leader is no replica any more": (
        registered(isr=(1,), eligible_leader_replicas=(3,)),
        Wish(isr=(), assignment=Assignment((2, 3))), (1, 2), 2, (-1, (), (3,), (), OK),
    ),
    "unclean, where it may be": (
        lost(eligible_leader_replicas=(2,), last_known_elr=(2,)),
        Wish(isr=(), election=Election.UNCLEAN), (3,), 2, (3, (3,), (), (), MARKED),
    ),
    "clean before unclean": (
        lost(eligible_leader_replicas=(3,), last_known_elr=(2,)),
        Wish(isr=(), election=Election.UNCLEAN), (1, 2, 3), 2, (3, (3,), (), (), OK),
    ),
    "preferred among the eligible": (
        lost(eligible_leader_replicas=(1, 3)), Wish(isr=(), election=Election.PREFERRED), (1, 3), 2, (1, (1,), (3,), (), OK),
    ),
    "who is no replica any more": (
        registered(isr=(1,), eligible_leader_replicas=(2, 3)),
        Wish(isr=(1,), assignment=Assignment((1, 3))), (1,), 2, (1, (1,), (3,), (), OK),
    ),
    "off: the last member stays": (registered(isr=(1,)), Wish(isr=()), (), None, (-1, (1,), (), (), OK)),
    "off: what is left may lead": (
        registered(isr=(1,), eligible_leader_replicas=(2,)), Wish(isr=()), (2,), None, (2, (2,), (), (), OK),
    ),
    "off: what is left goes": (
        registered(isr=(1,), eligible_leader_replicas=(2,)), Wish(isr=(1, 3)), (1, 3), None, (1, (1, 3), (), (), OK),
    ),
    "off: nobody was in sync": (
        lost(eligible_leader_replicas=(2,), last_known_elr=(1,)), Wish(isr=()), (1, 3), None, (-1, (), (2,), (1,), OK),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_who_leads_and_who_may(name: str) -> None:
    """B-C31, KIP-966, inv:C5, inv:C7, inv:C10, inv:C11: ISR, then ELR, then who led last; never who may have lost records."""
    before, wish, alive, min_isr, expected = CASES[name]
    assert after(before, wish, *alive, min_isr=min_isr) == expected


def on(count: int = 3, **settings: Any) -> tuple[ControllerBench, dict[int, int]]:
    """A cluster with the feature, in which two replicas must be in sync."""
    return cluster(count, features=ON, min_insync_replicas=2, **settings)


def state(bench: ControllerBench, name: str = "t") -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(leader, ISR, ELR, LastKnownElr)."""
    found = partition(bench, name=name)
    return found.leader, found.isr, found.eligible_leader_replicas, found.last_known_elr


def register_anew(bench: ControllerBench, broker_id: int, previous: int, **changes: Any) -> Any:
    """Another process of a broker, which tells the epoch of its last clean stop; one that was fenced has ended."""
    if bench.machine.image.cluster.brokers[broker_id].fenced:
        end(bench, broker_id)
    changes = {"incarnation_id": incarnation(70 + broker_id), "previous_broker_epoch": previous} | changes
    return bench.ask(registration(broker_id, **changes))


def test_a_cluster_begins_with_one_min_isr_for_all_brokers() -> None:
    """KIP-966: the controller's own, so that every leader waits for as many as the controller counts."""
    bench, _ = on()
    assert dict(bench.machine.image.configs.of_all_brokers()) == {MIN_ISR: "2"}
    assert dict(cluster(min_insync_replicas=2)[0].machine.image.configs.of_all_brokers()) == {}


def test_only_who_stopped_cleanly_stays_eligible() -> None:
    """inv:C10, S1-50, B-K04: the broker tells the epoch it had when it stopped; another one, or none, is no proof."""
    bench, epochs = on()
    topic(bench, (1, 2, 3))
    for broker_id in (3, 2, 1):
        fence(bench, broker_id, epochs[broker_id])
    assert state(bench) == (NO_LEADER, (), (1, 2), (1,))
    assert register_anew(bench, 2, epochs[2]).error_code == 0
    assert state(bench) == (NO_LEADER, (), (1, 2), (1,))
    assert register_anew(bench, 1, epochs[1] - 1).error_code == 0
    assert state(bench) == (NO_LEADER, (), (2,), (1,))
    assert register_anew(bench, 2, -1, incarnation_id=incarnation(82)).error_code == 0
    assert state(bench) == (NO_LEADER, (), (), (1,))


def test_a_broker_that_was_unregistered_has_no_proof() -> None:
    """inv:C10: nobody knows whose epoch it was."""
    bench, epochs = on()
    topic(bench, (1, 2))
    bench.ask(UnregisterBrokerRequest(broker_id=2))
    assert state(bench) == (1, (1,), (2,), ())
    answer = bench.ask(registration(2, incarnation_id=incarnation(72), previous_broker_epoch=epochs[2]))
    assert (answer.error_code, state(bench)) == (0, (1, (1,), (), ()))
    assert bench.machine.image.cluster.brokers[2].broker_epoch == answer.broker_epoch


def test_the_last_known_leader_leads_when_it_is_back_and_counts_as_unclean() -> None:
    """inv:C11: nobody else is left that had everything; the partition is marked."""
    bench, epochs = on()
    topic(bench, (1, 2, 3))
    for broker_id in (3, 2, 1):
        fence(bench, broker_id, epochs[broker_id])
    again = {each: register_anew(bench, each, -1).broker_epoch for each in (1, 2, 3)}
    bench.heartbeat(2, again[2])
    assert state(bench) == (NO_LEADER, (), (), (1,))
    bench.heartbeat(1, again[1])
    assert state(bench) == (1, (1,), (), ())
    assert partition(bench).leader_recovery_state == LEADER_RECOVERING
    assert bench.machine.statistics.unclean_elections == 1


def test_the_last_known_leader_does_not_lead_with_an_empty_disk() -> None:
    """inv:C11, KIP-858: the others, which stopped uncleanly, have nearly all; they would cut it."""
    bench, epochs = on()
    topic(bench, (1, 2, 3))
    for broker_id in (3, 2, 1):
        fence(bench, broker_id, epochs[broker_id])
    again = {each: register_anew(bench, each, -1).broker_epoch for each in (2, 3)}
    assert state(bench) == (NO_LEADER, (), (1,), (1,))
    again[1] = register_anew(bench, 1, epochs[1], log_dirs=(Uuid(b"N" * 16),)).broker_epoch
    for broker_id in (1, 2, 3):
        bench.heartbeat(broker_id, again[broker_id])
    assert state(bench) == (NO_LEADER, (), (), ())


def assign(bench: ControllerBench, broker_id: int, broker_epoch: int, home: Uuid) -> None:
    """The broker tells that its replica of the only partition is in this directory."""
    topic_id = bench.machine.image.topics.by_name["t"].id
    there = RequestTopicData(topic_id=topic_id, partitions=(RequestPartitionData(partition_index=0),))
    where = RequestDirectoryData(id=home, topics=(there,))
    bench.ask(AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=broker_epoch, directories=(where,)))


@pytest.mark.parametrize(("homes", "leader"), [(b"AB", 2), (b"BC", NO_LEADER)])
def test_the_last_known_leader_does_not_lead_from_a_directory_that_took_a_lost_one_s_place(
    homes: bytes, leader: int
) -> None:
    """inv:C11, KIP-858: one of its directories is gone, and its replica there is made anew in another; where it was moved it has all that it had."""
    bench, epochs = on(1)
    epochs[2] = bench.broker(2, log_dirs=(Uuid(b"A" * 16), Uuid(b"B" * 16)))
    topic(bench, (2, 1))
    assign(bench, 2, epochs[2], Uuid(b"A" * 16))
    for broker_id in (1, 2):
        fence(bench, broker_id, epochs[broker_id])
    log_dirs = tuple(Uuid(bytes([each]) * 16) for each in homes)
    again = {1: register_anew(bench, 1, -1).broker_epoch}
    again[2] = register_anew(bench, 2, -1, log_dirs=log_dirs).broker_epoch
    assert state(bench) == (NO_LEADER, (), (), (2,))
    bench.heartbeat(1, again[1])
    bench.heartbeat(2, again[2])
    assign(bench, 2, again[2], Uuid(b"B" * 16))
    assert state(bench)[0] == leader


def test_the_last_known_leader_does_not_lead_from_the_directory_that_follows_a_lost_place() -> None:
    """inv:C11, KIP-858: it was in a directory that failed before the controller knew of it, so nobody can tell whether the replica was found there or made anew."""
    bench, epochs = on(1)
    epochs[2] = bench.broker(2, log_dirs=(Uuid(b"A" * 16), Uuid(b"B" * 16)))
    topic(bench, (2, 1))
    fence(bench, 1, epochs[1])
    assign(bench, 2, epochs[2], LOST_DIRECTORY)
    assert state(bench) == (NO_LEADER, (), (1, 2), (2,))
    fence(bench, 2, epochs[2])
    again = {1: register_anew(bench, 1, -1).broker_epoch}
    again[2] = register_anew(bench, 2, -1, log_dirs=(Uuid(b"B" * 16), Uuid(b"C" * 16))).broker_epoch
    bench.heartbeat(1, again[1])
    bench.heartbeat(2, again[2])
    assert state(bench) == (NO_LEADER, (), (), (2,))
    assign(bench, 2, again[2], Uuid(b"C" * 16))
    assert state(bench) == (NO_LEADER, (), (), ())


def configure(bench: ControllerBench, kind: int, name: str, value: str | None) -> tuple[int, str | None]:
    """The answer to another `min.insync.replicas`."""
    change = AlterableConfig(name=MIN_ISR, config_operation=0 if value is not None else 1, value=value)
    asked = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))
    answer = bench.ask(IncrementalAlterConfigsRequest(resources=(asked,))).responses[0]
    return answer.error_code, answer.error_message


def test_another_min_isr_forgets_the_elrs_made_under_the_old_one() -> None:
    """KIP-966: of the topic, or of all; the index forgets them, too."""
    bench, epochs = on()
    topic(bench, (1, 2))
    topic(bench, (1, 2), name="other")
    fence(bench, 2, epochs[2])
    assert (state(bench), state(bench, "other")) == ((1, (1,), (2,), ()),) * 2
    assert configure(bench, 2, "t", "1") == (0, None)
    assert bench.log[-1] == ClearElrRecord(topic_name="t")
    assert (state(bench), state(bench, "other")) == ((1, (1,), (), ()), (1, (1,), (2,), ()))
    active = bench.machine._active
    assert active is not None
    index = active.derived.index
    assert [each.topic_id for each in index.with_elr()] == [bench.machine.image.topics.by_name["other"].id]
    assert configure(bench, 4, "", "3") == (0, None)
    assert bench.log[-1] == ClearElrRecord(topic_name="")
    assert state(bench, "other") == (1, (1,), (), ())
    assert index.with_elr() == []


def test_no_broker_has_its_own_min_isr_and_that_of_all_stays() -> None:
    """KIP-966: refused while the feature is on."""
    bench, _ = on()
    own = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    assert configure(bench, 4, "1", "1") == (ErrorCode.INVALID_CONFIG, own)
    assert configure(bench, 4, "1", None) == (ErrorCode.INVALID_CONFIG, own)
    gone = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    assert configure(bench, 4, "", None) == (ErrorCode.INVALID_CONFIG, gone)


def update(bench: ControllerBench, level: int, kind: int, *others: FeatureUpdateKey) -> Any:
    """The answer to another level of the feature."""
    asked = FeatureUpdateKey(feature=ELR_FEATURE, max_version_level=level, upgrade_type=kind)
    return bench.ask(UpdateFeaturesRequest(feature_updates=(asked, *others), timeout_ms=1), version=2)


def test_the_feature_goes_on_with_safe_settings_and_off_again() -> None:
    """B-U01, B-U02: needs metadata.version 23; brokers' own settings go, what is left of ELRs stays true."""
    bench, epochs = cluster(min_insync_replicas=2)
    assert configure(bench, 4, "1", "1") == (0, None)
    assert update(bench, 1, 1).error_code == 0
    assert bench.log[-2:] == [
        ConfigRecord(resource_type=4, resource_name="", name=MIN_ISR, value="2"),
        ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value=None),
    ]
    topic(bench, (1, 2, 3))
    fence(bench, 3, epochs[3])
    fence(bench, 2, epochs[2])
    assert state(bench) == (1, (1,), (2,), ())
    assert update(bench, 0, 2).error_code == 0
    assert state(bench) == (1, (1,), (2,), ())
    assert configure(bench, 4, "", None) == (0, None)
    assert state(bench) == (1, (1,), (), ())


def test_the_feature_needs_records_that_can_tell_of_it() -> None:
    """B-U02: the level is refused below 4.0-IV1, and the refusal says so."""
    old = replay_all(EMPTY_IMAGE, [FeatureLevelRecord(name="metadata.version", feature_level=20)])
    bench = ControllerBench(image=old)
    bench.gain(next_offset=2)
    answer = update(bench, 1, 1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    reason = f"{ELR_FEATURE} could not be set to 1 because it depends on metadata.version level 23"
    assert answer.error_message.endswith(f"Invalid update version 1 for feature {ELR_FEATURE}. {reason}")
    up = FeatureUpdateKey(feature="metadata.version", max_version_level=23, upgrade_type=1)
    assert update(bench, 1, 1, up).error_code == 0


def test_what_was_unclean_leaves_the_elr_though_the_feature_is_off() -> None:
    """inv:C10: what is left of an ELR may still lead."""
    bench, epochs = on()
    topic(bench, (1, 2))
    fence(bench, 2, epochs[2])
    update(bench, 0, 2)
    assert state(bench) == (1, (1,), (2,), ())
    register_anew(bench, 2, -1)
    assert state(bench) == (1, (1,), (), ())


@pytest.mark.parametrize(("eligible", "error"), [((1,), 0), ((3,), ErrorCode.INVALID_REPLICA_ASSIGNMENT)])
def test_a_move_is_cancelled_where_one_of_the_replicas_before_is_eligible(
    eligible: tuple[int, ...], error: int
) -> None:
    """KIP-455, inv:C11: nobody is in sync; one of the ELR is enough, an added one is not."""
    bench, epochs = on(4)
    topic(bench, (1, 2))
    parts = (ReassignablePartition(partition_index=0, replicas=(3, 4)),)
    bench.ask(AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=parts),)))
    if eligible == (3,):
        join(bench, 1, epochs, (1, 2, 3))
    fence(bench, 2, epochs[2])
    fence(bench, 1, epochs[1])
    if eligible == (3,):
        register_anew(bench, 1, -1)
        fence(bench, 3, epochs[3])
    assert set(eligible) <= set(state(bench)[2])
    back = (ReassignablePartition(partition_index=0, replicas=None),)
    answer = bench.ask(AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=back),)))
    assert answer.responses[0].partitions[0].error_code == error
    if not error:
        assert (partition(bench).replicas, state(bench)[1]) == ((1, 2), ())


def test_the_index_knows_who_is_in_which_elr() -> None:
    """S2-01, B-C31: at the cost of the change."""
    index = IsrIndex()
    one, two = registered(isr=(1,), eligible_leader_replicas=(2,)), registered(isr=(1,), eligible_leader_replicas=(3,))
    index.changed(*PLACE, None, one)
    assert [list(index.partitions_with(in_elr(each))) for each in (1, 2, 3)] == [[], [PLACE], []]
    index.changed(*PLACE, one, two)
    assert [list(index.partitions_with(in_elr(each))) for each in (1, 2, 3)] == [[], [], [PLACE]]
    assert index.with_elr() == [PLACE]
    index.changed(*PLACE, two, registered())
    assert index.with_elr() == []


def test_a_request_of_an_old_broker_has_no_proof() -> None:
    """KIP-966: BrokerRegistration tells the epoch from version 3 on; -1 is what is read otherwise."""
    assert BrokerRegistrationRequest().previous_broker_epoch == -1


def test_a_registration_under_way_when_the_feature_comes_is_asked_for_again() -> None:
    """inv:C10: without the feature a broker stays in an ISR of which it is the last member, with it a new incarnation is in none."""
    bench, _ = cluster(2)
    for name in ("t", "u"):
        topic(bench, (2,), name=name)
    bench.ask(UnregisterBrokerRequest(broker_id=2))
    assert partition(bench).isr == (2,)
    bench.machine.slice_size = 1
    effects = bench.send(registration(2, incarnation_id=incarnation(9)))
    asked = FeatureUpdateKey(feature=ELR_FEATURE, max_version_level=1, upgrade_type=1)
    bench.send(UpdateFeaturesRequest(feature_updates=(asked,), timeout_ms=1))
    for _ in range(4):
        effects += bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))) + bench.commit()
    answers = [each.response for each in effects if isinstance(each, Answer)]
    assert BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT) in answers
    assert 2 not in bench.machine.image.cluster.brokers
    bench.machine.slice_size = 10
    assert bench.ask(registration(2, incarnation_id=incarnation(9))).error_code == 0
    assert [partition(bench, name=name).isr for name in ("t", "u")] == [(), ()]


def test_a_clean_stop_proves_nothing_of_a_directory_that_is_gone() -> None:
    """inv:C10, KIP-858, KIP-966: the replica in it begins anew, empty, and must not lead what the others acknowledged; the others of the broker stay eligible."""
    homes = (directory(3), Uuid(b"B" * 16))
    bench, epochs = on(2)
    epochs[3] = bench.broker(3, log_dirs=homes)
    topic(bench, (1, 3), (1, 3), (1, 3))
    image = bench.machine.image.topics.by_name["t"]
    for number, home in enumerate(homes):
        there = RequestTopicData(topic_id=image.id, partitions=(RequestPartitionData(partition_index=number),))
        where = RequestDirectoryData(id=home, topics=(there,))
        bench.ask(AssignReplicasToDirsRequest(broker_id=3, broker_epoch=epochs[3], directories=(where,)))
    fence(bench, 3, epochs[3])
    assert [partition(bench, number).eligible_leader_replicas for number in range(3)] == [(3,)] * 3
    third = Uuid(b"C" * 16)
    assert register_anew(bench, 3, epochs[3], log_dirs=(homes[0], third)).error_code == 0
    assert [partition(bench, number).eligible_leader_replicas for number in range(3)] == [(3,), (), (3,)]


def test_a_replica_in_sync_whose_directory_is_gone_is_not_eligible_either() -> None:
    """inv:C10: the same of a broker that is registered anew before its session is over, by the process that the controller is in."""
    bench, epochs = on(1)
    epochs[2] = bench.broker(2, log_dirs=(directory(2), Uuid(b"B" * 16)))
    topic(bench, (2, 1))
    image = bench.machine.image.topics.by_name["t"]
    there = RequestTopicData(topic_id=image.id, partitions=(RequestPartitionData(partition_index=0),))
    where = RequestDirectoryData(id=directory(2), topics=(there,))
    bench.ask(AssignReplicasToDirsRequest(broker_id=2, broker_epoch=epochs[2], directories=(where,)))
    assert partition(bench).isr == (2, 1)
    bench.now_ms += bench.config.broker_session_timeout_ms + 1
    register_anew(bench, 2, epochs[2], log_dirs=(Uuid(b"B" * 16), Uuid(b"C" * 16)))
    assert (partition(bench).isr, partition(bench).eligible_leader_replicas) == ((1,), ())
