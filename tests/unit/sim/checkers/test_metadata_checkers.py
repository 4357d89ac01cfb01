"""Made-up metadata, calls and ends of runs: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.ids import Uuid
from headrace.core.values import changed
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage, MetadataProvenance, PartitionRegistration
from headrace.metadata.replay import replay_all
from headrace.raft.events import QuorumState
from headrace.raft.roles import Unattached
from headrace.sim.checkers.history import History
from headrace.sim.checkers.images import Images, images_differ
from headrace.sim.checkers.liveness import Liveness, may_lead
from headrace.sim.checkers.partitions import CommittedState, epochs_fault, shape_fault
from headrace.sim.checkers.settings_model import SettingsModel
from headrace.sim.observation import BatchApplied, CallStarted, ImagePublished, Outcome, ResponseSent
from headrace.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from headrace.wire.schema import Message
from tests.support.histories import breaks
from tests.support.made_up_metadata import TOPIC, Calling, Reigning, framed, image_of, partition, registered

OTHER = Uuid(b"other-topic-----")


def _created(name: str = "t", topic_id: Uuid = TOPIC) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def _setting(value: str | None, name: str = "a") -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name="", name=name, value=value)


def _shown(reign: Reigning, *records: Message, end: int | None = None) -> MetadataImage:
    """The image that a node would show after these records, up to `end` (the committed end)."""
    last = (reign.ghost.committed.end if end is None else end) - 1
    truth = reign.ghost.committed.image_at(last + 1)
    provenance = MetadataProvenance(last_contained_offset=last) if truth is None else truth.provenance
    return replace(replay_all(EMPTY_IMAGE, records), provenance=provenance)


def _publishes(reign: Reigning, image: MetadataImage, node_id: int = 2) -> None:
    reign.step(node_id, ImagePublished(image), image=image)


# C2, C3, C4, C18


def test_an_image_that_differs_from_the_log_is_flagged() -> None:
    """inv:C2: found in what the last records touched."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    with breaks("C2"):
        _publishes(reign, _shown(reign, _setting("2")))


def test_an_image_that_is_what_the_log_says_is_fine() -> None:
    """inv:C2."""
    reign = Reigning(Images)
    reign.write([_setting("1")], [_created()])
    _publishes(reign, _shown(reign, _setting("1"), _created()))
    reign.watcher.now_and_then(reign.cluster)


def test_a_difference_that_no_record_touched_is_found_by_the_full_look() -> None:
    """inv:C2."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    _publishes(reign, _shown(reign, _setting("1")))
    reign.write([_created()])
    _publishes(reign, _shown(reign, _setting("9"), _created()))
    with breaks("C2"):
        reign.watcher.now_and_then(reign.cluster)


def test_what_readers_get_is_judged_and_not_what_the_loader_holds() -> None:
    """inv:C2: the image that is handed on is another one."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    with breaks("C2"):
        reign.step(2, ImagePublished(_shown(reign, _setting("2"))), image=_shown(reign, _setting("1")))


def test_an_image_beyond_what_is_committed_is_flagged() -> None:
    """inv:C3."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    with breaks("C3"):
        _publishes(reign, _shown(reign, _setting("1"), end=3))


def test_an_image_in_the_middle_of_an_operation_is_flagged() -> None:
    """inv:C4."""
    reign = Reigning(Images)
    reign.write([_created(), partition(replicas=(1,), leader=-1)])
    with breaks("C4"):
        _publishes(reign, _shown(reign, _created(), end=2))


def test_records_of_an_open_transaction_are_not_shown() -> None:
    """inv:C4: the image stays at what was before it, whatever is committed behind."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    shown = _shown(reign, _setting("1"))
    reign.write([BeginTransactionRecord(name="x"), _setting("2")])
    _publishes(reign, shown)
    reign.watcher.now_and_then(reign.cluster)
    with breaks("C4"):
        _publishes(reign, replace(image_of(_setting("2")), provenance=MetadataProvenance(last_contained_offset=3)))


def test_an_image_that_goes_back_is_flagged() -> None:
    """inv:R8."""
    reign = Reigning(Images)
    reign.write([_setting("1")])
    _publishes(reign, _shown(reign, _setting("1")))
    with breaks("R8"):
        _publishes(reign, EMPTY_IMAGE)


