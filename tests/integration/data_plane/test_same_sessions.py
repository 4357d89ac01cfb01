"""Fetch sessions, step by step at Apache Kafka 4.3.1 and at Headrace: the same answers, at once or at the end of the wait."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.core.ids import Uuid
from headrace.testing.node import Node
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.peers.kafka import Kafka
from tests.support.peer import Peer, batch

pytestmark = pytest.mark.java

UNKNOWN = Uuid(b"0123456789abcdef")
WAIT_MS = 600
"""Long beside what an answer takes that does not wait, on a machine that is very busy."""


class Story:
    """One broker's answers to a session."""

    def __init__(self, peer: Peer, version: int) -> None:
        self.peer = peer
        self.version = version
        self.ids: dict[str, Uuid] = {}
        self.session = (0, 0)
        self.told: list[object] = []

    def create(self, name: str) -> None:
        """A topic of two partitions, the first of which has two records."""
        self.ids[name] = self.peer.create(name, partitions=2)
        for _ in range(2):
            assert self.peer.produce(name, batch(b"v")).error_code == 0

    def ask(self, *asked: tuple[str | Uuid, int, int], forgotten: tuple[tuple[str, int], ...] = ()) -> None:
        """The session's next request, for (topic, partition, offset) each; what is told of it."""
        by_id = self.version >= 13

        def named(topic: str | Uuid) -> dict[str, Any]:
            if not by_id:
                return {"topic": topic}
            return {"topic_id": topic if isinstance(topic, Uuid) else self.ids.get(topic, UNKNOWN)}

        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session[0],
            session_epoch=self.session[1],
            topics=tuple(
                FetchTopic(
                    partitions=(FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20),),
                    **named(topic),
                )
                for topic, number, offset in asked
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(partitions=(number,), **named(topic)) for topic, number in forgotten
            ),
        )
        begun = time.monotonic()
        answer = self.peer.ask(request, self.version)
        has_waited = time.monotonic() - begun > 0.95 * WAIT_MS / 1_000
        names = {topic_id: name for name, topic_id in self.ids.items()}
        partitions = sorted(
            (
                names.get(topic.topic_id, "?") if by_id else topic.topic,
                one.partition_index,
                one.error_code,
                (one.high_watermark, one.last_stable_offset, one.log_start_offset),
                len(one.records or b""),
            )
            for topic in answer.responses
            for one in topic.partitions
        )
        self.told.append((answer.error_code, answer.session_id > 0, partitions, has_waited))
        self.session = (answer.session_id or self.session[0], self.session[1] + 1)

    def begin(self) -> None:
        """The next request begins a session."""
        self.session = (0, 0)


def told_by(peer: Peer, version: int) -> list[object]:
    """What becomes of a session whose topics are not there, go, and are made anew."""
    story = Story(peer, version)
    kept, gone = f"kept-{version}", f"gone-{version}"
    story.create(kept)
    story.create(gone)
    old = story.ids[gone]
    story.ask((kept, 0, 0), (gone, 0, 0), (gone, 1, 0), ("nowhere", 0, 0), (kept, 7, 0))
    story.ask((kept, 0, 2), (gone, 0, 2))
    story.ask()
    story.ask(forgotten=(("nowhere", 0), (kept, 7)))
    peer.delete(gone)
    story.ask()
    story.ask((gone, 0, 2))
    story.create(gone)
    story.ask()
    story.ask((gone, 0, 0))
    if version >= 13:
        story.ask((old, 0, 0))
    story.ask(forgotten=((gone, 0), (gone, 1), (kept, 0)))
    story.ask()
    story.begin()
    story.ask((kept, 0, 2))
    story.ask((kept, 0, 1), forgotten=((kept, 0),))
    story.ask()
    story.begin()
    story.ask()
    story.ask()
    story.ask((kept, 0, 0))
    for name in (kept, gone):
        peer.delete(name)
    return story.told


@pytest.mark.parametrize("version", [12, 13, 17])
def test_a_session_goes_on_as_at_kafka(data_node: Node, shared_kafka: Kafka, version: int) -> None:
    """B-P07, S1-35, KIP-227, KIP-516: with topics that are not there, that are deleted or made anew, and with nothing left in it."""
    expected = told_by(Peer("kafka", shared_kafka.port), version)
    assert told_by(Peer("headrace", data_node.port), version) == expected
