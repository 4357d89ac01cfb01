"""The APIs, their versions, and the listeners that serve them.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ApiKey(IntEnum):
    """The number of every api, by its name."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


API_FACTS: Final = (
    # key, name, first and last version, last stable version, flexible from, listeners
    (0, "Produce", 3, 13, 13, 9, ("broker",)),
    (1, "Fetch", 4, 18, 18, 12, ("broker", "controller")),
    (2, "ListOffsets", 1, 11, 11, 6, ("broker",)),
    (3, "Metadata", 0, 13, 13, 9, ("broker",)),
    (8, "OffsetCommit", 2, 10, 10, 8, ("broker",)),
    (9, "OffsetFetch", 1, 10, 10, 6, ("broker",)),
    (10, "FindCoordinator", 0, 6, 6, 3, ("broker",)),
    (11, "JoinGroup", 0, 9, 9, 6, ("broker",)),
    (12, "Heartbeat", 0, 4, 4, 4, ("broker",)),
    (13, "LeaveGroup", 0, 5, 5, 4, ("broker",)),
    (14, "SyncGroup", 0, 5, 5, 4, ("broker",)),
    (15, "DescribeGroups", 0, 6, 6, 5, ("broker",)),
    (16, "ListGroups", 0, 5, 5, 3, ("broker",)),
    (17, "SaslHandshake", 0, 1, 1, -1, ("broker", "controller")),
    (18, "ApiVersions", 0, 4, 4, 3, ("broker", "controller")),
    (19, "CreateTopics", 2, 7, 7, 5, ("broker", "controller")),
    (20, "DeleteTopics", 1, 6, 6, 4, ("broker", "controller")),
    (21, "DeleteRecords", 0, 2, 2, 2, ("broker",)),
    (22, "InitProducerId", 0, 6, 5, 2, ("broker",)),
    (23, "OffsetForLeaderEpoch", 2, 4, 4, 4, ("broker",)),
    (24, "AddPartitionsToTxn", 0, 5, 5, 3, ("broker",)),
    (25, "AddOffsetsToTxn", 0, 4, 4, 3, ("broker",)),
    (26, "EndTxn", 0, 5, 5, 3, ("broker",)),
    (27, "WriteTxnMarkers", 1, 2, 2, 1, ("broker",)),
    (28, "TxnOffsetCommit", 0, 5, 5, 3, ("broker",)),
    (29, "DescribeAcls", 1, 3, 3, 2, ("broker", "controller")),
    (30, "CreateAcls", 1, 3, 3, 2, ("broker", "controller")),
    (31, "DeleteAcls", 1, 3, 3, 2, ("broker", "controller")),
    (32, "DescribeConfigs", 1, 4, 4, 4, ("broker", "controller")),
    (33, "AlterConfigs", 0, 2, 2, 2, ("broker", "controller")),
    (34, "AlterReplicaLogDirs", 1, 2, 2, 2, ("broker",)),
    (35, "DescribeLogDirs", 1, 5, 5, 2, ("broker",)),
    (36, "SaslAuthenticate", 0, 2, 2, 2, ("broker", "controller")),
    (37, "CreatePartitions", 0, 3, 3, 2, ("broker", "controller")),
    (38, "CreateDelegationToken", 1, 3, 3, 2, ("broker", "controller")),
    (39, "RenewDelegationToken", 1, 2, 2, 2, ("broker", "controller")),
    (40, "ExpireDelegationToken", 1, 2, 2, 2, ("broker", "controller")),
    (41, "DescribeDelegationToken", 1, 3, 3, 2, ("broker", "controller")),
    (42, "DeleteGroups", 0, 2, 2, 2, ("broker",)),
    (43, "ElectLeaders", 0, 2, 2, 2, ("broker", "controller")),
    (44, "IncrementalAlterConfigs", 0, 1, 1, 1, ("broker", "controller")),
    (45, "AlterPartitionReassignments", 0, 1, 1, 0, ("broker", "controller")),
    (46, "ListPartitionReassignments", 0, 0, 0, 0, ("broker", "controller")),
    (47, "OffsetDelete", 0, 0, 0, -1, ("broker",)),
    (48, "DescribeClientQuotas", 0, 1, 1, 1, ("broker",)),
    (49, "AlterClientQuotas", 0, 1, 1, 1, ("broker", "controller")),
    (50, "DescribeUserScramCredentials", 0, 0, 0, 0, ("broker", "controller")),
    (51, "AlterUserScramCredentials", 0, 0, 0, 0, ("broker", "controller")),
    (52, "Vote", 0, 2, 2, 0, ("controller",)),
    (53, "BeginQuorumEpoch", 0, 1, 1, 1, ("controller",)),
    (54, "EndQuorumEpoch", 0, 1, 1, 1, ("controller",)),
    (55, "DescribeQuorum", 0, 2, 2, 0, ("broker", "controller")),
    (56, "AlterPartition", 2, 3, 3, 0, ("controller",)),
    (57, "UpdateFeatures", 0, 2, 2, 0, ("broker", "controller")),
    (58, "Envelope", 0, 0, 0, 0, ("controller",)),
    (59, "FetchSnapshot", 0, 1, 1, 0, ("controller",)),
    (60, "DescribeCluster", 0, 2, 2, 0, ("broker", "controller")),
    (61, "DescribeProducers", 0, 0, 0, 0, ("broker",)),
    (62, "BrokerRegistration", 0, 4, 4, 0, ("controller",)),
    (63, "BrokerHeartbeat", 0, 2, 2, 0, ("controller",)),
    (64, "UnregisterBroker", 0, 0, 0, 0, ("broker", "controller")),
    (65, "DescribeTransactions", 0, 0, 0, 0, ("broker",)),
    (66, "ListTransactions", 0, 2, 2, 0, ("broker",)),
    (67, "AllocateProducerIds", 0, 0, 0, 0, ("controller",)),
    (68, "ConsumerGroupHeartbeat", 0, 1, 1, 0, ("broker",)),
    (69, "ConsumerGroupDescribe", 0, 1, 1, 0, ("broker",)),
    (70, "ControllerRegistration", 0, 0, 0, 0, ("controller",)),
    (71, "GetTelemetrySubscriptions", 0, 0, 0, 0, ("broker",)),
    (72, "PushTelemetry", 0, 0, 0, 0, ("broker",)),
    (73, "AssignReplicasToDirs", 0, 0, 0, 0, ("controller",)),
    (74, "ListConfigResources", 0, 1, 1, 0, ("broker",)),
    (75, "DescribeTopicPartitions", 0, 0, 0, 0, ("broker",)),
    (76, "ShareGroupHeartbeat", 1, 1, 1, 0, ("broker",)),
    (77, "ShareGroupDescribe", 1, 1, 1, 0, ("broker",)),
    (78, "ShareFetch", 1, 2, 2, 0, ("broker",)),
    (79, "ShareAcknowledge", 1, 2, 2, 0, ("broker",)),
    (80, "AddRaftVoter", 0, 1, 1, 0, ("broker", "controller")),
    (81, "RemoveRaftVoter", 0, 0, 0, 0, ("broker", "controller")),
    (82, "UpdateRaftVoter", 0, 0, 0, 0, ("controller",)),
    (83, "InitializeShareGroupState", 0, 0, 0, 0, ("broker",)),
    (84, "ReadShareGroupState", 0, 0, 0, 0, ("broker",)),
    (85, "WriteShareGroupState", 0, 1, 1, 0, ("broker",)),
    (86, "DeleteShareGroupState", 0, 0, 0, 0, ("broker",)),
    (87, "ReadShareGroupStateSummary", 0, 1, 1, 0, ("broker",)),
    (88, "StreamsGroupHeartbeat", 0, 0, 0, 0, ("broker",)),
    (89, "StreamsGroupDescribe", 0, 0, 0, 0, ("broker",)),
    (90, "DescribeShareGroupOffsets", 0, 1, 1, 0, ("broker",)),
    (91, "AlterShareGroupOffsets", 0, 0, 0, 0, ("broker",)),
    (92, "DeleteShareGroupOffsets", 0, 0, 0, 0, ("broker",)),
)