def test_a_node_that_goes_on_after_a_record_it_could_not_replay_is_flagged() -> None:
    """inv:C18."""
    reign = Reigning(Images)
    reign.node(2).plane.loader._fault = RuntimeError("no")
    reign.step(2, BatchApplied(0, 1, 1, ()))
    with breaks("C18"):
        reign.step(2, BatchApplied(1, 2, 1, ()))


def test_each_part_of_an_image_counts() -> None:
    """inv:C2: what the comparison looks at."""
    base = image_of(registered(1, epoch=1), _created(), partition(replicas=(1,)))
    changes: list[Message] = [
        _setting("1"),
        ProducerIdsRecord(next_producer_id=7),
        registered(2, epoch=2),
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=-1),
        AccessControlEntryRecord(id=OTHER),
        UserScramCredentialRecord(name="u", mechanism=1),
        ClientQuotaRecord(entity=(EntityData(entity_type="user", entity_name="u"),), key="k", value=1.0),
    ]
    assert images_differ(base, base) == ""
    assert all(images_differ(base, replay_all(base, [each])) for each in changes)


# C5, C6


@pytest.mark.parametrize(
    ("fields", "is_wrong"),
    [
        ({}, False),
        ({"leader": -1}, False),
        ({"replicas": ()}, True),
        ({"replicas": (1, 1, 2)}, True),
        ({"isr": (1, 4)}, True),
        ({"leader": 3, "isr": (1, 2)}, True),
        ({"eligible_leader_replicas": (3,), "isr": (1, 2)}, False),
        ({"eligible_leader_replicas": (2,), "isr": (1, 2)}, True),
        ({"adding_replicas": (3,)}, False),
        ({"adding_replicas": (4,)}, True),
        ({"adding_replicas": (3,), "removing_replicas": (3,)}, True),
    ],
)
def test_the_shape_of_a_partition(fields: dict[str, Any], is_wrong: bool) -> None:
    """inv:C5."""
    usual: dict[str, Any] = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "leader": 1}
    assert bool(shape_fault(PartitionRegistration(**(usual | fields)))) == is_wrong


@pytest.mark.parametrize(
    ("fields", "is_wrong"),
    [
        ({"partition_epoch": 6, "isr": (1, 2)}, False),
        ({"partition_epoch": 6, "leader": 2, "leader_epoch": 6}, False),
        ({"isr": (1, 2)}, True),
        ({"partition_epoch": 4}, True),
        ({"partition_epoch": 6, "leader_epoch": 4}, True),
        ({"partition_epoch": 6, "leader": 2}, True),
        ({"partition_epoch": 7, "isr": (1, 2)}, True),
        ({"partition_epoch": 6, "leader": 2, "leader_epoch": 7}, True),
    ],
)
def test_the_epochs_of_a_changed_partition(fields: dict[str, Any], is_wrong: bool) -> None:
    """inv:C6."""
    before = PartitionRegistration(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=5)
    assert bool(epochs_fault(before, replace(before, **fields), records=1)) == is_wrong


def test_a_committed_partition_of_a_wrong_shape_is_flagged() -> None:
    """inv:C5."""
    reign = Reigning(CommittedState)
    with breaks("C5"):
        reign.write([_created(), partition(replicas=(1, 2), isr=(1, 3))])


# C8, C12, C13, C17


def test_a_broker_epoch_that_is_not_its_records_offset_is_flagged() -> None:
    """inv:C8."""
    reign = Reigning(CommittedState)
    with breaks("C8"):
        reign.write([registered(1, epoch=9)])


def test_broker_epochs_that_are_their_records_offsets_are_fine() -> None:
    """inv:C8: and the same again, when it only says something new of itself."""
    reign = Reigning(CommittedState)
    reign.write([registered(1, epoch=1)], [registered(1, epoch=1, rack="r")], [registered(1, epoch=3, run=2)])


def test_a_deleted_topic_id_that_comes_back_is_flagged() -> None:
    """inv:C12."""
    reign = Reigning(CommittedState)
    reign.write([_created()], [RemoveTopicRecord(topic_id=TOPIC)])
    with breaks("C12"):
        reign.write([_created("again")])


