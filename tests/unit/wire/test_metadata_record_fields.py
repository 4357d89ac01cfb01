"""Does every metadata record have the type, versions, fields and tags that the ledger names?"""

from __future__ import annotations

import pytest

from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.frame import decode_record, encode_record, record_class
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.schema import fields_of
from headrace.wire.source import Layout

# ledger id, record type, name, versions, and the fields: `name`, `name@first version`, `name#tag`, `name@first version#tag`
RECORDS = [
    ("B-C01", 0, "RegisterBrokerRecord", 4, "broker_id is_migrating_zk_broker@2 incarnation_id broker_epoch end_points features rack "
     "fenced in_controlled_shutdown@1 log_dirs@3#0 cordoned_log_dirs@4#1"),
    ("B-C02", 1, "UnregisterBrokerRecord", 0, "broker_id broker_epoch"),
    ("B-C03", 2, "TopicRecord", 0, "name topic_id"),
    ("B-C04", 3, "PartitionRecord", 2, "partition_id topic_id replicas isr removing_replicas adding_replicas leader "
     "leader_recovery_state#0 leader_epoch partition_epoch directories@1 eligible_leader_replicas@2#1 last_known_elr@2#2 first_leader_epoch#9999"),
    ("B-C05", 4, "ConfigRecord", 0, "resource_type resource_name name value"),
    ("B-C06", 5, "PartitionChangeRecord", 2, "partition_id topic_id isr#0 leader#1 replicas#2 removing_replicas#3 adding_replicas#4 "
     "leader_recovery_state#5 directories@1#8 eligible_leader_replicas@2#6 last_known_elr@2#7"),
    ("B-C07", 7, "FenceBrokerRecord", 0, "id epoch"),
    ("B-C07", 8, "UnfenceBrokerRecord", 0, "id epoch"),
    ("B-C08", 9, "RemoveTopicRecord", 0, "topic_id"),
    ("B-C11", 12, "FeatureLevelRecord", 0, "name feature_level"),
    ("B-C12", 14, "ClientQuotaRecord", 0, "entity key value remove"),
    ("B-C13", 15, "ProducerIdsRecord", 0, "broker_id broker_epoch next_producer_id"),
    ("B-C14", 17, "BrokerRegistrationChangeRecord", 3, "broker_id broker_epoch fenced#0 in_controlled_shutdown@1#1 log_dirs@2#2 "
     "cordoned_log_dirs@3#3"),
    ("B-C16", 20, "NoOpRecord", 0, ""),
    ("B-C17", 21, "ZkMigrationStateRecord", 0, "zk_migration_state"),
    ("B-C18", 23, "BeginTransactionRecord", 0, "name#0"),
    ("B-C18", 24, "EndTransactionRecord", 0, ""),
    ("B-C18", 25, "AbortTransactionRecord", 0, "reason#0"),
    ("B-C19", 27, "RegisterControllerRecord", 0, "controller_id incarnation_id zk_migration_ready end_points features"),
]  # fmt: skip


def _written(record_type: int, version: int) -> list[str]:
    cls = record_class(record_type)
    layout = Layout(cls, version)
    fields = []
    for spec in fields_of(cls):
        if layout.is_present(spec):
            fields.append(f"{spec.name}#{spec.tag}" if layout.is_tagged(spec) else spec.name)
    return fields


def _expected(fields: str, version: int) -> list[str]:
    found = []
    for field in fields.split():
        name, _, tag = field.partition("#")
        name, _, first = name.partition("@")
        if version >= int(first or 0):
            found.append(f"{name}#{tag}" if tag else name)
    return found


@pytest.mark.parametrize(
    ("ledger_id", "record_type", "name", "last", "fields"), RECORDS, ids=[f"{r[0]}-{r[2]}" for r in RECORDS]
)
def test_fields_of_a_metadata_record(ledger_id: str, record_type: int, name: str, last: int, fields: str) -> None:
    """B-C01..B-C08, B-C11..B-C14, B-C16..B-C19: what a record holds in each of its versions, and under which tag."""
    cls = record_class(record_type)
    assert cls.__name__ == name, ledger_id
    assert (cls.SCHEMA.versions.first, cls.SCHEMA.versions.last) == (0, last)
    for version in range(last + 1):
        assert version in cls.SCHEMA.flexible
        assert _written(record_type, version) == _expected(fields, version)


def test_values_with_a_meaning() -> None:
    """B-C01, B-C05, B-C06, B-C14: fenced unless said otherwise; null deletes; -2 leaves the leader; 0 changes nothing."""
    assert RegisterBrokerRecord().fenced is True
    assert (PartitionChangeRecord().leader, PartitionChangeRecord().isr) == (-2, None)
    assert (BrokerRegistrationChangeRecord().fenced, BrokerRegistrationChangeRecord().in_controlled_shutdown) == (0, 0)
    deleted = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None)
    assert decode_record(encode_record(deleted, 0)) == deleted
