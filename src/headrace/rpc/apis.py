"""Which handler answers which API, in which versions, on which listener?

The `ApiVersions` answer is derived from this table: an API is advertised only when it has a row. Version ranges are the stable ones of
Apache Kafka 4.3.1; the two that are advertised wider or narrower than they are parsed say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from headrace.rpc.reply import HotResult


@dataclass(frozen=True, slots=True)
class ApiRow:
    """One API: its key, the versions that are served, and the message and handler modules by their common name.

    With `reads_raw` the handler is given the body's bytes in place of the message (hot paths), valid during the call. `allows_trailing`: bytes after
    the body are ignored, because a client in wide use sends them; everywhere else they close the connection (B4).
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    advertised_min: int | None = None
    handler_module: str | None = None
    reads_raw: bool = False
    allows_trailing: bool = False

    @property
    def lowest_advertised(self) -> int:
        """What `ApiVersions` says; below `min_version` for Produce, where old librdkafka looks for 0 (KAFKA-18659)."""
        return self.min_version if self.advertised_min is None else self.advertised_min


NEVER_FLEXIBLE = 1 << 15

# Every row has `handlers/<name>.py` with `handle(request, context, broker)` and `wire/messages/<name>.py`.
BROKER_APIS: tuple[ApiRow, ...] = (
    ApiRow(0, "produce", 3, 13, 9, advertised_min=0, reads_raw=True),
    ApiRow(1, "fetch", 4, 18, 12, reads_raw=True),
    ApiRow(2, "list_offsets", 1, 11, 6),
    ApiRow(3, "metadata", 0, 13, 9, allows_trailing=True),  # librdkafka 2.16 leaves 3 bytes in version 13
    ApiRow(8, "offset_commit", 2, 10, 8),
    ApiRow(9, "offset_fetch", 1, 10, 6),
    ApiRow(10, "find_coordinator", 0, 6, 3),
    ApiRow(11, "join_group", 0, 9, 6),
    ApiRow(12, "heartbeat", 0, 4, 4),
    ApiRow(13, "leave_group", 0, 5, 4),
    ApiRow(14, "sync_group", 0, 5, 4),
    ApiRow(15, "describe_groups", 0, 6, 5),
    ApiRow(16, "list_groups", 0, 5, 3),
    ApiRow(18, "api_versions", 0, 4, 3),
    ApiRow(19, "create_topics", 2, 7, 5),
    ApiRow(20, "delete_topics", 1, 6, 4),
    ApiRow(21, "delete_records", 0, 2, 2),
    ApiRow(22, "init_producer_id", 0, 5, 2),
    ApiRow(23, "offset_for_leader_epoch", 2, 4, 4),
    ApiRow(32, "describe_configs", 1, 4, 4),
    ApiRow(33, "alter_configs", 0, 2, 2),
    ApiRow(35, "describe_log_dirs", 1, 5, 2),
    ApiRow(37, "create_partitions", 0, 3, 2),
    ApiRow(42, "delete_groups", 0, 2, 2),
    ApiRow(43, "elect_leaders", 0, 2, 2),
    ApiRow(44, "incremental_alter_configs", 0, 1, 1),
    ApiRow(45, "alter_partition_reassignments", 0, 1, 0),
    ApiRow(46, "list_partition_reassignments", 0, 0, 0),
    ApiRow(47, "offset_delete", 0, 0, NEVER_FLEXIBLE),
    ApiRow(55, "describe_quorum", 0, 2, 0),
    ApiRow(57, "update_features", 0, 2, 0),
    ApiRow(60, "describe_cluster", 0, 2, 0),
    ApiRow(64, "unregister_broker", 0, 0, 0),
    ApiRow(75, "describe_topic_partitions", 0, 0, 0),
    ApiRow(80, "add_raft_voter", 0, 1, 0),
    ApiRow(81, "remove_raft_voter", 0, 0, 0),
)

ROW_BY_KEY: dict[int, ApiRow] = {row.key: row for row in BROKER_APIS}


@cache
def handler_of(row: ApiRow) -> Callable[[Any, Any, Any], HotResult]:
    """The handler, imported when its API is first asked for."""
    module = import_module(row.handler_module or f"headrace.broker.handlers.{row.name}")
    handle: Callable[[Any, Any, Any], HotResult] = module.handle
    return handle


@cache
def request_class_of(row: ApiRow) -> type[Any]:
    """The request's message class, imported when first asked for."""
    module = import_module(f"headrace.wire.messages.{row.name}")
    name = "".join(part.capitalize() for part in row.name.split("_")) + "Request"
    message_class: type[Any] = getattr(module, name)
    return message_class
