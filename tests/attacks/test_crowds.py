"""Hundreds of connections that ask at the same moment for what takes a few milliseconds each."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schema import Message
from tests.support.attacks import MIB, POLITE_TOPIC, Target, wait_until
from tests.support.polite_client import node_work_ms
from tests.support.raw import RawConnection, request_frame

_BROKER = DescribeConfigsResource(resource_type=4, resource_name="1")
TRIES = 3
"""Whoever waits for a core with the response in its buffer counts work that the node does meanwhile: a busy machine only ever adds."""
ASKED: dict[str, tuple[Message, int]] = {
    "all settings of the broker": (
        DescribeConfigsRequest(resources=(_BROKER,), include_synonyms=True, include_documentation=True),
        4,
    ),
    "all topics": (MetadataRequest(topics=None, allow_auto_topic_creation=False), 9),
}


SMALL: dict[str, tuple[Message, int]] = {
    "one topic": (
        MetadataRequest(topics=(MetadataRequestTopic(name=POLITE_TOPIC),), allow_auto_topic_creation=False),
        9,
    ),
    "a coordinator": (FindCoordinatorRequest(key="g"), 2),
}


def _with_a_wide_topic(target: Target) -> None:
    with RawConnection(target.node.port) as peer:
        known = peer.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
    if not any(topic.name == "wide" for topic in known.topics):
        target.create_topic("wide", 3_000)
        wait_until(
            lambda: "wide-2999" in {path.name for path in target.node.directory.glob("*/wide-*")}, "logs are made"
        )


@pytest.mark.parametrize("what", ASKED)
def test_a_crowd_that_asks_for_much(target: Target, what: str) -> None:
    """200 connections, twice: the loop was held for 0.8 s, and for 0.2 s with 3,000 partitions."""
    _with_a_wide_topic(target)
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


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("what", ASKED)
def test_who_asks_for_little_at_the_same_moment_is_answered_first(target: Target, what: str, small: str) -> None:
    """PR8, M6: all in one turn, it last; it waited for a millisecond of each of the 200, and for five of each that asked for settings."""
    _with_a_wide_topic(target)
    request, version = ASKED[what]
    data = request_frame(request, version)
    asked, its_version = SMALL[small]
    waits_ms: list[float] = []
    with target.attacked(memory=256 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(200)]
        other = opened.enter_context(RawConnection(target.node.port))
        other.ask(asked, its_version)
        while len(waits_ms) < TRIES and not any(each <= target.allowed_turn_ms() for each in waits_ms):
            os.kill(target.node.pid, signal.SIGSTOP)
            for peer in peers:
                peer.socket.settimeout(120)
                peer.send(data)
            other.send(request_frame(asked, its_version))
            before_ms = node_work_ms(target.node.pid)
            os.kill(target.node.pid, signal.SIGCONT)
            other.receive_frame()
            waits_ms.append(node_work_ms(target.node.pid) - before_ms)
            for peer in peers:
                assert len(peer.receive_frame()) > 1_000
    target.must_be_short({"the answer to who asked for little": min(waits_ms)})
