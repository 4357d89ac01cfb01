"""The class of each record type.

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from typing import Final

KEY_TYPES: Final = {
    # record type: module, class of the key
    0: ("headrace.wire.group_records.legacy_offset_commit_key", "LegacyOffsetCommitKey"),
    1: ("headrace.wire.group_records.offset_commit_key", "OffsetCommitKey"),
    2: ("headrace.wire.group_records.group_metadata_key", "GroupMetadataKey"),
    3: ("headrace.wire.group_records.consumer_group_metadata_key", "ConsumerGroupMetadataKey"),
    4: ("headrace.wire.group_records.consumer_group_partition_metadata_key", "ConsumerGroupPartitionMetadataKey"),
    5: ("headrace.wire.group_records.consumer_group_member_metadata_key", "ConsumerGroupMemberMetadataKey"),
    6: (
        "headrace.wire.group_records.consumer_group_target_assignment_metadata_key",
        "ConsumerGroupTargetAssignmentMetadataKey",
    ),
    7: (
        "headrace.wire.group_records.consumer_group_target_assignment_member_key",
        "ConsumerGroupTargetAssignmentMemberKey",
    ),
    8: (
        "headrace.wire.group_records.consumer_group_current_member_assignment_key",
        "ConsumerGroupCurrentMemberAssignmentKey",
    ),
    10: ("headrace.wire.group_records.share_group_member_metadata_key", "ShareGroupMemberMetadataKey"),
    11: ("headrace.wire.group_records.share_group_metadata_key", "ShareGroupMetadataKey"),
    12: (
        "headrace.wire.group_records.share_group_target_assignment_metadata_key",
        "ShareGroupTargetAssignmentMetadataKey",
    ),
    13: ("headrace.wire.group_records.share_group_target_assignment_member_key", "ShareGroupTargetAssignmentMemberKey"),
    14: (
        "headrace.wire.group_records.share_group_current_member_assignment_key",
        "ShareGroupCurrentMemberAssignmentKey",
    ),
    15: ("headrace.wire.group_records.share_group_state_partition_metadata_key", "ShareGroupStatePartitionMetadataKey"),
    16: ("headrace.wire.group_records.consumer_group_regular_expression_key", "ConsumerGroupRegularExpressionKey"),
    17: ("headrace.wire.group_records.streams_group_metadata_key", "StreamsGroupMetadataKey"),
    19: ("headrace.wire.group_records.streams_group_member_metadata_key", "StreamsGroupMemberMetadataKey"),
    20: (
        "headrace.wire.group_records.streams_group_target_assignment_metadata_key",
        "StreamsGroupTargetAssignmentMetadataKey",
    ),
    21: (
        "headrace.wire.group_records.streams_group_target_assignment_member_key",
        "StreamsGroupTargetAssignmentMemberKey",
    ),
    22: (
        "headrace.wire.group_records.streams_group_current_member_assignment_key",
        "StreamsGroupCurrentMemberAssignmentKey",
    ),
    23: ("headrace.wire.group_records.streams_group_topology_key", "StreamsGroupTopologyKey"),
}

VALUE_TYPES: Final = {
    # record type: module, class of the value
    0: ("headrace.wire.group_records.legacy_offset_commit_value", "LegacyOffsetCommitValue"),
    1: ("headrace.wire.group_records.offset_commit_value", "OffsetCommitValue"),
    2: ("headrace.wire.group_records.group_metadata_value", "GroupMetadataValue"),
    3: ("headrace.wire.group_records.consumer_group_metadata_value", "ConsumerGroupMetadataValue"),
    4: ("headrace.wire.group_records.consumer_group_partition_metadata_value", "ConsumerGroupPartitionMetadataValue"),
    5: ("headrace.wire.group_records.consumer_group_member_metadata_value", "ConsumerGroupMemberMetadataValue"),
    6: (
        "headrace.wire.group_records.consumer_group_target_assignment_metadata_value",
        "ConsumerGroupTargetAssignmentMetadataValue",
    ),
    7: (
        "headrace.wire.group_records.consumer_group_target_assignment_member_value",
        "ConsumerGroupTargetAssignmentMemberValue",
    ),
    8: (
        "headrace.wire.group_records.consumer_group_current_member_assignment_value",
        "ConsumerGroupCurrentMemberAssignmentValue",
    ),
    10: ("headrace.wire.group_records.share_group_member_metadata_value", "ShareGroupMemberMetadataValue"),
    11: ("headrace.wire.group_records.share_group_metadata_value", "ShareGroupMetadataValue"),
    12: (
        "headrace.wire.group_records.share_group_target_assignment_metadata_value",
        "ShareGroupTargetAssignmentMetadataValue",
    ),
    13: (
        "headrace.wire.group_records.share_group_target_assignment_member_value",
        "ShareGroupTargetAssignmentMemberValue",
    ),
    14: (
        "headrace.wire.group_records.share_group_current_member_assignment_value",
        "ShareGroupCurrentMemberAssignmentValue",
    ),
    15: (
        "headrace.wire.group_records.share_group_state_partition_metadata_value",
        "ShareGroupStatePartitionMetadataValue",
    ),
    16: ("headrace.wire.group_records.consumer_group_regular_expression_value", "ConsumerGroupRegularExpressionValue"),
    17: ("headrace.wire.group_records.streams_group_metadata_value", "StreamsGroupMetadataValue"),
    19: ("headrace.wire.group_records.streams_group_member_metadata_value", "StreamsGroupMemberMetadataValue"),
    20: (
        "headrace.wire.group_records.streams_group_target_assignment_metadata_value",
        "StreamsGroupTargetAssignmentMetadataValue",
    ),
    21: (
        "headrace.wire.group_records.streams_group_target_assignment_member_value",
        "StreamsGroupTargetAssignmentMemberValue",
    ),
    22: (
        "headrace.wire.group_records.streams_group_current_member_assignment_value",
        "StreamsGroupCurrentMemberAssignmentValue",
    ),
    23: ("headrace.wire.group_records.streams_group_topology_value", "StreamsGroupTopologyValue"),
}
