"""The table of APIs: one row for each that is served, with who answers it.

What a row leaves out comes from `headrace.wire`: the versions, from which one on they are flexible, the request's class, and the listeners
(brokers', controllers' or both) on which Apache Kafka 4.3.1 serves the API. A listener's owner binds the rows to modules with `rows_on`;
the `ApiVersions` response is made of what comes out, so an API is advertised only when it is served.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, Final

from headrace.core.values import value_class
from headrace.rpc.reply import HotResult
from headrace.wire.versions import APIS, PRODUCE_ADVERTISED_MIN, ApiKey, ApiVersions, request_class

BROKER: Final = "broker"
CONTROLLER: Final = "controller"


class AnsweredBy(Enum):
    """Who answers a request, wherever in the cluster that is."""

    HANDLER = "the node that was asked: a module of the API's name among the listener's handlers"
    CONTROLLER = "the active controller; a broker forwards the request"
    QUORUM = "the leader of the metadata quorum; a broker forwards the request"
    NOBODY = "nobody: NOT_CONTROLLER is the response"


@value_class(kw_only=False)
class Api:
    """One row of the table. `on_broker` and `on_controller` name who sees the request first on that listener, where it is not the answerer.

    `refused_by_broker`: on a broker's listener, where it is not advertised, the response is NOT_CONTROLLER. With `reads_raw` a broker's handler
    gets the body's bytes in place of the message (hot paths), valid during the call. `allows_trailing`: bytes behind the body are ignored,
    because a client in wide use sends them; everywhere else they close the connection. `is_pipelined`: a request whose response must wait
    does not hold back the next one of its connection. `is_replicas`: brokers ask it of one another, so a broker without contact to the
    controller still answers it.
    """

    key: ApiKey
    answered_by: AnsweredBy
    on_broker: AnsweredBy | None = None
    on_controller: AnsweredBy | None = None
    advertised_from: int | None = None
    refused_by_broker: bool = False
    reads_raw: bool = False
    allows_trailing: bool = False
    is_pipelined: bool = False
    is_replicas: bool = False

    @property
    def listeners(self) -> tuple[str, ...]:
        """Where Kafka serves it, and so do we."""
        return APIS[self.key].listeners

    @property
    def is_forwarded(self) -> bool:
        """A broker hands a client's request on to who answers it, in an Envelope (KIP-590)."""
        return BROKER in self.listeners and self.answered_by in (AnsweredBy.CONTROLLER, AnsweredBy.QUORUM)

    def first_on(self, listener: str) -> AnsweredBy:
        """Who sees a request that comes to this listener first."""
        own = self.on_broker if listener == BROKER else self.on_controller
        return own or self.answered_by


_HANDLER, _CONTROLLER, _QUORUM = AnsweredBy.HANDLER, AnsweredBy.CONTROLLER, AnsweredBy.QUORUM

