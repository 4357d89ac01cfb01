"""Random histories of metadata: what a snapshot of them says, and what their deltas tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.ids import Uuid
from headrace.metadata.compare import compare_images
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.replay import ReplayError, replay, replay_all
from headrace.metadata.snapshot import snapshot_content
from headrace.metadata.touched import Touched
from headrace.wire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.delegation_token_record import DelegationTokenRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import decode_record
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from headrace.wire.metadata_records.register_controller_record import RegisterControllerRecord
from headrace.wire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from headrace.wire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

if TYPE_CHECKING:
    from headrace.wire.schema import Message

IDS = st.sampled_from([Uuid(bytes([each]) * 16) for each in (200, 201, 202)])
BROKERS = st.integers(1, 3)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)
WORDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.text(max_size=4)


def _partition(topic_id: Uuid, number: int, replicas: tuple[int, ...], epochs: tuple[int, int]) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        directories=tuple(Uuid(bytes([210 + each]) * 16) for each in replicas),
        isr=replicas[:1],
        leader=replicas[0],
        leader_epoch=epochs[0],
        partition_epoch=epochs[1],
    )


EPOCHS = st.integers(0, 5)
RECORDS: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        RegisterBrokerRecord,
        broker_id=BROKERS,
        incarnation_id=IDS,
        broker_epoch=EPOCHS,
        end_points=st.lists(
            st.builds(
                BrokerEndpoint, name=WORDS, host=WORDS, port=st.integers(0, 65535), security_protocol=st.integers(0, 3)
            ),
            max_size=2,
        ).map(tuple),
        features=st.lists(
            st.builds(BrokerFeature, name=WORDS, min_supported_version=EPOCHS, max_supported_version=EPOCHS),
            max_size=2,
            unique_by=lambda each: each.name,
        ).map(tuple),
        rack=st.none() | WORDS,
        fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(),
        log_dirs=st.lists(IDS, max_size=2, unique=True).map(tuple),
        cordoned_log_dirs=st.none() | st.lists(IDS, max_size=2, unique=True).map(tuple),
    ),
    st.builds(BrokerRegistrationChangeRecord, broker_id=BROKERS, broker_epoch=EPOCHS, fenced=st.integers(-1, 1)),
    st.builds(UnregisterBrokerRecord, broker_id=BROKERS, broker_epoch=EPOCHS),
    st.builds(RegisterControllerRecord, controller_id=BROKERS, incarnation_id=IDS),
    st.builds(TopicRecord, name=WORDS, topic_id=IDS),
    st.builds(RemoveTopicRecord, topic_id=IDS),
    st.builds(_partition, IDS, st.integers(0, 2), REPLICAS, st.tuples(EPOCHS, EPOCHS)),
    st.builds(
        PartitionChangeRecord,
        partition_id=st.integers(0, 2),
        topic_id=IDS,
        isr=st.none() | REPLICAS,
        leader=st.integers(-2, 3),
        adding_replicas=st.none() | REPLICAS,
        eligible_leader_replicas=st.none() | REPLICAS,
        leader_recovery_state=st.integers(-1, 1),
    ),
    st.builds(
        ConfigRecord, resource_type=st.sampled_from([2, 4]), resource_name=WORDS, name=WORDS, value=st.none() | TEXTS
    ),
    st.builds(FeatureLevelRecord, name=WORDS, feature_level=st.integers(0, 3)),
    st.builds(ProducerIdsRecord, broker_id=BROKERS, broker_epoch=EPOCHS, next_producer_id=st.integers(0, 9000)),
    st.builds(
        ClientQuotaRecord,
        entity=st.builds(EntityData, entity_type=WORDS, entity_name=st.none() | WORDS).map(lambda each: (each,)),
        key=WORDS,
        value=st.floats(allow_nan=False),
        remove=st.booleans(),
    ),
    st.builds(AccessControlEntryRecord, id=IDS, resource_type=st.integers(0, 5), principal=TEXTS, host=TEXTS),
    st.builds(RemoveAccessControlEntryRecord, id=IDS),
    st.builds(
        UserScramCredentialRecord,
        name=WORDS,
        mechanism=st.integers(1, 2),
        salt=st.binary(max_size=4),
        iterations=EPOCHS,
    ),
    st.builds(DelegationTokenRecord, token_id=WORDS, owner=TEXTS, renewers=st.lists(TEXTS, max_size=2).map(tuple)),
)
HISTORIES = st.lists(RECORDS, max_size=40)
LATEST = FeatureLevelRecord(name="metadata.version", feature_level=30)


def sensible(records: list[Message], image: MetadataImage) -> list[Message]:
    """The records that fit, each where it stands."""
    kept: list[Message] = []
    for record in records:
        try:
            image = replay(image, record)
        except ReplayError:
            continue
        kept.append(record)
    return kept


START = replay(EMPTY_IMAGE, LATEST)


@given(HISTORIES)
def test_a_written_image_loads_as_itself(history: list[Message]) -> None:
    """B-S03, C2: load(write(image)) == image, and writing it again gives the same bytes."""
    image = replay_all(START, sensible(history, START))
    content = list(snapshot_content(image))
    loaded = replay_all(EMPTY_IMAGE, [decode_record(data) for data in content])
    assert loaded == image
    assert list(snapshot_content(loaded)) == content


@given(HISTORIES, HISTORIES)
def test_what_records_touched_is_what_differs(first: list[Message], second: list[Message]) -> None:
    """B-S09: the cheap delta of the records tells the same as the comparison of the two whole images (its slow twin)."""
    previous = replay_all(START, sensible(first, START))
    touched = Touched()
    image = previous
    for record in sensible(second, previous):
        touched.note(record, image)
        image = replay(image, record)
    cheap, plain = touched.delta(previous, image), compare_images(previous, image)
    assert dict(cheap.changed_topics) == dict(plain.changed_topics)
    assert dict(cheap.deleted_topics) == dict(plain.deleted_topics)
    assert sorted(cheap.changed_brokers) == list(plain.changed_brokers)
    assert sorted(cheap.changed_controllers) == list(plain.changed_controllers)
    assert sorted(cheap.changed_configs) == list(plain.changed_configs)
    assert sorted(cheap.changed_features) == list(plain.changed_features)
    assert cheap.changed_acls >= plain.changed_acls
    assert cheap.changed_quotas >= plain.changed_quotas
    assert cheap.changed_scram >= plain.changed_scram


@given(HISTORIES)
def test_replaying_in_runs_is_replaying_one_by_one(history: list[Message]) -> None:
    """C2: the quick way and its slow twin, also in what they refuse."""
    records = sensible(history, START)
    plain = START
    for record in records:
        plain = replay(plain, record)
    assert replay_all(START, records) == plain
    try:
        found: MetadataImage | None = replay_all(START, history)
    except ReplayError:
        found = None
    assert (found is None) == (len(records) != len(history))
