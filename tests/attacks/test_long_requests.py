"""Requests that name very much: nobody else waits for them."""

from __future__ import annotations

from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.attacks import MIB, Target
from tests.support.raw import RawConnection


def test_metadata_for_a_million_unknown_names(target: Target) -> None:
    """The names are 25 MB; others waited 9 s."""
    names = tuple(MetadataRequestTopic(name=f"unknown-topic-{number:09d}") for number in range(1_000_000))
    with target.attacked(memory=640 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(120)
        found = peer.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 9)
        assert len(found.topics) == len(names)
