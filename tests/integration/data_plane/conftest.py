"""A node and Apache Kafka itself: what a client can see must be the same on both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from headrace.testing.node import Node
from tests.peers import kafka
from tests.support.peer import Peer

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def data_node() -> Iterator[Node]:
    """A node of our own that all tests of this folder share."""
    with Node() as node:
        yield node


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.java)])
def peer(request: pytest.FixtureRequest) -> Peer:
    """Headrace, then Apache Kafka."""
    name: str = request.param
    if name == "kafka":
        running: kafka.Kafka = request.getfixturevalue("shared_kafka")
        return Peer(name, running.port)
    node: Node = request.getfixturevalue("data_node")
    return Peer(name, node.port)


@pytest.fixture
def topic(peer: Peer) -> str:
    """A fresh topic with two partitions."""
    name = f"data-plane-{next(_NUMBERS)}"
    peer.create(name, partitions=2)
    return name
