"""The replacement of all settings of a resource (AlterConfigs, KIP-133)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.config_changes import Change
from headrace.broker.config_forwarding import AlterApi, alter
from headrace.config.rules import Operation
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult
from headrace.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def _changes(resource: AlterConfigsResource) -> tuple[Change, ...]:
    return tuple(Change(one.name, Operation.SET, one.value) for one in resource.configs)


_API = AlterApi(
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    outcome=AlterConfigsResourceResponse,
    changes=_changes,
    is_legacy=True,
)


def handle(request: AlterConfigsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Refuse what this broker can refuse, and let the controller decide the rest."""
    return alter(request, context, broker, _API)
