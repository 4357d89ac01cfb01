"""A fetch that waits is answered by what moved: the quick way says the same as the thorough one, and is taken when it may be."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker import fetch_call
from headrace.broker.fetch_reading import FetchTerms, read_partition
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.fetch import FetchPartition, FetchResponse
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request

STAMP = 4_102_444_800_000
VERSIONS = (4, 7, 11, 12, 13, 18)


class Scene:
    """Somebody who writes to partitions of a topic, and a consumer of them."""

    def __init__(self, version: int, *, partitions: int, in_session: bool, **fields: Any) -> None:
        self.bench = BrokerBench()
        self.topic_id = self.bench.topic("t", partitions=partitions)
        self.version = version
        self.writer, self.reader = Client(self.bench), Client(self.bench)
        self.partitions = partitions
        self.in_session = in_session
        self.fields = {"max_wait_ms": 500, **fields}
        self.session = (0, 0 if in_session else -1)
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.told: list[FetchResponse] = []

    def write(self, partition: int, *, size: int = 10) -> None:
        records = batch(b"x" * size, timestamp=STAMP)
        answer = self.writer.ask(produce_request("t", records, acks=1, partition=partition), 9)
        assert not answer.responses[0].partition_responses[0].error_code

    def fetch(self) -> None:
        """Ask from where the last answers ended; in a session only for what has moved on."""
        asked = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in self.offsets.items()
        ]
        topic: str | Uuid = self.topic_id if self.version >= 13 else "t"
        fields = {**self.fields, "session_id": self.session[0], "session_epoch": self.session[1]}
        self.reader.send(fetch_request(topic, asked, **fields), self.version)
        self._listen()

    def _listen(self) -> None:
        for answer in self.reader.answers():
            self.told.append(answer)
            if self.in_session:
                self.session = (answer.session_id, self.session[1] + 1)
            for topic in answer.responses:
                assert topic.topic_id == (self.topic_id if self.version >= 13 else ZERO_UUID)
                for part in topic.partitions:
                    if part.records:
                        self.offsets[part.partition_index] = part.high_watermark

    def pass_time(self, ms: int) -> None:
        self.bench.advance(ms)
        self._listen()


def story(version: int, *, partitions: int, in_session: bool, **fields: Any) -> tuple[list[FetchResponse], Scene]:
    """Writes before, while and after a consumer waits; all that it was told."""
    scene = Scene(version, partitions=partitions, in_session=in_session, **fields)
    last = partitions - 1
    scene.write(0)
    scene.fetch()
    for size in (10, 2_000, 10):
        scene.fetch()
        scene.write(last, size=size)
        scene._listen()
        scene.pass_time(600)
    scene.fetch()
    scene.write(0)
    scene.write(last)
    scene._listen()
    scene.fetch()
    scene.pass_time(600)
    return scene.told, scene


@pytest.mark.parametrize("fields", [{}, {"min_bytes": 1_000}, {"isolation_level": 1}, {"max_bytes": 50}], ids=str)
@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_say_the_same(
    version: int, partitions: int, in_session: bool, fields: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-227, KIP-74: every answer, field by field, and what is left in the session for the next fetch."""
    if in_session and version < 7:
        in_session = False
    quick, scene = story(version, partitions=partitions, in_session=in_session, **fields)
    monkeypatch.setattr(FetchTerms, "is_plain", False)
    thorough, other = story(version, partitions=partitions, in_session=in_session, **fields)
    assert [_without_session(each) for each in quick] == [_without_session(each) for each in thorough]
    assert scene.offsets == other.offsets
    assert len(quick) == 6


def _without_session(answer: FetchResponse) -> tuple[Any, ...]:
    return answer.error_code, answer.responses, answer.session_id != 0


@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("version", [11, 18])
def test_a_plain_consumer_is_answered_quickly(version: int, in_session: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency from end to end: a partition that moved is read once, and only then."""
    reads: list[object] = []

    def counted(*given: Any, **more: Any) -> Any:
        reads.append(given)
        return read_partition(*given, **more)

    monkeypatch.setattr(fetch_call, "read_partition", counted)
    scene = Scene(version, partitions=1, in_session=in_session)
    scene.fetch()
    reads.clear()
    scene.write(0)
    scene._listen()
    assert len(scene.told) == 1
    assert not reads
