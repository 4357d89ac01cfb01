"""The settings of topics, brokers, groups and others (DescribeConfigs, KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from headrace.broker.config_changes import LogLevels, parse_node_id
from headrace.config.node_config import NodeConfig
from headrace.config.rules import ResourceType, check_topic_name
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.config_view import ConfigView, Source
from headrace.metadata.image import MetadataImage
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import HandlerResult, InSteps, Reply
from headrace.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

_REST_AFTER: Final = 4
"""A setting with its synonyms and its documentation takes 20 microseconds."""


class DescribedNode(Protocol):
    """A broker, or a controller that describes itself (KIP-919)."""

    @property
    def node_id(self) -> int:
        """This node."""

    @property
    def started_with(self) -> NodeConfig:
        """What its file says."""

    @property
    def config(self) -> NodeConfig:
        """What is in force."""

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""

    @property
    def log_levels(self) -> LogLevels:
        """Its loggers."""


def handle(request: DescribeConfigsRequest, context: RequestContext, broker: DescribedNode) -> InSteps:
    """Answer for each resource apart, in steps: a broker has hundreds of settings."""
    return InSteps(_steps(request, broker), size=1, mostly_short=True)


def _steps(request: DescribeConfigsRequest, broker: DescribedNode) -> Steps[HandlerResult]:
    view = ConfigView(
        started_with=broker.started_with,
        current=broker.config,
        configs=broker.image.configs,
        shows_synonyms=request.include_synonyms,
        shows_documentation=request.include_documentation,
    )
    results = []
    for one in request.resources:
        results.append((yield from _result(one, view, broker)))
    return Reply(DescribeConfigsResponse(results=tuple(results)))


def _result(resource: DescribeConfigsResource, view: ConfigView, broker: DescribedNode) -> Steps[DescribeConfigsResult]:
    configs = []
    try:
        for number, config in enumerate(_configs(resource, view, broker), 1):
            configs.append(config)
            if not number % _REST_AFTER:
                yield None
    except PeerError as refusal:
        return DescribeConfigsResult(
            error_code=refusal.code,
            error_message=refusal.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=tuple(configs)
    )


def _configs(
    resource: DescribeConfigsResource, view: ConfigView, broker: DescribedNode
) -> Iterator[DescribeConfigsResourceResult]:
    """Raises PeerError before the first is asked for, or at once."""
    name = resource.resource_name
    wanted = frozenset(resource.configuration_keys or ())  # looked up for each key that there is
    if not name and resource.resource_type in _WHEN_EMPTY:
        raise PeerError(ErrorCode.INVALID_REQUEST, _WHEN_EMPTY[resource.resource_type])
    match resource.resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in broker.image.topics.by_name:
                raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return view.topic(name, wanted)
        case ResourceType.BROKER if not name:
            return view.all_brokers(wanted)
        case ResourceType.BROKER:
            _check_is_me(
                name, f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}", broker
            )
            return view.broker(wanted)
        case ResourceType.BROKER_LOGGER:
            _check_is_me(name, f"Unexpected broker id, expected {broker.node_id} but received {name}", broker)
            return _loggers(broker, wanted)
        case ResourceType.CLIENT_METRICS:
            return view.client_metrics(name, wanted)
        case ResourceType.GROUP:
            return view.group(name, wanted)
        case other:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {other}")


_WHEN_EMPTY: dict[int, str] = {
    ResourceType.BROKER_LOGGER: "Broker id must not be empty",
    ResourceType.CLIENT_METRICS: "Client metrics subscription name must not be empty",
    ResourceType.GROUP: "Group name must not be empty",
}


def _check_is_me(name: str, otherwise: str, broker: DescribedNode) -> None:
    number = parse_node_id(name)
    if number is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if number != broker.node_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, otherwise)


def _loggers(broker: DescribedNode, wanted: frozenset[str]) -> Iterator[DescribeConfigsResourceResult]:
    return (
        DescribeConfigsResourceResult(name=name, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER)
        for name, level in sorted(broker.log_levels.levels().items())
        if not wanted or name in wanted
    )
