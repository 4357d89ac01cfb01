"""What a test asks a cluster of several processes, in one line each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from headrace.testing.asking import ask
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.metadata import MetadataRequest

CONTROLLERS = 2
T = TypeVar("T")


def until(reached: Callable[[], T | None], *, timeout_s: float = 180.0) -> T:
    """What `reached` gives once it gives something."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        found = reached()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def create(broker: Member, *names: str, timeout_ms: int = 60_000, partitions: int = 1) -> list[int]:
    """Create topics with one replica through a broker; their error codes."""
    topics = tuple(CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names)
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
    answer = ask(broker.place.host, broker.port, request, 7, timeout_s=timeout_ms / 1000 + 5)
    return [each.error_code for each in answer.topics]


def topics_of(broker: Member) -> set[str]:
    """The topics that a broker knows."""
    answer = ask(broker.place.host, broker.port, MetadataRequest(topics=None), 12)
    return {each.name for each in answer.topics}


def metadata_offset(broker: Member) -> int:
    """The offset of the metadata that a broker's answers are made from (S4-55)."""
    found: int = ask(broker.place.host, broker.port, MetadataRequest(topics=()), 12).metadata_offset
    return found


def unfenced(broker: Member) -> set[int]:
    """The brokers that take part, as one of them says."""
    answer: Any = ask(broker.place.host, broker.port, DescribeClusterRequest(), 1)
    return {each.broker_id for each in answer.brokers}


def controllers_of(member: Member) -> dict[int, int]:
    """Id and port of the controllers that a controller knows (endpoint type 2)."""
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    answer: Any = ask(member.place.host, member.controller_port, request, 1)
    assert answer.error_code == 0
    return {each.broker_id: each.port for each in answer.brokers}
