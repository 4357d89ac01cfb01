"""The words for an error code, when the node sent none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode

if TYPE_CHECKING:
    from headrace.client.talk import Address

TEXTS: dict[ErrorCode, str] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.CORRUPT_MESSAGE: "The records are damaged: their checksum does not fit.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition at the moment.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "The node asked does not lead this topic-partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The request timed out.",
    ErrorCode.MESSAGE_TOO_LARGE: "The batch is larger than the topic allows (max.message.bytes).",
    ErrorCode.NETWORK_EXCEPTION: "The connection was lost before an answer came.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "The node asked is not the coordinator.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic's name is not valid.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas asks for.",
    ErrorCode.ILLEGAL_GENERATION: "The group has a newer generation than this member.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator does not know this member.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is not within the range that the broker allows.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access the topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized to access the group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to do this to the cluster.",
    ErrorCode.UNSUPPORTED_VERSION: "The node does not support this version of the request.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "The topic already exists.",
    ErrorCode.NOT_CONTROLLER: "The node asked is not the controller.",
    ErrorCode.INVALID_REQUEST: "The request is not valid.",
    ErrorCode.POLICY_VIOLATION: "The request is against the cluster's policy.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The broker received a batch out of order.",
    ErrorCode.SECURITY_DISABLED: "Security features are disabled.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SASL authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The broker does not know this producer any more.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.INVALID_RECORD: "The broker refused a record as not valid.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ErrorCode.KAFKA_STORAGE_ERROR: "A disk of the broker failed.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This server does not host this topic ID.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group has as many members as it may have.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Deleting topics is disabled.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "The broker id is not registered.",
    ErrorCode.INELIGIBLE_REPLICA: "The new in-sync set has an ineligible replica.",
}


def wrong_listener(address: Address, *, is_controller_wanted: bool) -> str:
    """The line for an address where the other kind of listener is: a broker's for a controller's, or the other way round."""
    if is_controller_wanted:
        return (
            f"{address} is the listener of a broker: give a controller's, which has the name in controller.listener.names "
            "(controller.quorum.bootstrap.servers says where)"
        )
    return f"{address} is the listener of a controller: give a broker's, whose name is not in controller.listener.names"


def text_of(code: ErrorCode) -> str:
    """A sentence for an error code; the code's name where there is none."""
    return TEXTS.get(code, code.name)
