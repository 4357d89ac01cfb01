"""Hundreds of connections that ask at the same moment for what takes a few milliseconds each."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import pytest

from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schema import Message
from tests.support.attacks import MIB, POLITE_TOPIC, Target, wait_until
from tests.support.peer import batch, produce_request
from tests.support.polite_client import node_work_ms
from tests.support.raw import RawConnection, request_frame

_BROKER = DescribeConfigsResource(resource_type=4, resource_name="1")
TRIES = 3
"""Whoever waits for a core with the response in its buffer counts work that the node does meanwhile: a busy machine only ever adds."""
_PARTS = tuple(FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1 << 20) for each in range(250))
_WIDE = (FetchTopic(topic="wide", partitions=_PARTS),)
ASKED: dict[str, tuple[Message, int]] = {
    "all settings of the broker": (
        DescribeConfigsRequest(resources=(_BROKER,), include_synonyms=True, include_documentation=True),
        4,
    ),
    "all topics": (MetadataRequest(topics=None, allow_auto_topic_creation=False), 9),
    "what is new in 250 partitions": (FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=_WIDE), 12),
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


@pytest.mark.parametrize("end", ["their time is up", "records come"])
def test_fetches_of_a_crowd_that_wait_end_at_one_moment(target: Target, end: str) -> None:
    """PR8: 200 connections, each waits for 250 partitions; the loop was held for 0.8 s, 4 ms for each of them."""
    _with_a_wide_topic(target)
    is_late = end == "their time is up"
    with target.attacked(memory=64 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(200)]
        over_at = time.monotonic() + 5
        for peer in peers:
            peer.socket.settimeout(120)
            wait_ms = int((over_at - time.monotonic()) * 1000) if is_late else 60_000
            request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=_WIDE)
            peer.send(request_frame(request, 12))
        with RawConnection(target.node.port) as other:  # it is answered behind them
            assert other.ask(*SMALL["one topic"]).topics
            assert time.monotonic() < over_at
            if is_late:
                os.kill(target.node.pid, signal.SIGSTOP)
                time.sleep(over_at - time.monotonic())
                os.kill(target.node.pid, signal.SIGCONT)
            else:
                other.ask(produce_request("wide", batch(b"x"), version=9), 9)
        for peer in peers:
            assert len(peer.receive_frame()) > 1_000
