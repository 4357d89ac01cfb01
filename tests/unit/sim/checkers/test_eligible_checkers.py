"""Made-up decisions about eligible leader replicas, and leaders that commit too much: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.controller.events import BrokerUnreachable
from headrace.metadata.versions import ELR_FEATURE
from headrace.sim.checkers import JUDGES
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.sim.checkers.decision_rules import FencedIsOut
from headrace.sim.checkers.eligible_replicas import Commitment, elr_fault, min_isr
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.fence_broker_record import FenceBrokerRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import BrokerFeature, RegisterBrokerRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import breaks
from tests.support.made_up_metadata import TOPIC, Reigning, image_of, partition, registered, usual_records

MIN_ISR = "min.insync.replicas"
ON = FeatureLevelRecord(name=ELR_FEATURE, feature_level=1)
TWO = ConfigRecord(resource_type=4, resource_name="", name=MIN_ISR, value="2")


def _change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)


def _reign(*more: Message) -> Reigning:
    """Brokers 1 to 3 have partition 0 of `t`, two must be in sync, and ELRs are kept."""
    return Reigning(lambda scene: ControllerSteps(scene, JUDGES), image=image_of(*usual_records(), TWO, ON, *more))


def _fences(broker_id: int, *records: Message) -> None:
    reign = _reign()
    event = BrokerUnreachable(broker_id=broker_id, broker_epoch=broker_id, now_ms=reign.now_ms)
    reign.decide(event, [*records, FenceBrokerRecord(id=broker_id, epoch=broker_id)])


# C5, C7


@pytest.mark.parametrize(
    ("records", "isr", "is_wrong"),
    [
        ((TWO, ON), (1,), False),
        ((TWO, ON), (1, 2), True),
        ((TWO,), (1, 2), False),
        ((ON,), (1,), True),
        ((ON, ConfigRecord(resource_type=2, resource_name="t", name=MIN_ISR, value="9")), (1, 2), False),
    ],
)
def test_an_elr_beside_enough_in_sync_is_flagged(
    records: tuple[Message, ...], isr: tuple[int, ...], is_wrong: bool
) -> None:
    """inv:C5, KIP-966: enough are as many as are set, of the topic or of all, and no more than there are."""
    elr = _change(isr=isr, eligible_leader_replicas=(3,))
    image = image_of(TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 2, 3)), *records, elr)
    assert bool(elr_fault(image, "t", image.topics.by_id[TOPIC].partitions[0])) == is_wrong
    assert min_isr(image, "other") == (2 if TWO in records else 1)


def test_the_last_member_does_not_stay_where_elrs_are_kept() -> None:
    """inv:C7: it is eligible in place of being in sync."""
    one = _change(isr=(1,), eligible_leader_replicas=(2,))
    for isr in ((), (1,)):
        reign = _reign(one)
        event = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=reign.now_ms)
        records = [_change(isr=isr, leader=-1, last_known_elr=(1,)), FenceBrokerRecord(id=1, epoch=1)]
        if isr:
            with breaks("C7"):
                reign.decide(event, records)
        else:
            reign.decide(event, records)


def test_who_stayed_as_the_last_member_before_elrs_were_kept_may_stay() -> None:
    """inv:C7: the feature is switched on while a broker is being fenced in steps; what these had decided before stands, and nothing else."""
    gone, fenced = _change(leader=-1), FenceBrokerRecord(id=1, epoch=1)
    for before in ([gone], []):
        image = image_of(*usual_records(), TWO, _change(isr=(1,)), *before)
        reign = Reigning(lambda scene: ControllerSteps(scene, (FencedIsOut,)), image=image)
        event = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=reign.now_ms)
        reign.decide(reign.request(UpdateFeaturesRequest()), [ON])
        if before:
            reign.decide(event, [fenced])
        else:
            with breaks("C7"):
                reign.decide(event, [gone, fenced])


# C10, C11


def _registers(previous: int, *records: Message) -> None:
    """Broker 2, fenced and eligible, comes back and tells this epoch of its last clean stop."""
    reign = _reign(_change(isr=(1,), eligible_leader_replicas=(2,)), FenceBrokerRecord(id=2, epoch=2))
    again = registered(2, epoch=90, fenced=True, run=2)
    assert isinstance(again, RegisterBrokerRecord)
    supported = BrokerFeature(name=ELR_FEATURE, min_supported_version=0, max_supported_version=1)
    again = replace(again, features=(*again.features, supported))
    request = BrokerRegistrationRequest(
        broker_id=2, incarnation_id=again.incarnation_id, previous_broker_epoch=previous
    )
    reign.decide(reign.request(request), [*records, again])


def test_who_comes_back_without_proof_and_stays_eligible_is_flagged() -> None:
    """inv:C10, defect:K43."""
    _registers(2)
    _registers(-1, _change(eligible_leader_replicas=()))
    for previous in (-1, 1):
        with breaks("C10"):
            _registers(previous)


def _is_elected(leader: int, before: dict[str, Any], **after: Any) -> Reigning:
    reign = _reign(_change(isr=(), leader=-1, **before))
    event = BrokerUnreachable(broker_id=3, broker_epoch=3, now_ms=reign.now_ms)
    records = [_change(isr=(leader,), leader=leader, last_known_elr=(), **after), FenceBrokerRecord(id=3, epoch=3)]
    reign.decide(event, records)
    return reign


def test_who_is_eligible_leads_as_if_it_had_been_in_sync() -> None:
    """inv:C11: without any setting, and without a mark."""
    eligible = {"eligible_leader_replicas": (1, 2), "last_known_elr": (2,)}
    reign = _is_elected(1, eligible, eligible_leader_replicas=(2,))
    assert reign.markers.counts["eligible leader replica elected"] == 1
    with breaks("C11"):
        _is_elected(1, eligible, eligible_leader_replicas=(2,), leader_recovery_state=1)


def test_who_is_eligible_while_somebody_away_is_in_sync_leads_by_an_unclean_election() -> None:
    """inv:C11: as in Kafka 4.3.1 the ELR counts where nobody is in sync; else it takes the setting, and a mark."""
    eligible = {"eligible_leader_replicas": (1,), "isr": (2,)}
    allowed = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    elected = _change(isr=(1,), leader=1, eligible_leader_replicas=(), leader_recovery_state=1)

    def elect(*records: Message) -> Reigning:
        reign = _reign(_change(leader=-1, **eligible), *records)
        event = BrokerUnreachable(broker_id=3, broker_epoch=3, now_ms=reign.now_ms)
        reign.decide(event, [elected, FenceBrokerRecord(id=3, epoch=3)])
        return reign

    assert elect(allowed).markers.counts["eligible leader replica elected by an unclean election"] == 1
    with breaks("C11"):
        elect()


def test_who_led_last_leads_when_nobody_is_eligible() -> None:
    """inv:C11: with a mark; while somebody is eligible it is an unclean election like any other."""
    reign = _is_elected(2, {"last_known_elr": (2,)}, leader_recovery_state=1)
    assert reign.markers.counts["last known leader elected"] == 1
    for before in ({"last_known_elr": (1,)}, {"last_known_elr": (2,), "eligible_leader_replicas": (1,)}):
        with breaks("C11"):
            _is_elected(2, before, leader_recovery_state=1, eligible_leader_replicas=())
    with breaks("C11"):
        _is_elected(2, {"last_known_elr": (2,)})


# P5, P6


class Leading:
    """Broker 1 leads a partition of `t`, as the controller has it."""

    def __init__(self, *records: Message) -> None:
        self.reign = Reigning(Commitment)
        self.reign.write([*usual_records(), TWO, ON, *records])
        (self.group,) = self.reign.watcher.groups
        self.leader = SimpleNamespace(
            leader_epoch=0,
            partition_epoch=0,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            proposal=None,
            min_insync_replicas=2,
            log=SimpleNamespace(high_watermark=5),
        )
        self.hosted = SimpleNamespace(topic="t", topic_id=TOPIC, partition=0, leader=self.leader)

    def look(self) -> None:
        """The checker looks at it."""
        machine = SimpleNamespace(broker=SimpleNamespace(partitions=[self.hosted]))
        node = SimpleNamespace(node_id=1, run=1, machine=machine)
        self.group.now_and_then(SimpleNamespace(nodes={1: node}))


def test_a_leader_that_counts_without_one_of_the_isr_is_flagged() -> None:
    """inv:P5: whom it has proposed counts; terms of another epoch are another's."""
    leading = Leading()
    leading.leader.isr = (1, 2)
    with breaks("P5"):
        leading.look()
    leading.leader.proposal = SimpleNamespace(isr=((1, 1), (2, 2), (3, 3)))
    leading.look()
    leading.leader.proposal, leading.leader.leader_epoch = None, 1
    leading.look()


def test_a_leader_that_commits_more_with_too_few_in_sync_is_flagged() -> None:
    """inv:P6, defect:X15: as long as nothing changed between."""
    leading = Leading(_change(isr=(1,), eligible_leader_replicas=(2, 3)))
    leading.leader.isr = (1,)
    for high_watermark, partition_epoch, is_wrong in ((5, 1, False), (5, 1, False), (6, 2, False), (7, 2, True)):
        leading.leader.log.high_watermark, leading.leader.partition_epoch = high_watermark, partition_epoch
        if is_wrong:
            with breaks("P6"):
                leading.look()
        else:
            leading.look()
    leading.leader.isr = (1, 2)
    leading.look()
    leading.leader.log.high_watermark = 9
    leading.look()