def test_a_name_that_comes_back_with_another_id_is_fine() -> None:
    """inv:C12."""
    reign = Reigning(CommittedState)
    reign.write([_created()], [RemoveTopicRecord(topic_id=TOPIC)], [_created("t", OTHER)])


def test_partitions_with_a_gap_are_flagged() -> None:
    """inv:C12."""
    reign = Reigning(CommittedState)
    with breaks("C12"):
        reign.write([_created(), partition(1, replicas=(1,), leader=-1)])


def test_producer_ids_that_go_back_are_flagged() -> None:
    """inv:C13: the replay itself refuses a lower one, so the made-up image says it."""
    reign = Reigning(CommittedState)
    group = reign.watcher.groups[0]
    assert isinstance(group, CommittedState)
    group._image = replace(EMPTY_IMAGE, next_producer_id=5_000)
    with breaks("C13"):
        reign.write([ProducerIdsRecord(next_producer_id=1_000)])


def test_settings_that_the_image_has_and_no_record_set_are_flagged() -> None:
    """inv:C17: the model is plain dictionaries."""
    model = SettingsModel()
    assert model.take([_setting("1")], image_of(_setting("1"))) == ""
    assert "configs" in model.take([_setting("2")], image_of(_setting("1")))


def test_deleting_one_acl_leaves_all_others_however_alike() -> None:
    """inv:C17, defect:K44."""
    model = SettingsModel()
    one, two = AccessControlEntryRecord(id=TOPIC, host="h"), AccessControlEntryRecord(id=OTHER, host="h")
    assert model.take([one, two], image_of(one, two)) == ""
    gone = RemoveAccessControlEntryRecord(id=TOPIC)
    assert model.take([gone], image_of(two)) == ""
    assert "ACL" in model.take([_created(), RemoveAccessControlEntryRecord(id=OTHER)], image_of(two))


def test_records_of_an_aborted_transaction_set_nothing() -> None:
    """inv:C17, KIP-868."""
    model = SettingsModel()
    model.hold([BeginTransactionRecord(name="x"), _setting("1")])
    assert model.take([AbortTransactionRecord()], EMPTY_IMAGE) == ""
    model.hold([BeginTransactionRecord(name="x"), _setting("1")])
    assert model.take([EndTransactionRecord()], image_of(_setting("1"))) == ""


def test_settings_go_with_their_topic() -> None:
    """inv:C17, B-C08."""
    model = SettingsModel()
    setting = ConfigRecord(resource_type=2, resource_name="t", name="a", value="1")
    assert model.take([_created(), setting], image_of(_created(), setting)) == ""
    removed = RemoveTopicRecord(topic_id=TOPIC)
    assert model.take([removed], image_of(_created(), setting, removed)) == ""
    assert model.configs == {}


# H13, PR3


def _create(name: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=(CreatableTopic(name=name),))


def _made(error: int = 0, topic_id: Uuid = TOPIC, name: str = "t") -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=(CreatableTopicResult(name=name, topic_id=topic_id, error_code=error),))


def _unmade(error: int = 0, topic_id: Uuid = TOPIC) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", topic_id=topic_id, error_code=error),))


DELETE = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),))


class MakingTopics(Calling):
    """With one client."""

    def __init__(self) -> None:
        super().__init__(History)

    def make(self) -> None:
        """Topic `t` is made and acknowledged."""
        call = self.begin(_create())
        self.write([_created()])
        self.end(call, _create(), _made())


def test_an_acknowledged_topic_that_is_not_committed_is_flagged() -> None:
    """inv:H13, inv:PR3."""
    calling = MakingTopics()
    call = calling.begin(_create())
    with breaks("H13"):
        calling.end(call, _create(), _made())


def test_an_acknowledged_topic_that_was_there_before_is_flagged() -> None:
    """inv:H13: the call changed nothing and says that it did."""
    calling = MakingTopics()
    calling.make()
    call = calling.begin(_create())
    with breaks("H13"):
        calling.end(call, _create(), _made())


