"""What does this broker host, know and wait for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.purgatory import Purgatory
from headrace.core.node_config import NodeConfig
from headrace.metadata.image import MetadataImage

if TYPE_CHECKING:
    from headrace.broker.groups import GroupService


class Broker:
    """The broker role of one node: what handlers are given. It implements `ports.BrokerServices`.

    Public fields: `config`, `image`, `partitions`, `purgatory`, `fetch_sessions`, `groups`, `producer_ids`.
    """

    groups: GroupService
    image: MetadataImage
    config: NodeConfig
    purgatory: Purgatory
