"""Each metadata record has one meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from immutables import Map

from headrace.core.errors import DecodeError
from headrace.core.ids import MIGRATING_DIRECTORY, Uuid
from headrace.metadata.image import (
    EMPTY_IMAGE,
    AccessControlEntry,
    ConfigResource,
    EndPoint,
    FeatureRange,
    MetadataImage,
    PartitionRegistration,
    QuotaEntityPart,
)
from headrace.metadata.replay import ReplayError, replay, replay_all
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.clear_elr_record import ClearElrRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.fence_broker_record import FenceBrokerRecord
from headrace.wire.metadata_records.frame import decode_record, encode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.register_broker_record import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
)
from headrace.wire.metadata_records.register_controller_record import RegisterControllerRecord
from headrace.wire.metadata_records.registry import RECORD_TYPES
from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from headrace.wire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from headrace.wire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord

if TYPE_CHECKING:
    from headrace.wire.schema import Message

T1, T2 = Uuid(b"1" * 16), Uuid(b"2" * 16)
D1, D2, D3 = (Uuid(bytes([each]) * 16) for each in (201, 202, 203))
REGISTERED = RegisterBrokerRecord(
    broker_id=1,
    incarnation_id=T1,
    broker_epoch=5,
    end_points=(BrokerEndpoint(name="PLAINTEXT", host="h", port=65535, security_protocol=0),),
    features=(BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30),),
    rack="r1",
    log_dirs=(D2, D1),
)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=T1,
    replicas=(1, 2, 3),
    isr=(1, 2),
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
    directories=(D1, D2, D3),
)
BEFORE = PartitionRegistration(
    replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=9, directories=(D1, D2, D3)
)


def image(*records: Message) -> MetadataImage:
    """The image of these records, with nothing before them."""
    return replay_all(EMPTY_IMAGE, records)


def with_topic() -> MetadataImage:
    """Topic `t` with one partition."""
    return image(TopicRecord(name="t", topic_id=T1), PARTITION)


def changed(**fields: object) -> PartitionRegistration:
    """The partition after a PartitionChangeRecord with these fields."""
    record = PartitionChangeRecord(partition_id=0, topic_id=T1, **fields)  # type: ignore[arg-type]
    return replay(with_topic(), record).topics.by_name["t"].partitions[0]


def test_register_broker() -> None:
    """B-C01, S1-47: everything the record says; port 65535 survives; directories are kept sorted as in Kafka."""
    broker = image(REGISTERED).cluster.brokers[1]
    assert broker.end_points == (EndPoint("PLAINTEXT", "h", 65535, 0),)
    assert broker.features == Map({"metadata.version": FeatureRange(7, 30)})
    assert (broker.broker_epoch, broker.rack, broker.fenced, broker.log_dirs) == (5, "r1", True, (D1, D2))


def test_registering_again_replaces() -> None:
    """B-C01: the last registration counts whole."""
    again = RegisterBrokerRecord(broker_id=1, incarnation_id=T2, broker_epoch=8, rack=None, fenced=False)
    broker = image(REGISTERED, again).cluster.brokers[1]
    assert (broker.incarnation_id, broker.end_points, broker.rack, broker.is_active) == (T2, (), None, True)


def test_unregister_broker() -> None:
    """B-C02."""
    assert image(REGISTERED, UnregisterBrokerRecord(broker_id=1, broker_epoch=5)).cluster.brokers == Map()


def test_fence_and_unfence_records() -> None:
    """B-C07: of old clusters, read always."""
    unfenced = image(REGISTERED, UnfenceBrokerRecord(id=1, epoch=5))
    assert unfenced.cluster.brokers[1].fenced is False
    assert replay(unfenced, FenceBrokerRecord(id=1, epoch=5)).cluster.brokers[1].fenced is True


def test_registration_changes() -> None:
    """B-C14: fence, unfence, controlled shutdown, directories, cordoned directories; absent = unchanged."""
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5)
    before = image(REGISTERED)
    assert replay(before, change) == before

    def after(**fields: object) -> object:
        record = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **fields)  # type: ignore[arg-type]
        broker = replay(before, record).cluster.brokers[1]
        return (broker.fenced, broker.in_controlled_shutdown, broker.log_dirs, broker.cordoned_log_dirs)

    assert after(fenced=-1) == (False, False, (D1, D2), None)
    assert after(fenced=1) == (True, False, (D1, D2), None)
    assert after(in_controlled_shutdown=1) == (True, True, (D1, D2), None)
    assert after(log_dirs=(D2,)) == (True, False, (D2,), None)
    assert after(cordoned_log_dirs=(D2, D1)) == (True, False, (D1, D2), (D1, D2))
    assert after(cordoned_log_dirs=()) == (True, False, (D1, D2), ())


def test_register_controller() -> None:
    """B-C19, KIP-919."""
    found = image(RegisterControllerRecord(controller_id=9, incarnation_id=T1)).cluster.controllers
    assert found[9].incarnation_id == T1


def test_topic_and_partition() -> None:
    """B-C03, B-C04: both maps hold the topic; the partition is as the record says."""
    found = with_topic().topics
    assert found.by_name["t"] is found.by_id[T1]
    assert found.partition("t", 0) == BEFORE
    assert found.partition_by_id(T1, 0) == BEFORE
    assert found.partition("t", 1) is None
    assert found.partition("other", 0) is None


def test_a_partition_of_before_directories_gets_the_migrating_one() -> None:
    """B-C31, KIP-858: version 0 has no directories."""
    record = PartitionRecord(partition_id=0, topic_id=T1, replicas=(1, 2), isr=(1,), leader=1)
    partition = image(TopicRecord(name="t", topic_id=T1), record).topics.partition("t", 0)
    assert partition is not None
    assert partition.directories == (MIGRATING_DIRECTORY, MIGRATING_DIRECTORY)


def test_a_partition_change_raises_the_partition_epoch_always() -> None:
    """B-C06, C6: absent = unchanged, the partition epoch rises by one all the same."""
    assert changed() == replace(BEFORE, partition_epoch=10)
    assert changed(isr=(1, 2, 3)) == replace(BEFORE, partition_epoch=10, isr=(1, 2, 3))
    assert changed(leader_recovery_state=1) == replace(BEFORE, partition_epoch=10, leader_recovery_state=1)
    assert changed(adding_replicas=(3,), removing_replicas=(2,)) == replace(
        BEFORE, partition_epoch=10, adding_replicas=(3,), removing_replicas=(2,)
    )
    assert changed(eligible_leader_replicas=(2,), last_known_elr=(3,)) == replace(
        BEFORE, partition_epoch=10, eligible_leader_replicas=(2,), last_known_elr=(3,)
    )


def test_the_leader_epoch_rises_when_a_leader_is_named() -> None:
    """B-C06, S3-04, C6: also when it is the same one; -1 = none; -2 = no change."""
    assert changed(leader=1) == replace(BEFORE, partition_epoch=10, leader_epoch=5)
    assert changed(leader=-1) == replace(BEFORE, partition_epoch=10, leader_epoch=5, leader=-1)
    assert changed(leader=-2) == replace(BEFORE, partition_epoch=10)


def test_directories_follow_their_replicas() -> None:
    """KIP-858: replicas that stay keep their directory; given directories count."""
    assert changed(replicas=(3, 1)).directories == (D3, D1)
    assert changed(replicas=(3, 4)).directories[0] == D3
    assert changed(directories=(D3, D2, D1)).directories == (D3, D2, D1)


def test_config_records() -> None:
    """B-C05: set, replace, delete; a resource without settings is not there."""
    key = ConfigResource(2, "t")

    def config(name: str, value: str | None) -> ConfigRecord:
        return ConfigRecord(resource_type=2, resource_name="t", name=name, value=value)

    both = image(config("a", "1"), config("b", "2"), config("a", "3"))
    assert dict(both.configs.by_resource) == {key: Map({"a": "3", "b": "2"})}
    one = replay(both, config("b", None))
    assert one.configs.of_topic("t") == Map({"a": "3"})
    assert replay(one, config("a", None)).configs.by_resource == Map()
    assert replay(one, config("unknown", None)) == one


def test_remove_topic_takes_its_partitions_and_settings() -> None:
    """B-C08, S1-36: one record; another topic keeps what it has."""
    before = image(
        TopicRecord(name="t", topic_id=T1),
        PARTITION,
        TopicRecord(name="u", topic_id=T2),
        ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"),
        ConfigRecord(resource_type=2, resource_name="u", name="a", value="2"),
        ConfigRecord(resource_type=4, resource_name="t", name="a", value="3"),
    )
    after = replay(before, RemoveTopicRecord(topic_id=T1))
    assert list(after.topics.by_name) == ["u"]
    assert list(after.topics.by_id) == [T2]
    assert set(after.configs.by_resource) == {ConfigResource(2, "u"), ConfigResource(4, "t")}


def test_feature_levels() -> None:
    """B-C11: a level, and 0 = off."""
    on = image(
        FeatureLevelRecord(name="metadata.version", feature_level=30), FeatureLevelRecord(name="x", feature_level=1)
    )
    assert (on.features.metadata_version, on.features.level("x")) == (30, 1)
    off = replay(on, FeatureLevelRecord(name="x", feature_level=0))
    assert off.features.levels == Map({"metadata.version": 30})
    assert EMPTY_IMAGE.features.metadata_version is None


def test_producer_ids_never_go_back() -> None:
    """B-C13, C13."""
    found = image(ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000))
    assert found.next_producer_id == 1000
    with pytest.raises(ReplayError, match="999 is below 1000"):
        replay(found, ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=999))


def test_client_quotas() -> None:
    """B-C12, C17: by entity whatever the order of its parts."""

    def quota(key: str, value: float, *, remove: bool = False, swap: bool = False) -> ClientQuotaRecord:
        parts = (EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name=None))
        return ClientQuotaRecord(entity=parts[::-1] if swap else parts, key=key, value=value, remove=remove)

    entity = (QuotaEntityPart("client-id", None), QuotaEntityPart("user", "u"))
    two = image(quota("a", 1.5), quota("b", 2.0, swap=True))
    assert dict(two.client_quotas) == {entity: Map({"a": 1.5, "b": 2.0})}
    one = replay(two, quota("a", 0, remove=True))
    assert replay(one, quota("b", 0, remove=True)).client_quotas == Map()
    with pytest.raises(ReplayError, match="not set"):
        replay(one, quota("a", 0, remove=True))


def test_acls() -> None:
    """B-C15, C17: deleting one leaves its twin."""
    record = AccessControlEntryRecord(id=T1, resource_type=2, resource_name="t", principal="User:a", host="*")
    twin = replace(record, id=T2)
    after = replay(image(record, twin), RemoveAccessControlEntryRecord(id=T1))
    assert after.acls == Map(
        {
            T2: AccessControlEntry(
                id=T2,
                resource_type=2,
                resource_name="t",
                pattern_type=0,
                principal="User:a",
                host="*",
                operation=0,
                permission_type=0,
            )
        }
    )


def test_scram_credentials() -> None:
    """B-C10, C17: by user and mechanism."""
    first = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    found = image(first, replace(first, mechanism=2, iterations=8192))
    assert found.scram["a", 2].iterations == 8192
    after = replay(found, RemoveUserScramCredentialRecord(name="a", mechanism=2))
    assert list(after.scram) == [("a", 1)]


def test_delegation_tokens() -> None:
    """B-C09."""
    record = DelegationTokenRecord(token_id="i", owner="User:a", requester="User:b", renewers=("User:c",))
    found = image(record)
    assert found.delegation_tokens["i"].renewers == ("User:c",)
    assert replay(found, RemoveDelegationTokenRecord(token_id="i")).delegation_tokens == Map()


def test_clearing_elrs() -> None:
    """KIP-966: of one topic, or of all."""
    elr = image(
        TopicRecord(name="t", topic_id=T1),
        replace(PARTITION, eligible_leader_replicas=(3,)),
        TopicRecord(name="u", topic_id=T2),
        replace(PARTITION, topic_id=T2, last_known_elr=(3,)),
    )
    one = replay(elr, ClearElrRecord(topic_name="t"))
    assert one.topics.partition("t", 0) == replace(BEFORE, partition_epoch=10)
    assert one.topics.by_name["u"] is elr.topics.by_name["u"]
    both = replay(elr, ClearElrRecord(topic_name=""))
    assert both.topics.partition("u", 0) == replace(BEFORE, partition_epoch=10)


@pytest.mark.parametrize(
    "record",
    [
        NoOpRecord(),
        ZkMigrationStateRecord(zk_migration_state=0),
        ZkMigrationStateRecord(zk_migration_state=3),
        BeginTransactionRecord(name="x"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
)
def test_records_that_change_nothing(record: Message) -> None:
    """B-C16, B-C17, B-C18: NoOp, ZooKeeper's left-overs; the bounds of transactions are the loader's matter."""
    found = with_topic()
    assert replay(found, record) is found


@pytest.mark.parametrize(
    "record",
    [
        UnregisterBrokerRecord(broker_id=2, broker_epoch=5),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=6),
        FenceBrokerRecord(id=1, epoch=4),
        UnfenceBrokerRecord(id=2, epoch=5),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=2),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=2),
        TopicRecord(name="t", topic_id=T2),
        TopicRecord(name="u", topic_id=T1),
        replace(PARTITION, topic_id=T2),
        PartitionChangeRecord(partition_id=0, topic_id=T2),
        PartitionChangeRecord(partition_id=1, topic_id=T1),
        RemoveTopicRecord(topic_id=T2),
        RemoveAccessControlEntryRecord(id=T1),
        RemoveUserScramCredentialRecord(name="a", mechanism=1),
        RemoveDelegationTokenRecord(token_id="i"),
        ClearElrRecord(topic_name="u"),
    ],
)
def test_a_record_that_does_not_fit_stops_the_replay(record: Message) -> None:
    """C18, S3-03: never goes on with a part of it."""
    found = image(REGISTERED, TopicRecord(name="t", topic_id=T1), PARTITION)
    with pytest.raises(ReplayError):
        replay(found, record)


def test_every_type_of_record_has_a_meaning() -> None:
    """B-C20: the registry of the wire and the table of meanings name the same types."""
    from headrace.metadata import replay as module

    assert set(module._MEANINGS) == set(RECORD_TYPES)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x02\x14\x00\x00",
        b"\x00\x14\x00\x00",
        b"\x01\x06\x00\x00",
        b"\x01\x63\x00\x00",
        b"\x01\x14\x01\x00",
        b"\x01\x14\x00",
        b"\x01\x14\x00\x00\x00",
    ],
)
def test_an_unknown_frame_type_or_version_is_refused(data: bytes) -> None:
    """B-C00, B-C20: frame version, record type, record version, body cut or too long."""
    with pytest.raises(DecodeError):
        decode_record(data)


def test_the_frame_of_a_record() -> None:
    """B-C00: frame version 1, type, version as unsigned varints, then the body; these bytes are Kafka's."""
    data = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record, 0) == data
    assert decode_record(data) == record
    assert encode_record(NoOpRecord(), 0) == b"\x01\x14\x00\x00"
