"""What does a controller listener serve, and who answers?

The rows are what `ApiVersions` tells there. Their handlers are given the `ControllerSide` of the node.
"""

from __future__ import annotations

from headrace.rpc.apis import ApiRow

_FORWARD = "headrace.node.controller_handlers.ask_controller"
_RAFT = "headrace.node.controller_handlers.ask_raft"

CONTROLLER_APIS: tuple[ApiRow, ...] = (
    ApiRow(1, "fetch", 4, 18, 12, handler_module=_RAFT),
    ApiRow(18, "api_versions", 0, 4, 3, handler_module="headrace.node.controller_handlers.api_versions"),
    ApiRow(19, "create_topics", 2, 7, 5, handler_module=_FORWARD),
    ApiRow(20, "delete_topics", 1, 6, 4, handler_module=_FORWARD),
    ApiRow(32, "describe_configs", 1, 4, 4, handler_module="headrace.node.controller_handlers.describe_configs"),
    ApiRow(33, "alter_configs", 0, 2, 2, handler_module=_FORWARD),
    ApiRow(37, "create_partitions", 0, 3, 2, handler_module=_FORWARD),
    ApiRow(43, "elect_leaders", 0, 2, 2, handler_module=_FORWARD),
    ApiRow(44, "incremental_alter_configs", 0, 1, 1, handler_module=_FORWARD),
    ApiRow(45, "alter_partition_reassignments", 0, 1, 0, handler_module=_FORWARD),
    ApiRow(46, "list_partition_reassignments", 0, 0, 0, handler_module=_FORWARD),
    ApiRow(52, "vote", 0, 2, 0, handler_module=_RAFT),
    ApiRow(53, "begin_quorum_epoch", 0, 1, 1, handler_module=_RAFT),
    ApiRow(54, "end_quorum_epoch", 0, 1, 1, handler_module=_RAFT),
    ApiRow(55, "describe_quorum", 0, 2, 0, handler_module="headrace.node.controller_handlers.describe_quorum"),
    ApiRow(56, "alter_partition", 2, 3, 0, handler_module=_FORWARD),
    ApiRow(57, "update_features", 0, 2, 0, handler_module=_FORWARD),
    ApiRow(58, "envelope", 0, 0, 0, handler_module="headrace.node.controller_handlers.envelope"),
    ApiRow(59, "fetch_snapshot", 0, 1, 0, handler_module=_RAFT),
    ApiRow(60, "describe_cluster", 0, 2, 0, handler_module="headrace.node.controller_handlers.describe_cluster"),
    ApiRow(62, "broker_registration", 0, 4, 0, handler_module=_FORWARD),
    ApiRow(63, "broker_heartbeat", 0, 2, 0, handler_module=_FORWARD),
    ApiRow(64, "unregister_broker", 0, 0, 0, handler_module=_FORWARD),
    ApiRow(67, "allocate_producer_ids", 0, 0, 0, handler_module=_FORWARD),
    ApiRow(70, "controller_registration", 0, 0, 0, handler_module=_FORWARD),
    ApiRow(73, "assign_replicas_to_dirs", 0, 0, 0, handler_module=_FORWARD),
    ApiRow(80, "add_raft_voter", 0, 1, 0, handler_module=_RAFT),
    ApiRow(81, "remove_raft_voter", 0, 0, 0, handler_module=_RAFT),
    ApiRow(82, "update_raft_voter", 0, 0, 0, handler_module=_RAFT),
)

NOT_CONTROLLER_APIS: tuple[ApiRow, ...] = (
    ApiRow(62, "broker_registration", 0, 4, 0, handler_module="headrace.broker.handlers.not_controller"),
    ApiRow(63, "broker_heartbeat", 0, 2, 0, handler_module="headrace.broker.handlers.not_controller"),
)
"""On a broker listener these are not advertised and answered NOT_CONTROLLER (S1-52)."""
