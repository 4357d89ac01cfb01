"""The settings of this controller, of topics and of others (DescribeConfigs on a controller listener, KIP-919)."""

from __future__ import annotations

from headrace.broker.config_changes import LogLevels
from headrace.broker.handlers import describe_configs
from headrace.config.dynamic import effective_config
from headrace.config.node_config import NodeConfig
from headrace.core.values import value_class
from headrace.metadata.image import MetadataImage
from headrace.node.controller_server import ControllerServer
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import InSteps
from headrace.wire.messages.describe_configs import DescribeConfigsRequest


@value_class
class _Controller:
    """This node, as a broker describes itself."""

    node_id: int
    started_with: NodeConfig
    config: NodeConfig
    image: MetadataImage
    log_levels: LogLevels


def handle(request: DescribeConfigsRequest, context: RequestContext, server: ControllerServer) -> InSteps:
    """As a broker answers, from this node's file and metadata."""
    image, node_id = server.image(), server.config.node_id
    known = image.configs
    config = effective_config(server.config, known.of_all_brokers(), known.of_broker(node_id))
    node = _Controller(
        node_id=node_id, started_with=server.config, config=config, image=image, log_levels=server.log_levels()
    )
    return describe_configs.handle(request, context, node)
