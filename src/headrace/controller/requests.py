"""The table of requests and their decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.controller.alter_partition import decide_alter_partition
from headrace.controller.broker_states import decide_heartbeat
from headrace.controller.brokers import decide_controller_registration, decide_registration, decide_unregistration
from headrace.controller.configs import decide_alter_configs, decide_incremental_alter_configs
from headrace.controller.directories import decide_assignment_to_directories
from headrace.controller.elections import decide_elections
from headrace.controller.features import decide_update_features
from headrace.controller.heartbeats import BrokerControlState
from headrace.controller.more_partitions import decide_create_partitions
from headrace.controller.producer_ids import decide_allocation
from headrace.controller.reassignment import decide_reassignments, list_reassignments
from headrace.controller.topics import decide_create_topics, decide_delete_topics
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.controller.decision import Decision, Situation
    from headrace.controller.heartbeats import Heartbeats


def _heartbeat(situation: Situation, request: BrokerHeartbeatRequest, heartbeats: Heartbeats) -> Decision:
    """The session is renewed whatever else follows."""
    outcome = decide_heartbeat(situation, request, heartbeats)
    heartbeats.touch(request.broker_id, metadata_offset=request.current_metadata_offset, now_ms=situation.now_ms)
    if outcome.state.is_fenced:
        heartbeats.fenced(request.broker_id)  # from the first slice on, before the image says so
        if outcome.state is BrokerControlState.SHUTDOWN_NOW:
            heartbeats.ended(request.broker_id)
    else:
        heartbeats.agree(request.broker_id, is_fenced=False)
    return outcome.decision


_WITH_SESSIONS: Final[dict[type, Callable[[Situation, Any, Heartbeats], Decision]]] = {
    BrokerHeartbeatRequest: _heartbeat,
    BrokerRegistrationRequest: decide_registration,
    UnregisterBrokerRequest: decide_unregistration,
}

_PLAIN: Final[dict[type, Callable[[Situation, Any], Decision]]] = {
    AllocateProducerIdsRequest: decide_allocation,
    AlterConfigsRequest: decide_alter_configs,
    AlterPartitionReassignmentsRequest: decide_reassignments,
    AlterPartitionRequest: decide_alter_partition,
    AssignReplicasToDirsRequest: decide_assignment_to_directories,
    ControllerRegistrationRequest: decide_controller_registration,
    CreatePartitionsRequest: decide_create_partitions,
    CreateTopicsRequest: decide_create_topics,
    DeleteTopicsRequest: decide_delete_topics,
    ElectLeadersRequest: decide_elections,
    IncrementalAlterConfigsRequest: decide_incremental_alter_configs,
    ListPartitionReassignmentsRequest: list_reassignments,
    UpdateFeaturesRequest: decide_update_features,
}

HANDLED: Final = frozenset({*_WITH_SESSIONS, *_PLAIN})
"""The classes of requests that the controller takes."""


def decide(situation: Situation, request: Any, heartbeats: Heartbeats) -> Decision:
    """What a request leads to. Raises PeerError: it is refused whole."""
    with_sessions = _WITH_SESSIONS.get(type(request))
    if with_sessions is not None:
        return with_sessions(situation, request, heartbeats)
    return _PLAIN[type(request)](situation, request)
