"""Changes of single settings (IncrementalAlterConfigs, KIP-339)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.config_changes import Change
from headrace.broker.config_forwarding import AlterApi, alter
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult
from headrace.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


def _changes(resource: AlterConfigsResource) -> tuple[Change, ...]:
    return tuple(Change(one.name, one.config_operation, one.value) for one in resource.configs)


_API = AlterApi(
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    outcome=AlterConfigsResourceResponse,
    changes=_changes,
    is_legacy=False,
)


def handle(request: IncrementalAlterConfigsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Refuse what this broker can refuse, change log levels, and let the controller decide the rest."""
    return alter(request, context, broker, _API)
