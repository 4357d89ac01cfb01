"""The class of each record type.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from typing import Final

RECORD_TYPES: Final = {
    # record type: module, class
    0: ("headrace.wire.metadata_records.register_broker_record", "RegisterBrokerRecord"),
    1: ("headrace.wire.metadata_records.unregister_broker_record", "UnregisterBrokerRecord"),
    2: ("headrace.wire.metadata_records.topic_record", "TopicRecord"),
    3: ("headrace.wire.metadata_records.partition_record", "PartitionRecord"),
    4: ("headrace.wire.metadata_records.config_record", "ConfigRecord"),
    5: ("headrace.wire.metadata_records.partition_change_record", "PartitionChangeRecord"),
    7: ("headrace.wire.metadata_records.fence_broker_record", "FenceBrokerRecord"),
    8: ("headrace.wire.metadata_records.unfence_broker_record", "UnfenceBrokerRecord"),
    9: ("headrace.wire.metadata_records.remove_topic_record", "RemoveTopicRecord"),
    10: ("headrace.wire.metadata_records.delegation_token_record", "DelegationTokenRecord"),
    11: ("headrace.wire.metadata_records.user_scram_credential_record", "UserScramCredentialRecord"),
    12: ("headrace.wire.metadata_records.feature_level_record", "FeatureLevelRecord"),
    14: ("headrace.wire.metadata_records.client_quota_record", "ClientQuotaRecord"),
    15: ("headrace.wire.metadata_records.producer_ids_record", "ProducerIdsRecord"),
    17: ("headrace.wire.metadata_records.broker_registration_change_record", "BrokerRegistrationChangeRecord"),
    18: ("headrace.wire.metadata_records.access_control_entry_record", "AccessControlEntryRecord"),
    19: ("headrace.wire.metadata_records.remove_access_control_entry_record", "RemoveAccessControlEntryRecord"),
    20: ("headrace.wire.metadata_records.no_op_record", "NoOpRecord"),
    21: ("headrace.wire.metadata_records.zk_migration_state_record", "ZkMigrationStateRecord"),
    22: ("headrace.wire.metadata_records.remove_user_scram_credential_record", "RemoveUserScramCredentialRecord"),
    23: ("headrace.wire.metadata_records.begin_transaction_record", "BeginTransactionRecord"),
    24: ("headrace.wire.metadata_records.end_transaction_record", "EndTransactionRecord"),
    25: ("headrace.wire.metadata_records.abort_transaction_record", "AbortTransactionRecord"),
    26: ("headrace.wire.metadata_records.remove_delegation_token_record", "RemoveDelegationTokenRecord"),
    27: ("headrace.wire.metadata_records.register_controller_record", "RegisterControllerRecord"),
    28: ("headrace.wire.metadata_records.clear_elr_record", "ClearElrRecord"),
}
