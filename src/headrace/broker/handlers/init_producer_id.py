"""The id of an idempotent producer (InitProducerId, KIP-98, KIP-360)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.unsupported import NO_TRANSACTIONS, tell_unsupported
from headrace.core.error_code import ErrorCode
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HandlerResult, Reply
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE = -1


def handle(request: InitProducerIdRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """A fresh id with epoch 0. Ids for transactions need the transaction coordinator, which this cluster does not have."""
    if (request.producer_id == _NONE) != (request.producer_epoch == _NONE):
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id == "":
        return _failed(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        tell_unsupported(broker, context, NO_TRANSACTIONS)
        return _failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    deferred = Deferred()

    def on_id(producer_id: int | ErrorCode) -> None:
        if isinstance(producer_id, ErrorCode):
            deferred.complete(_failed(producer_id))
        else:
            deferred.complete(Reply(InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)))

    broker.producer_ids.take(on_id)
    return deferred.reply or deferred


def _failed(error: ErrorCode) -> Reply:
    return Reply(InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1))
