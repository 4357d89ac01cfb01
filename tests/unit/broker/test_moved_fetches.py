"""A fetch that waits is answered by what moved: the quick way says the same as the thorough one, and is taken when it may be."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.broker import fetch_call
from headrace.broker.fetch_reading import FetchTerms, read_partition
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
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


class FollowerScene:
    """A topic with its leader here; broker 2 follows some of its partitions, and producers wait for it."""

    def __init__(self, *, partitions: int, in_session: bool, isr: tuple[int, ...] = (1, 2), **fields: Any) -> None:
        self.bench = BrokerBench()
        self.isr = isr
        self.partitions = partitions
        self.topic_id = self.bench.topic("t", partitions=partitions, replicas=(1, 2), isr=isr)
        self.writer, self.follower = Client(self.bench), Client(self.bench)
        self.session = (0, 0 if in_session else -1)
        self.in_session = in_session
        self.fields = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
        self.ends = dict.fromkeys(range(partitions), 0)
        self.epoch = 0
        self.is_waiting = False
        self.told: list[tuple[str, object]] = []

    def write(self, partition: int, *, acks: int = -1) -> None:
        self.writer.send(produce_request("t", batch(b"x", timestamp=STAMP), acks=acks, partition=partition), 9)
        self.listen()

    def fetch(self, *only: int) -> None:
        """Ask for what comes behind the last answers, unless such a request waits already; in a session for the named partitions alone."""
        if self.is_waiting:
            return
        self.is_waiting = True
        asked = tuple(
            FetchPartition(
                partition=index,
                current_leader_epoch=self.epoch,
                fetch_offset=self.ends[index],
                last_fetched_epoch=0 if self.ends[index] else -1,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
            )
            for index in (only if self.in_session and self.session[0] else range(self.partitions))
        )
        topics = (FetchTopic(topic_id=self.topic_id, partitions=asked),) if asked else ()
        state = ReplicaState(replica_id=2, replica_epoch=12)
        fields = {**self.fields, "session_id": self.session[0], "session_epoch": self.session[1]}
        self.follower.send(FetchRequest(replica_state=state, topics=topics, **fields), 17)
        self.listen()

    def listen(self) -> None:
        for answer in self.follower.answers():
            self.is_waiting = False
            self.told.append(("fetch", _without_session(answer)))
            if self.in_session and not answer.error_code:
                self.session = (answer.session_id, self.session[1] + 1)
            for topic in answer.responses:
                for part in topic.partitions:
                    if part.records:
                        log = self.bench.broker.partitions.by_name["t", part.partition_index].log
                        assert log is not None
                        self.ends[part.partition_index] = log.log_end_offset
        self.told += [("produce", each.responses) for each in self.writer.answers()]

    def lead(self, leader_epoch: int) -> None:
        """Elected again, or elsewhere."""
        leader = 1 if leader_epoch % 2 == 0 else 2
        self.epoch = leader_epoch
        replicas = {"replicas": (1, 2), "isr": self.isr, "partitions": self.partitions}
        self.bench.topic("t", leader=leader, leader_epoch=leader_epoch, partition_epoch=leader_epoch, **replicas)  # type: ignore[arg-type]
        self.listen()

    def pass_time(self, ms: int) -> None:
        self.bench.advance(ms)
        self.listen()


def follower_story(**given: Any) -> list[tuple[str, object]]:
    """Writes that wait for the follower while it waits for them, high watermarks that move, another epoch; all that both were told."""
    scene = FollowerScene(**given)
    last = scene.partitions - 1
    scene.fetch()
    for acks in (-1, 1, -1, 1):
        scene.write(last, acks=acks)
        scene.fetch(last)
        scene.write(0)
        scene.write(last)
        scene.fetch(*{0, last})
        scene.fetch()
        scene.pass_time(600)
    scene.lead(2)
    scene.fetch(last)
    scene.write(last)
    scene.fetch(last)
    scene.pass_time(600)
    scene.fetch(last)
    scene.lead(3)
    scene.write(last)
    scene.fetch(last)
    scene.pass_time(600)
    return [*scene.told, ("bytes", scene.bench.broker.partitions.replication_bytes_out)]


@pytest.mark.parametrize("fields", [{}, {"min_bytes": 300}, {"max_bytes": 100}, {"isr": (1,)}], ids=str)
@pytest.mark.parametrize("in_session", [False, True])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_follower_is_told_the_same_in_both_ways(
    partitions: int, in_session: bool, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P16, P18, KIP-227: records, offsets, errors of another epoch, and when those who wait for all replicas are answered."""
    quick = follower_story(partitions=partitions, in_session=in_session, **fields)
    monkeypatch.setattr(fetch_call, "read_for_follower", lambda *_: None)
    monkeypatch.setattr(fetch_call, "only_offsets_moved", lambda _: False)
    assert quick == follower_story(partitions=partitions, in_session=in_session, **fields)
    assert len(quick) >= 20


def test_a_follower_that_waits_is_answered_by_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a write with acks=all waits for: the append answers the fetch, and the fetch after it is read once, though it moves the high watermark."""
    reads: list[object] = []

    def counted(*given: Any, **more: Any) -> Any:
        reads.append(given)
        return read_partition(*given, **more)

    monkeypatch.setattr(fetch_call, "read_partition", counted)
    scene = FollowerScene(partitions=1, in_session=True)
    scene.fetch()
    scene.write(0)
    scene.fetch(0)
    reads.clear()
    scene.write(0)
    assert not reads
    scene.fetch(0)
    assert len(reads) == 1
    assert [kind for kind, _ in scene.told] == ["fetch", "produce", "fetch", "produce"]


@pytest.mark.parametrize("named", [(0, 1), (1, 0)], ids=str)
def test_a_new_epoch_is_told_what_the_last_one_was_told(named: tuple[int, int]) -> None:
    """P7, KIP-227: a follower that believes in a new leader epoch has dropped what it was told in the old one. A partition that is new to the session and named before it
    or behind it changes nothing about that."""
    scene = FollowerScene(partitions=2, in_session=True, max_wait_ms=0)
    scene.partitions = 1
    scene.fetch()
    scene.write(0, acks=1)
    for _ in range(4):
        scene.fetch(0)
    before: Any = scene.told[-1][1]
    assert before[1] == ()
    scene.partitions = 2
    scene.lead(2)
    scene.fetch(*named)
    answer: Any = scene.told[-1][1]
    told = {part.partition_index: part.high_watermark for topic in answer[1] for part in topic.partitions}
    assert (answer[0], told) == (0, {0: 1, 1: 0})
