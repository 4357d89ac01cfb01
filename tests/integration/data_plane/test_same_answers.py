"""The same requests of clients to Apache Kafka 4.3.1 and to Headrace: the same answers, field by field."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.testing.node import Node
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.schema import Struct
from tests.integration.data_plane.same_questions import COMPACTED, EMPTY, FULL, KEPT, Question, questions
from tests.peers.kafka import Kafka
from tests.support.peer import Peer, batch
from tests.support.raw import RawConnection

pytestmark = pytest.mark.java

OF_ITS_OWN = {"host", "port", "cluster_id", "log_dir", "total_bytes", "usable_bytes", "metadata_offset"}
"""Fields in which two brokers must differ."""


def normal(value: Any) -> Any:
    """An answer without what must differ, and without the order of lists."""
    if isinstance(value, Struct):
        fields = {name: normal(getattr(value, name)) for name in type(value).__facts__ if name not in OF_ITS_OWN}
        if "topic_id" in fields:
            fields["topic_id"] = fields["topic_id"] != ZERO_UUID
        if "session_id" in fields:
            fields["session_id"] = fields["session_id"] != 0
        if "records" in fields:
            fields["records"] = len(fields["records"] or b"")
        return fields
    if isinstance(value, tuple):
        return sorted((normal(each) for each in value), key=repr)
    return value


class Asked:
    """One broker with the topics of the questions, and a connection that is opened again when the broker closes it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.ids: dict[str, Uuid] = {
            FULL: peer.create(FULL, partitions=3, retention_ms="-1"),
            EMPTY: peer.create(EMPTY, partitions=2),
            COMPACTED: peer.create(COMPACTED, cleanup_policy="compact"),
            KEPT: peer.create(KEPT, cleanup_policy=""),
        }
        for partition, timestamps in enumerate(((1_000, 2_000, 1_500, 2_500), (1_000, 1_001))):
            for timestamp in timestamps:
                written = peer.produce(FULL, batch(b"v", timestamp=timestamp), partition=partition)
                assert written.error_code == 0
        while peer.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 4).coordinators[0].error_code:
            pass
        self._connection: RawConnection | None = None

    def ask(self, question: Question) -> Any:
        """The answer, or that there was none."""
        connection = self._connection or self._peer.connect()
        self._connection = connection
        try:
            return normal(connection.ask(question.request, question.version))
        except (EOFError, ConnectionError):
            self.close()
            return "closed"

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.socket.close()
            self._connection = None


def test_clients_are_answered_as_kafka_does(data_node: Node, shared_kafka: Kafka) -> None:
    """B-P03, B-P07, B-P10, B-W05, B-W08, input:B23, input:B24, input:B27, KIP-74, KIP-227, KIP-320, KIP-966: some 700 requests in all versions, whole answers compared."""
    kafka, headrace = Asked(Peer("kafka", shared_kafka.port)), Asked(Peer("headrace", data_node.port))
    different = []
    count = 0
    for theirs, ours in zip(questions(kafka.ids), questions(headrace.ids), strict=True):
        count += 1
        expected, found = kafka.ask(theirs), headrace.ask(ours)
        if found != expected:
            different.append((ours.title, ours.version, {"kafka": expected, "headrace": found}))
    kafka.close()
    headrace.close()
    assert different == []
    assert count > 600
