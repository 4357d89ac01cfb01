"""The refusal of the consumer protocol (ConsumerGroupHeartbeat, KIP-848): UNSUPPORTED_VERSION, as Kafka says while `group.version` is 0.

The API is advertised for this: librdkafka asks for the version again and again, and tells its user nothing, where a broker does not know it.
"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.unsupported import NO_CONSUMER_PROTOCOL, tell_unsupported
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(request: ConsumerGroupHeartbeatRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Tell every member at once; its client says so to the user, or falls back."""
    tell_unsupported(broker, context, NO_CONSUMER_PROTOCOL)
    return Reply(
        ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="The consumer protocol is not supported by this cluster yet: set group.protocol=classic.",
            member_epoch=request.member_epoch,
        )
    )