def test_an_unknown_outcome_may_be_either() -> None:
    """inv:H13: made or not, both are fine."""
    calling = MakingTopics()
    for writes in (False, True):
        call = calling.begin(_create())
        if writes:
            calling.write([_created()])
        calling.end(call, _create(), None, Outcome.UNKNOWN)
    calling.watcher.at_end(calling.cluster)


def test_a_topic_that_is_said_to_exist_and_does_not_is_flagged() -> None:
    """inv:H13: a stale refusal."""
    calling = MakingTopics()
    call = calling.begin(_create())
    with breaks("H13"):
        calling.end(call, _create(), _made(error=36), Outcome.FAILED)


def test_a_topic_that_existed_at_some_moment_of_the_call_may_be_said_to_exist() -> None:
    """inv:H13: it was deleted before the answer came."""
    calling = MakingTopics()
    calling.make()
    call = calling.begin(_create())
    calling.write([RemoveTopicRecord(topic_id=TOPIC)])
    calling.end(call, _create(), _made(error=36), Outcome.FAILED)


def test_a_topic_that_is_said_to_be_unknown_and_is_there_all_the_time_is_flagged() -> None:
    """inv:H13."""
    calling = MakingTopics()
    calling.make()
    call = calling.begin(DELETE)
    with breaks("H13"):
        calling.end(call, DELETE, _unmade(error=3), Outcome.FAILED)


def test_a_deletion_that_two_calls_are_told_is_flagged() -> None:
    """inv:H13: one of them must have found it gone."""
    calling = MakingTopics()
    calling.make()
    one, two = calling.begin(DELETE), calling.begin(DELETE)
    calling.write([RemoveTopicRecord(topic_id=TOPIC)])
    calling.end(one, DELETE, _unmade())
    with breaks("H13"):
        calling.end(two, DELETE, _unmade())


def test_a_setting_that_is_acknowledged_and_never_was_is_flagged() -> None:
    """inv:H13."""
    request = IncrementalAlterConfigsRequest(
        resources=(AlterConfigsResource(resource_type=4, configs=(AlterableConfig(name="a", value="2"),)),)
    )
    response = IncrementalAlterConfigsResponse(responses=(AlterConfigsResourceResponse(resource_type=4),))
    calling = MakingTopics()
    call = calling.begin(request)
    calling.write([_setting("2")], [_setting("3")])
    calling.end(call, request, response)
    call = calling.begin(request)
    with breaks("H13"):
        calling.end(call, request, response)


def test_partitions_that_are_acknowledged_and_never_were_are_flagged() -> None:
    """inv:H13."""
    request = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="t", count=2),))
    response = CreatePartitionsResponse(results=(CreatePartitionsTopicResult(name="t"),))
    calling = MakingTopics()
    calling.make()
    call = calling.begin(request)
    with breaks("H13"):
        calling.end(call, request, response)


def test_a_node_that_tells_what_its_metadata_does_not_say_is_flagged() -> None:
    """inv:H13: a read at a broker is what its image says."""
    calling = MakingTopics()
    calling.make()
    image = image_of(_created())
    told = MetadataResponse(topics=(MetadataResponseTopic(name="t", topic_id=TOPIC),))
    calling.step(2, ResponseSent(-1, MetadataRequest(), told), image=image)
    stale = MetadataResponse(topics=(MetadataResponseTopic(name="t", topic_id=OTHER),))
    with breaks("H13"):
        calling.step(2, ResponseSent(-1, MetadataRequest(), stale), image=image)


def test_an_acknowledged_topic_that_is_gone_at_the_end_is_flagged() -> None:
    """inv:PR3: nobody asked for it."""
    calling = MakingTopics()
    calling.make()
    calling.write([RemoveTopicRecord(topic_id=TOPIC)])
    with breaks("PR3"):
        calling.watcher.at_end(calling.cluster)


def test_an_acknowledged_topic_that_somebody_may_have_deleted_may_be_gone() -> None:
    """inv:PR3: the outcome of the deletion is unknown."""
    calling = MakingTopics()
    calling.make()
    call = calling.begin(DELETE)
    calling.write([RemoveTopicRecord(topic_id=TOPIC)])
    calling.end(call, DELETE, None, Outcome.UNKNOWN)
    calling.watcher.at_end(calling.cluster)


# RL1, RL2, RL3, CL1, CL2, CL3


