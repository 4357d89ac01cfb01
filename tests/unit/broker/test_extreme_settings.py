"""Settings of topics that are valid and extreme: what logs make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.broker.log_settings import log_config
from headrace.config.node_config import NodeConfig
from headrace.config.topic_config import topic_defaults

INTERVALS = [(0, 256), (255, 256), (256, 256), (4_096, 4_096), (65_536, 65_536), (65_537, 65_536), (2**31 - 1, 65_536)]


@pytest.mark.parametrize(("asked", "used"), INTERVALS)
def test_an_index_is_neither_large_nor_useless(asked: int, used: int) -> None:
    """PR8: with an entry a batch it is a third of the log, in memory; with none a fetch reads the segment from its beginning."""
    node = NodeConfig(node_id=1)
    topic = replace(topic_defaults(node), index_interval_bytes=asked)
    assert log_config(topic, node).index_interval_bytes == used
