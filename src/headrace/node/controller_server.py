"""The controller and quorum node of one process, as the handlers of its controller listeners are given them."""

from __future__ import annotations

from collections.abc import Callable

from headrace.broker.config_changes import LogLevels
from headrace.config.node_config import NodeConfig
from headrace.core.listener import Listener
from headrace.core.values import value_class
from headrace.metadata.image import MetadataImage
from headrace.node.broker_watch import BrokerWatch
from headrace.node.local_controller import LocalController
from headrace.wire.messages.describe_quorum import NodeView


@value_class
class ControllerServer:
    """The controller and quorum node of this process, for requests from outside. `leader_id` gives -1 while nobody leads."""

    config: NodeConfig
    cluster_id: str
    local: LocalController
    image: Callable[[], MetadataImage]
    leader_id: Callable[[], int]
    kraft_version: Callable[[], int]
    watch: BrokerWatch
    bound_listeners: tuple[Listener, ...]
    log_levels: Callable[[], LogLevels]
    view: Callable[[], NodeView]
    heard_last_words: Callable[[int, str], None]

    def controller_addresses(self, listener: str) -> list[tuple[int, str, int]]:
        """(id, host, port) of each known controller: registered ones, else the configured voters, else this node."""
        registered = self.image().cluster.controllers
        found = []
        for controller_id in sorted(registered):
            end_point = next((each for each in registered[controller_id].end_points if each.name == listener), None)
            if end_point is not None:
                found.append((controller_id, end_point.host, end_point.port))
        if found:
            return found
        if self.config.controller_quorum_voters:
            return [self._with_bound_port(*voter) for voter in self.config.controller_quorum_voters]
        return [
            (self.config.node_id, one.host or "localhost", one.port)
            for one in self.bound_listeners
            if one.name == listener
        ]

    def _with_bound_port(self, node_id: int, host: str, port: int) -> tuple[int, str, int]:
        if node_id == self.config.node_id and port == 0:
            port = next((one.port for one in self.bound_listeners), 0)
        return node_id, host, port