def _healed(*records: Message) -> Reigning:
    """All three know leader and high watermark, and have every record."""
    reign = Reigning(Liveness)
    if records:
        reign.write(list(records))
    reign.follow(3, 1, 1)
    end = reign.ghost.committed.end
    image = _shown(reign, *records)
    for each in (1, 2, 3):
        reign.step(each, high_watermark=end, image=image)
    reign.wait(10_000)
    return reign


def _judge(reign: Reigning) -> None:
    reign.watcher.at_end(reign.cluster)


def test_a_healed_cluster_is_fine() -> None:
    """inv:RL1, inv:RL2, inv:RL3, inv:CL1."""
    _judge(_healed(_setting("1")))


def test_a_node_that_knows_no_leader_at_the_end_is_flagged() -> None:
    """inv:RL1."""
    reign = _healed()
    reign.step(3, role=Unattached(epoch=2))
    with breaks("RL1"):
        _judge(reign)


def test_a_leader_that_all_name_and_that_does_not_lead_is_flagged() -> None:
    """inv:RL1."""
    reign = _healed()
    reign.crash(1)
    reign.cluster.nodes[1].is_up = False
    with breaks("RL1"):
        _judge(reign)


def test_a_leader_whose_controller_takes_nothing_is_flagged() -> None:
    """inv:RL2: it never became active after the last failover."""
    reign = _healed(_setting("1"))
    reign.cluster.nodes[1].controller.is_active = False
    with breaks("RL2"):
        _judge(reign)


def test_a_call_without_an_end_is_flagged() -> None:
    """inv:RL2."""
    reign = _healed()
    reign.called(CallStarted(call_id=1, client_id=1, request=DELETE, api_version=0))
    with breaks("RL2"):
        _judge(reign)


def test_a_node_that_stays_behind_is_flagged() -> None:
    """inv:RL3."""
    reign = _healed(_setting("1"))
    reign.crash(3)
    reign.start(3, stored=QuorumState(leader_epoch=1, leader_id=1))
    reign.follow(3, 1, 1)
    with breaks("RL3"):
        _judge(reign)


def test_a_node_whose_metadata_stays_behind_is_flagged() -> None:
    """inv:CL1."""
    reign = _healed(_setting("1"))
    reign.step(3, image=EMPTY_IMAGE)
    with breaks("CL1"):
        _judge(reign)


def _with_broker(*records: Message) -> Reigning:
    reign = _healed(registered(101, epoch=1), registered(102, epoch=2), _created(), *records)
    reign.start(101, stored=QuorumState(leader_epoch=1, leader_id=1))
    reign.follow(101, 1, 1)
    reign.step(101, high_watermark=reign.ghost.committed.end, image=reign.node(1).image)
    reign.wait(10_000)
    return reign


def test_a_partition_without_a_leader_though_one_could_is_flagged() -> None:
    """inv:CL2."""
    with breaks("CL2"):
        _judge(_with_broker(partition(replicas=(101,), leader=-1)))


def test_a_partition_whose_only_member_lost_the_directory_may_have_no_leader() -> None:
    """inv:CL2, KIP-858."""
    home, other = Uuid(b"directory-one---"), Uuid(b"directory-two---")
    broker: Any = registered(1, epoch=1)
    lost = partition(replicas=(1,), leader=-1, directories=(home,))
    for usable, may in (((other,), False), ((home, other), True)):
        image = image_of(changed(broker, log_dirs=usable), TopicRecord(name="t", topic_id=TOPIC), lost)
        found = image.topics.partition_by_id(TOPIC, 0)
        assert found is not None
        assert may_lead(image, found, 1) is may


def test_a_partition_whose_only_member_is_away_may_have_no_leader() -> None:
    """inv:CL2."""
    _judge(_with_broker(partition(replicas=(101, 103), isr=(103,), leader=-1)))


def test_a_reassignment_that_does_not_end_is_flagged() -> None:
    """inv:CL3."""
    with breaks("CL3"):
        _judge(_with_broker(partition(replicas=(101, 102), adding_replicas=(102,))))


def test_framed_records_are_read_back() -> None:
    """The helper of these tests writes what the log holds."""
    assert framed(_setting("1"))[:1] == b"\x01"
