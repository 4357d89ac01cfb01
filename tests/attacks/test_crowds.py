"""Hundreds of connections that ask at the same moment for what takes a few milliseconds each."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.schema import Message
from tests.support.attacks import MIB, Target, wait_until
from tests.support.raw import RawConnection, request_frame

_BROKER = DescribeConfigsResource(resource_type=4, resource_name="1")
ASKED: dict[str, tuple[Message, int]] = {
    "all settings of the broker": (
        DescribeConfigsRequest(resources=(_BROKER,), include_synonyms=True, include_documentation=True),
        4,
    ),
    "all topics": (MetadataRequest(topics=None, allow_auto_topic_creation=False), 9),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_crowd_that_asks_for_much(target: Target, what: str) -> None:
    """200 connections, twice: the loop was held for 0.8 s, and for 0.2 s with 3,000 partitions."""
    with RawConnection(target.node.port) as peer:
        known = peer.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
    if not any(topic.name == "wide" for topic in known.topics):
        target.create_topic("wide", 3_000)
        wait_until(
            lambda: "wide-2999" in {path.name for path in target.node.directory.glob("*/wide-*")}, "logs are made"
        )
    request, version = ASKED[what]
    data = request_frame(request, version)
    with target.attacked(memory=256 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(200)]
        for _ in range(2):
            for peer in peers:
                peer.socket.settimeout(120)
                peer.send(data)
            for peer in peers:
                assert len(peer.receive_frame()) > 1_000
