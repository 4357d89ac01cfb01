"""What is each event of the controller called, in metrics and in answers to "why"?

Every change of the cluster comes from one of these and from nothing else (S2-02..S2-11). Kafka's names where it has them.
"""

from __future__ import annotations

from typing import Any, Final

REQUEST_EVENTS: Final[dict[str, str]] = {
    "AllocateProducerIdsRequest": "allocateProducerIds",
    "AlterConfigsRequest": "legacyAlterConfigs",
    "AlterPartitionReassignmentsRequest": "alterPartitionReassignments",
    "AlterPartitionRequest": "alterPartition",
    "AssignReplicasToDirsRequest": "assignReplicasToDirs",
    "BrokerHeartbeatRequest": "processBrokerHeartbeat",
    "BrokerRegistrationRequest": "registerBroker",
    "ControllerRegistrationRequest": "registerController",
    "CreatePartitionsRequest": "createPartitions",
    "CreateTopicsRequest": "createTopics",
    "DeleteTopicsRequest": "deleteTopics",
    "ElectLeadersRequest": "electLeaders",
    "IncrementalAlterConfigsRequest": "incrementalAlterConfigs",
    "ListPartitionReassignmentsRequest": "listPartitionReassignments",
    "UnregisterBrokerRequest": "unregisterBroker",
    "UpdateFeaturesRequest": "updateFeatures",
}
"""By the class of the request."""

COMPLETE_ACTIVATION: Final = "completeActivation"
RENOUNCE: Final = "renounce"
HANDLE_COMMIT: Final = "handleCommit"
FENCE_STALE_BROKERS: Final = "maybeFenceStaleBroker"
FENCE_UNREACHABLE_BROKER: Final = "fenceUnreachableBroker"
CONTINUE_MOVES: Final = "continueMoves"
BALANCE_LEADERS: Final = "maybeBalancePartitionLeaders"
ELECT_UNCLEAN: Final = "maybeElectUncleanLeaders"
WRITE_NO_OP: Final = "writeNoOpRecord"

TIMER_EVENTS: Final = (FENCE_STALE_BROKERS, BALANCE_LEADERS, ELECT_UNCLEAN, WRITE_NO_OP, CONTINUE_MOVES)
"""What time brings (S2-11): these are events too, they do not act by themselves."""


def event_name(request: Any) -> str:
    """The name of a request's event."""
    return REQUEST_EVENTS[type(request).__name__]
