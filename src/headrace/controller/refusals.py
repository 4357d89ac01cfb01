"""How does each API say that the whole request was refused?

One function for all that the controller answers; the broker uses it too when the controller cannot be reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.core.error_code import ErrorCode
from headrace.wire.messages import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.core.errors import PeerError
    from headrace.wire.schema import Message


def refused(request: Any, error: PeerError, *, api_version: int) -> Message:
    """The response of the request's API with the same error for everything asked."""
    if isinstance(request, elect_leaders.ElectLeadersRequest):
        return _refused_elections(request, error.code, error.message, has_error_of_all=api_version >= 1)
    by_item = _refused_items(request, error)
    return by_item if by_item is not None else _refused_whole(request, error)


def _refused_items(request: Any, error: PeerError) -> Message | None:
    """The APIs that have an error for each item."""
    code, message = error.code, error.message
    match request:
        case create_topics.CreateTopicsRequest():
            topics = {
                topic.name: create_topics.CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
                for topic in request.topics
            }
            return create_topics.CreateTopicsResponse(topics=tuple(topics.values()))
        case delete_topics.DeleteTopicsRequest():
            return _refused_deletions(request, code)
        case create_partitions.CreatePartitionsRequest():
            return create_partitions.CreatePartitionsResponse(
                results=tuple(
                    create_partitions.CreatePartitionsTopicResult(
                        name=topic.name, error_code=code, error_message=message
                    )
                    for topic in request.topics
                )
            )
        case alter_configs.AlterConfigsRequest():
            return alter_configs.AlterConfigsResponse(
                responses=tuple(
                    alter_configs.AlterConfigsResourceResponse(
                        error_code=code,
                        error_message=message,
                        resource_type=each.resource_type,
                        resource_name=each.resource_name,
                    )
                    for each in request.resources
                )
            )
        case incremental_alter_configs.IncrementalAlterConfigsRequest():
            return incremental_alter_configs.IncrementalAlterConfigsResponse(
                responses=tuple(
                    incremental_alter_configs.AlterConfigsResourceResponse(
                        error_code=code,
                        error_message=message,
                        resource_type=each.resource_type,
                        resource_name=each.resource_name,
                    )
                    for each in request.resources
                )
            )
        case _:
            return None


def _refused_elections(
    request: elect_leaders.ElectLeadersRequest, code: ErrorCode, message: str, *, has_error_of_all: bool
) -> Message:
    """The error of the whole, which version 0 does not have, and again for each partition that is named, as Kafka does."""
    results = tuple(
        elect_leaders.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                elect_leaders.PartitionResult(partition_id=each, error_code=code, error_message=message)
                for each in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return elect_leaders.ElectLeadersResponse(
        error_code=code if has_error_of_all else 0, replica_election_results=results
    )


def _refused_deletions(request: delete_topics.DeleteTopicsRequest, code: ErrorCode) -> Message:
    """Without a message, as Kafka does."""
    results = [
        delete_topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code)
        for each in request.topics
    ]
    results += [delete_topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(responses=tuple(results))


def _refused_whole(request: Any, error: PeerError) -> Message:
    """The APIs that have one error for all."""
    make = _WHOLE.get(type(request))
    if make is None:
        raise AssertionError(f"the controller does not take {type(request).__name__}")
    return make(error.code, error.message)


_WHOLE: Final[dict[type, Callable[[ErrorCode, str], Message]]] = {
    allocate_producer_ids.AllocateProducerIdsRequest: lambda code, _message: (
        allocate_producer_ids.AllocateProducerIdsResponse(error_code=code)
    ),
    alter_partition.AlterPartitionRequest: lambda code, _message: alter_partition.AlterPartitionResponse(
        error_code=code
    ),
    alter_partition_reassignments.AlterPartitionReassignmentsRequest: lambda code, message: (
        alter_partition_reassignments.AlterPartitionReassignmentsResponse(error_code=code, error_message=message)
    ),
    assign_replicas_to_dirs.AssignReplicasToDirsRequest: lambda code, _message: (
        assign_replicas_to_dirs.AssignReplicasToDirsResponse(error_code=code)
    ),
    broker_heartbeat.BrokerHeartbeatRequest: lambda code, _message: broker_heartbeat.BrokerHeartbeatResponse(
        error_code=code
    ),
    broker_registration.BrokerRegistrationRequest: lambda code, _message: (
        broker_registration.BrokerRegistrationResponse(error_code=code, broker_epoch=-1)
    ),
    controller_registration.ControllerRegistrationRequest: lambda code, message: (
        controller_registration.ControllerRegistrationResponse(error_code=code, error_message=message)
    ),
    list_partition_reassignments.ListPartitionReassignmentsRequest: lambda code, message: (
        list_partition_reassignments.ListPartitionReassignmentsResponse(error_code=code, error_message=message)
    ),
    unregister_broker.UnregisterBrokerRequest: lambda code, message: unregister_broker.UnregisterBrokerResponse(
        error_code=code, error_message=message
    ),
    update_features.UpdateFeaturesRequest: lambda code, message: update_features.UpdateFeaturesResponse(
        error_code=code, error_message=message
    ),
}
