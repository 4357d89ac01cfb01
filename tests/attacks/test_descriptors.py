"""Clients that take all descriptors they can get: the node keeps what it needs for itself, and goes on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.wire.messages.metadata import MetadataRequest
from tests.support.attacks import MIB, Target, wait_until
from tests.support.raw import RawConnection

LIMIT = 160
METADATA = MetadataRequest(topics=(), allow_auto_topic_creation=False)


@pytest.fixture
def cramped() -> Iterator[Target]:
    """A node that may have 160 files and sockets open, and writes checkpoints all the time."""
    properties = {
        "log.flush.offset.checkpoint.interval.ms": "100",
        "replica.high.watermark.checkpoint.interval.ms": "100",
        "log.flush.start.offset.checkpoint.interval.ms": "100",
        "log.segment.bytes": "1048576",
    }
    with Target(properties=properties, descriptors=LIMIT) as running:
        yield running


def test_at_the_limit_of_descriptors_new_clients_are_refused_and_old_ones_served(cramped: Target) -> None:
    """fault:S15: 400 connections at a limit of 160: the next checkpoint failed, the directory went offline, the node ended."""
    early = RawConnection(cramped.node.port)
    crowd: list[socket.socket] = []
    with early, cramped.attacked(memory=32 * MIB):
        cpu_before = cramped.cpu_s()
        for _ in range(400):
            crowd.append(socket.create_connection(("127.0.0.1", cramped.node.port), 10))
        wait_until(lambda: sum(map(_is_closed, crowd)) >= 400 - LIMIT, "most of them are refused")
        for number in range(20):  # topics: files are made, checkpoints written
            cramped.create_topic_on(early, f"made-at-the-limit-{number}")
        assert early.ask(METADATA, 9).topics == ()
        assert cramped.descriptors() < LIMIT
        for one in crowd:
            one.close()
        wait_until(lambda: cramped.descriptors() < LIMIT // 2, "the crowd's sockets are closed")
        assert cramped.cpu_s() - cpu_before < 20, "refusing must not spin"
    cramped.create_topic("made-afterwards")
    assert "offline" not in cramped.log
    assert cramped.log.count("closed connection") <= 3


def _is_closed(one: socket.socket) -> bool:
    """Whether the node has closed it."""
    one.setblocking(False)
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_the_soft_limit_is_raised_at_the_start() -> None:
    """As Kafka's JVM does: a shell's 1,024 are not a broker's."""
    with Target(descriptors=-1024) as running:
        limits = Path(f"/proc/{running.node.pid}/limits").read_text()
        soft, hard = next(line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files"))
        assert soft == hard
