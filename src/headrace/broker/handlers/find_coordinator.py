"""The broker that looks after a group (FindCoordinator).

Transactions have no coordinator in this cluster. The usual clients go on asking for one for a minute after INVALID_REQUEST, so they are told
what none of them retries: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which InitProducerId says as well.
"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.topic_listing import alive_end_points
from headrace.broker.unsupported import NO_TRANSACTIONS, tell_unsupported
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import EndPoint
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HandlerResult, Reply
from headrace.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP_KEY = 0
_TRANSACTION_KEY = 1
_FIRST_WITH_KEYS = 4
_NOWHERE = -1
_CREATION_WAIT_MS = 1_000
_MESSAGES = {
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactions are not supported by this cluster yet.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or "
    "the message was sent to an incompatible broker. See the broker logs for more details.",
}


def handle(request: FindCoordinatorRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer at once. The first request of all makes the offsets topic, and is answered when the controller was heard."""
    if request.key_type == _TRANSACTION_KEY:
        tell_unsupported(broker, context, NO_TRANSACTIONS)
    if request.key_type != GROUP_KEY or OFFSETS_TOPIC in broker.image.topics.by_name:
        return Reply(_answer(request, context, broker))
    deferred = Deferred(
        deadline_ms=context.now_ms + _CREATION_WAIT_MS,
        on_timeout=lambda: Reply(_answer(request, context, broker)),
    )
    broker.purgatory.hold(deferred)
    created = broker.auto_create_topic(OFFSETS_TOPIC, context)
    created.when_done(lambda _: deferred.complete(Reply(_answer(request, context, broker))))
    return deferred


def _answer(request: FindCoordinatorRequest, context: RequestContext, broker: Broker) -> FindCoordinatorResponse:
    """What is known now; a coordinator that is not there yet is asked for again by any client."""
    alive = alive_end_points(broker.image, context.listener)
    for broker_id in broker.departures.gone:
        alive.pop(broker_id, None)
    if context.api_version >= _FIRST_WITH_KEYS:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(coordinators=tuple(_find(key, request.key_type, alive, broker) for key in keys))
    one = _find(request.key, request.key_type, alive, broker)
    code = ErrorCode(one.error_code)
    return FindCoordinatorResponse(
        error_code=code,
        error_message=_MESSAGES.get(code, "NONE" if code is ErrorCode.NONE else code.name),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(key: str, key_type: int, alive: dict[int, EndPoint], broker: Broker) -> Coordinator:
    """Where the coordinator of one key is. Only groups have one here."""
    if key_type == _TRANSACTION_KEY:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _none(key, error, _MESSAGES[error])
    if key_type != GROUP_KEY:
        return _none(key, ErrorCode.INVALID_REQUEST, _MESSAGES[ErrorCode.INVALID_REQUEST])
    topic = broker.image.topics.by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = topic.partitions.get(broker.groups.partition_of(key))
    end_point = alive.get(partition.leader) if partition is not None else None
    if partition is None or end_point is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=partition.leader, host=end_point.host, port=end_point.port, error_message="")


def _none(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=_NOWHERE, host="", port=_NOWHERE, error_code=error, error_message=message)
