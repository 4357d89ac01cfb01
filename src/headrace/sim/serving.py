"""Requests that reach a simulated node, answered by the same handlers as on a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.served_apis import BROKER_APIS
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import ApiRow, handler_of
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import LongWork
from headrace.rpc.reply import Deferred, InSteps

if TYPE_CHECKING:
    from headrace.node.compose import ComposedNode
    from headrace.rpc.reply import AnyReply
    from headrace.sim.links import Question
    from headrace.wire.messages.vote import VoteResponse

CONTROLLER_PORT: Final = 9093
BROKER_PORT: Final = 9092

Handler = Callable[[Any, RequestContext, Any], Any]

_CONTROLLER_ROWS: Final = {row.key: row for row in CONTROLLER_APIS}
_BROKER_ROWS: Final = {row.key: row for row in BROKER_APIS if not row.reads_raw}
_HANDLERS: Final[dict[tuple[int, bool], Handler]] = {}
NEWEST_VERSIONS: Final = {row.key: row.max_version for row in CONTROLLER_APIS}
"""Api -> the newest version that a controller listener serves."""


def served(question: Question, composed: ComposedNode, *, now_ms: int) -> AnyReply | Deferred | None:
    """What the node's handler says; None when that listener does not serve the API."""
    request = question.message
    key = request.SCHEMA.api_key
    is_controller_port = question.port == CONTROLLER_PORT
    row = (_CONTROLLER_ROWS if is_controller_port else _BROKER_ROWS).get(key)
    if row is None:
        return None
    handle = _handler(row, is_controller=is_controller_port)
    context = RequestContext(
        api_key=key,
        api_version=question.api_version if question.api_version >= 0 else row.max_version,
        correlation_id=question.correlation,
        client_id=f"node-{question.source}",
        client_host=f"n{question.source}",
        listener="CONTROLLER" if is_controller_port else "PLAINTEXT",
        connection_id=question.number,
        now_ms=now_ms,
        is_controller_listener=is_controller_port,
    )
    return _whole(
        handle(request, context, composed.controller_server if is_controller_port else composed.machine.broker)
    )


def _whole(result: AnyReply | Deferred) -> AnyReply | Deferred:
    """The answer; what takes steps takes them at once."""
    if not isinstance(result, InSteps):
        return result
    answer = Deferred()

    def done(made: AnyReply | Deferred) -> None:
        if isinstance(made, Deferred):
            made.when_done(answer.complete)
        else:
            answer.complete(made)

    LongWork(soon=None, clock=lambda: 0.0).begin(result.steps, done)
    return answer.reply or answer


def _handler(row: ApiRow, *, is_controller: bool) -> Handler:
    """A row's handler, imported when its API is first asked for."""
    found = _HANDLERS.get((row.key, is_controller))
    if found is None:
        found = _HANDLERS[row.key, is_controller] = handler_of(row)
    return found


def is_refused_pre_vote(request: Any, response: VoteResponse) -> bool:
    """Somebody who asked whether he would get a vote would not."""
    asked = request.topics[0].partitions[0] if request.topics and request.topics[0].partitions else None
    told = response.topics[0].partitions[0] if response.topics and response.topics[0].partitions else None
    return asked is not None and told is not None and asked.pre_vote and not told.vote_granted
