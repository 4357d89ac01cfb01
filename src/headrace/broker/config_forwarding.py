"""Requests to change settings, split into what this broker does or refuses and what the controller decides.

AlterConfigs and IncrementalAlterConfigs differ in their messages only; both come through here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.config_changes import BrokerSettings, Change, change_log_levels, check_change, check_once
from headrace.config.rules import ResourceType
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.values import value_class
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, HandlerResult, Reply


@value_class
class AlterApi:
    """What one of the two APIs is made of."""

    request: Callable[..., Any]
    response: Callable[..., Any]
    outcome: Callable[..., Any]
    """The class of one resource's outcome in the response."""
    changes: Callable[[Any], Sequence[Change]]
    """The changes that a resource of the request asks for."""
    is_legacy: bool


Outcome = tuple[int, str | None]
_DONE: Outcome = (ErrorCode.NONE, None)


def alter(request: Any, context: RequestContext, broker: Broker, api: AlterApi) -> HandlerResult:
    """Answer a request of either API."""
    outcomes = _own_outcomes(request, broker, api)
    rest = tuple(one for place, one in enumerate(request.resources) if place not in outcomes)
    if not rest:
        return Reply(_response(request, outcomes, {}, api))
    mine = Deferred()
    sent = broker.forward(api.request(resources=rest, validate_only=request.validate_only), context)

    def done(reply: AnyReply) -> None:
        mine.complete(_merge(request, outcomes, reply, api))

    sent.when_done(done)
    return mine


def _own_outcomes(request: Any, broker: Broker, api: AlterApi) -> dict[int, Outcome]:
    """By position in the request: what needs no controller."""
    refused = check_once([(one.resource_type, one.resource_name) for one in request.resources])
    outcomes: dict[int, Outcome] = {place: (error.code, error.message) for place, error in refused.items()}
    settings = BrokerSettings(
        node_id=broker.node_id,
        started_with=broker.started_with,
        current=broker.config,
        configs=broker.image.configs,
        log_levels=broker.log_levels,
    )
    for place, resource in enumerate(request.resources):
        if place in outcomes:
            continue
        changes = api.changes(resource)
        try:
            if resource.resource_type == ResourceType.BROKER_LOGGER and not api.is_legacy:
                change_log_levels(
                    resource.resource_name,
                    changes,
                    node_id=broker.node_id,
                    levels=broker.log_levels,
                    is_validation=request.validate_only,
                )
                outcomes[place] = _DONE
            else:
                check_change(
                    resource.resource_type, resource.resource_name, changes, settings=settings, is_legacy=api.is_legacy
                )
        except PeerError as refusal:
            outcomes[place] = (refusal.code, refusal.message)
    return outcomes


def _merge(request: Any, outcomes: dict[int, Outcome], reply: AnyReply, api: AlterApi) -> Reply:
    assert isinstance(reply, Reply), "the controller answers with a message"
    message: Any = reply.message
    decided = {(one.resource_type, one.resource_name): (one.error_code, one.error_message) for one in message.responses}
    return Reply(_response(request, outcomes, decided, api))


def _response(
    request: Any, outcomes: dict[int, Outcome], decided: dict[tuple[int, str], Outcome], api: AlterApi
) -> Any:
    rows = []
    for place, resource in enumerate(request.resources):
        key = (resource.resource_type, resource.resource_name)
        code, message = outcomes.get(place) or decided.get(key, (ErrorCode.UNKNOWN_SERVER_ERROR, None))
        rows.append(api.outcome(error_code=code, error_message=message, resource_type=key[0], resource_name=key[1]))
    return api.response(responses=tuple(rows))