API_TABLE: Final[tuple[Api, ...]] = (
    Api(ApiKey.PRODUCE, _HANDLER, advertised_from=PRODUCE_ADVERTISED_MIN, reads_raw=True, is_pipelined=True),
    Api(ApiKey.FETCH, _HANDLER, on_controller=_QUORUM, reads_raw=True, is_replicas=True),
    Api(ApiKey.LIST_OFFSETS, _HANDLER),
    Api(ApiKey.METADATA, _HANDLER, allows_trailing=True),  # librdkafka 2.16 leaves 3 bytes in version 13
    Api(ApiKey.OFFSET_COMMIT, _HANDLER),
    Api(ApiKey.OFFSET_FETCH, _HANDLER),
    Api(ApiKey.FIND_COORDINATOR, _HANDLER),
    Api(ApiKey.JOIN_GROUP, _HANDLER),
    Api(ApiKey.HEARTBEAT, _HANDLER),
    Api(ApiKey.LEAVE_GROUP, _HANDLER),
    Api(ApiKey.SYNC_GROUP, _HANDLER),
    Api(ApiKey.DESCRIBE_GROUPS, _HANDLER),
    Api(ApiKey.LIST_GROUPS, _HANDLER),
    Api(ApiKey.API_VERSIONS, _HANDLER),
    Api(ApiKey.CREATE_TOPICS, _CONTROLLER),
    Api(ApiKey.DELETE_TOPICS, _CONTROLLER),
    Api(ApiKey.DELETE_RECORDS, _HANDLER),
    Api(ApiKey.INIT_PRODUCER_ID, _HANDLER),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, _HANDLER),
    Api(ApiKey.DESCRIBE_CONFIGS, _HANDLER),
    Api(ApiKey.ALTER_CONFIGS, _CONTROLLER, on_broker=_HANDLER),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, _HANDLER),
    Api(ApiKey.DESCRIBE_LOG_DIRS, _HANDLER),
    Api(ApiKey.CREATE_PARTITIONS, _CONTROLLER),
    Api(ApiKey.DELETE_GROUPS, _HANDLER),
    Api(ApiKey.ELECT_LEADERS, _CONTROLLER),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, _CONTROLLER, on_broker=_HANDLER),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, _CONTROLLER),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, _CONTROLLER),
    Api(ApiKey.OFFSET_DELETE, _HANDLER),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, _HANDLER),
    Api(ApiKey.VOTE, _QUORUM),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, _QUORUM),
    Api(ApiKey.END_QUORUM_EPOCH, _QUORUM),
    Api(ApiKey.DESCRIBE_QUORUM, _QUORUM, on_broker=_HANDLER, on_controller=_HANDLER),
    Api(ApiKey.ALTER_PARTITION, _CONTROLLER),
    Api(ApiKey.UPDATE_FEATURES, _CONTROLLER),
    Api(ApiKey.ENVELOPE, _HANDLER, is_pipelined=True),
    Api(ApiKey.FETCH_SNAPSHOT, _QUORUM),
    Api(ApiKey.DESCRIBE_CLUSTER, _HANDLER),
    Api(ApiKey.BROKER_REGISTRATION, _CONTROLLER, refused_by_broker=True),
    Api(ApiKey.BROKER_HEARTBEAT, _CONTROLLER, refused_by_broker=True),
    Api(ApiKey.UNREGISTER_BROKER, _CONTROLLER),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, _CONTROLLER),
    Api(ApiKey.CONTROLLER_REGISTRATION, _CONTROLLER),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, _CONTROLLER),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, _HANDLER),
    Api(ApiKey.ADD_RAFT_VOTER, _QUORUM),
    Api(ApiKey.REMOVE_RAFT_VOTER, _QUORUM),
    Api(ApiKey.UPDATE_RAFT_VOTER, _QUORUM),
)

OF_CONTROLLER: Final = frozenset(api.key for api in API_TABLE if api.answered_by is _CONTROLLER)
"""The keys of what the active controller decides."""
OF_QUORUM: Final = frozenset(api.key for api in API_TABLE if api.answered_by is _QUORUM)
"""The keys of what the quorum node of the leader answers."""


@value_class
class ApiRow:
    """One API on one listener: the facts of both the table and `wire`, and the module whose `handle(request, context, target)` is called."""

    api: Api
    versions: ApiVersions
    handler_module: str
    reads_raw: bool
    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    allows_trailing: bool
    is_pipelined: bool

    @property
    def lowest_advertised(self) -> int:
        """What `ApiVersions` says; below `min_version` for Produce, where old librdkafka looks for 0 (KAFKA-18659)."""
        return self.min_version if self.api.advertised_from is None else self.api.advertised_from


def row_of(api: Api, handler_module: str, *, reads_raw: bool = False) -> ApiRow:
    """The API as a listener serves it with this handler."""
    versions = APIS[api.key]
    return ApiRow(
        api=api,
        versions=versions,
        handler_module=handler_module,
        reads_raw=reads_raw,
        key=versions.key,
        name=versions.snake_name,
        min_version=versions.first,
        max_version=versions.last_stable,
        flexible_from=versions.flexible_from,
        allows_trailing=api.allows_trailing,
        is_pipelined=api.is_pipelined,
    )


def rows_on(listener: str, modules: Mapping[AnsweredBy, str], table: Sequence[Api] = API_TABLE) -> tuple[ApiRow, ...]:
    """What a listener (`BROKER` or `CONTROLLER`) serves. `modules` are the handlers by who is first; `{name}` in one stands for the API's name."""
    rows = []
    for api in table:
        if listener in api.listeners:
            first = api.first_on(listener)
            module = modules[first].format(name=APIS[api.key].snake_name)
            is_raw = api.reads_raw and first is AnsweredBy.HANDLER
            rows.append(row_of(api, module, reads_raw=is_raw))
    return tuple(rows)


def refused_rows(module: str, table: Sequence[Api] = API_TABLE) -> tuple[ApiRow, ...]:
    """What a broker's listener answers NOT_CONTROLLER, by one handler."""
    return tuple(row_of(api, module) for api in table if api.refused_by_broker)


@cache
def handler_of(row: ApiRow) -> Callable[[Any, Any, Any], HotResult]:
    """The handler, imported when its API is first asked for."""
    handle: Callable[[Any, Any, Any], HotResult] = import_module(row.handler_module).handle
    return handle


@cache
def request_class_of(row: ApiRow) -> type[Any]:
    """The request's message class, imported when first asked for."""
    return request_class(row.key)
