"""Is a fetch that repeats the one before, but for epoch and offset, answered as if it had been read anew (KIP-227)?

Two brokers get the same requests, one of them with the name of a rack in each, which makes no difference but that they are not of the usual shape: each is read whole.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.records.batch import iter_batches
from headrace.replication.fetch_session import FetchSession
from headrace.wire.fetch import encode_one_slice, parse_fetch
from headrace.wire.fetch_heads import is_usual, slice_form, split_request
from headrace.wire.headers import framed_request
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request
from tests.unit.broker.test_waiting_requests import calls_of, hosted_of

VERSIONS = (11, 12, 13, 15, 17)
FIRST_BY_ID = 13


class Side:
    """One broker, and the session of a consumer of it; `known` tells how often it knew what the next request would be."""

    def __init__(self, version: int, rack_id: str) -> None:
        self.bench = BrokerBench()
        self.topic_id = self.bench.topic("t", partitions=2)
        self.version, self.rack_id = version, rack_id
        self.consumer, self.producer = Client(self.bench), Client(self.bench)
        self.session_id = self.epoch = self.known = 0

    @property
    def session(self) -> FetchSession | None:
        """The consumer's, if it is still there."""
        return self.bench.broker.fetch_sessions.by_id.get(self.session_id)

    def request(self, offsets: dict[int, int], *, forgotten: tuple[int, ...] = (), **fields: Any) -> FetchRequest:
        """The session's next; `offsets` are those of the partitions that it names."""
        by_id = self.version >= FIRST_BY_ID
        most = fields.pop("partition_bytes", 600)
        leader_epoch = fields.pop("leader_epoch", -1)
        asked = tuple(
            FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=most, current_leader_epoch=leader_epoch
            )
            for index, offset in offsets.items()
        )
        name: dict[str, Any] = {"topic_id": self.topic_id} if by_id else {"topic": "t"}
        settings = {
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_wait_ms": 0,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": (FetchTopic(partitions=asked, **name),) if asked else (),
            "forgotten_topics_data": (ForgottenTopic(partitions=forgotten, **name),) if forgotten else (),
            "rack_id": self.rack_id,
        }
        return FetchRequest(**{**settings, **fields})

    def ask(self, offsets: dict[int, int], **fields: Any) -> Any:
        """One request, and its whole answer."""
        session = self.session
        self.known += session is not None and session.known is not None
        answer = self.consumer.ask(self.request(offsets, **fields), self.version)
        if not answer.error_code:
            self.session_id, self.epoch = answer.session_id, self.epoch + 1
        return answer

    def led_by(self, leader: int, leader_epoch: int) -> None:
        """The leader changes."""
        settings: dict[str, Any] = {"replicas": (1, 2), "leader_epoch": leader_epoch, "partition_epoch": leader_epoch}
        self.bench.topic("t", partitions=2, leader=leader, **settings)

    def produce(self, partition: int, records: bytes | bytearray) -> None:
        """One batch."""
        self.producer.ask(produce_request("t", records, partition=partition, acks=1), 9)


def both(version: int) -> tuple[Side, Side]:
    """The two brokers, and a session at each."""
    sides = Side(version, ""), Side(version, "here")
    for side in sides:
        side.ask({0: 0, 1: 0})
    return sides


def unlike_the_one_before(number: int, offset: int, epoch: int, leader_epoch: int) -> tuple[dict[int, int], Any]:
    """The partitions and the fields of a request that differs in more than its offset; of most numbers it does not."""
    asked: dict[int, tuple[dict[int, int], dict[str, Any]]] = {
        0: ({0: offset, 1: 0}, {}),
        1: ({1: 1}, {}),
        2: ({}, {}),
        3: ({0: offset // 2}, {}),
        4: ({0: offset}, {"session_epoch": epoch + 1}),
        5: ({0: offset}, {"forgotten": (1,)}),
        6: ({0: offset}, {"partition_bytes": 200}),
        7: ({0: offset}, {"isolation_level": 1}),
        8: ({0: offset}, {"leader_epoch": leader_epoch + 1}),
        9: ({0: offset}, {"min_bytes": 1 << 20}),
        10: ({0: 1 << 40}, {}),
    }
    return asked.get(number, ({0: offset}, {}))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_changes_no_answer(version: int, seed: int) -> None:
    """Going on, going back, asking for others, with other limits, with an epoch that is none, while records come and go and the leader changes."""
    chance, sides = random.Random(seed), both(version)
    offset, leader_epoch = 0, 0
    for _ in range(200):
        happens, records = chance.randrange(24), batch(b"x" * chance.randrange(300))
        if happens < 6:
            for side in sides:
                side.produce(happens // 5, records)
            continue
        for side in sides:
            if happens == 6:
                hosted_of(side.bench, "t").log.advance_log_start(offset)  # type: ignore[union-attr]
            elif happens == 7:
                side.led_by(1 + (leader_epoch + 1) % 2, leader_epoch + 1)
        leader_epoch += happens == 7
        offsets, fields = unlike_the_one_before(chance.randrange(60), offset, sides[0].epoch, leader_epoch)
        answers = [side.ask(offsets, **fields) for side in sides]
        assert answers[0] == answers[1]
        for topic in answers[0].responses:
            for part in topic.partitions:
                if part.partition_index == 0 and part.records:
                    offset = min(offset + 1, part.high_watermark)
    assert sides[0].known > 10
    assert sides[1].known == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reader_that_goes_on_costs_little(version: int) -> None:
    """Work is counted, not time: the numbers only go down."""
    side = Side(version, "")
    for _ in range(500):
        side.produce(0, batch(b"x" * 500))
    side.ask({0: 0})
    offset = 0
    for _ in range(5):
        (topic,) = side.ask({0: offset}, partition_bytes=40_000).responses
        offset = max(header.next_offset for _, header in iter_batches(bytes(topic.partitions[0].records)))
    frame = framed_request(
        side.request({0: offset}, partition_bytes=40_000), version, correlation_id=9, client_id="raw"
    )
    assert calls_of(lambda: side.consumer.connection.frame(memoryview(frame)[4:])) <= 22
    assert side.session is not None
    assert (side.session.epoch, side.session.used_ms) == (side.epoch + 1, side.bench.clock.now)


def test_nobody_goes_on_where_the_session_has_ended() -> None:
    """KIP-227: an epoch that was used, a session that was closed, a partition that was forgotten."""
    side, _ = both(12)
    for _ in range(9):
        side.produce(0, batch(b"x" * 500))
    for offset in range(4):
        side.ask({0: offset})
    session = side.session
    assert session is not None
    assert session.known is not None
    again = side.request({0: 4}, session_epoch=side.epoch - 1)
    assert side.consumer.ask(again, 12).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    side.ask({}, forgotten=(0,))
    (answer,) = side.ask({0: 4}).responses
    assert answer.partitions[0].high_watermark == 9
    assert len(session.partitions) == 2
    side.consumer.ask(side.request({}, session_epoch=-1), 12)
    assert side.consumer.ask(side.request({0: 5}), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", VERSIONS)
def test_only_the_usual_shape_is_known(version: int) -> None:
    """The parts of a request are those that a reader of all of it finds; others are not taken for such."""
    topic: dict[str, Any] = {"topic_id": Uuid(b"i" * 16)} if version >= FIRST_BY_ID else {"topic": "name"}

    def body(*partitions: int, **fields: Any) -> memoryview:
        asked = tuple(FetchPartition(partition=each, fetch_offset=1 << 33) for each in partitions)
        request = FetchRequest(
            session_id=77, session_epoch=3, topics=(FetchTopic(partitions=asked, **topic),), **fields
        )
        whole = framed_request(request, version, correlation_id=9, client_id=None)
        return memoryview(whole)[14 + (version >= 12) :]

    usual = body(5)
    parts = split_request(usual, version)
    assert parts is not None
    assert (parts[1:3], parts[4]) == ((77, 3), 1 << 33)
    assert is_usual(parse_fetch(usual, 0, version), version, len(usual))
    forgotten = (ForgottenTopic(partitions=(1,), **topic),)
    for other in (body(5, 6), body(5, rack_id="r"), body(5, forgotten_topics_data=forgotten)):
        assert not is_usual(parse_fetch(other, 0, version), version, len(other))
    assert split_request(usual[:40], version) is None


@pytest.mark.parametrize("size", [0, 1, 126, 127, 16_382, 16_383, 1 << 21])
@pytest.mark.parametrize("version", VERSIONS)
def test_responses_are_written_as_others_are(version: int, size: int) -> None:
    """A form and `encode_one_slice` write the same bytes."""

    class Records:
        def __init__(self) -> None:
            self.size = size

    topic: Any = Uuid(b"i" * 16) if version >= FIRST_BY_ID else "name"
    records = Records()
    offsets = (1 << 40, 1 << 39, 7)
    whole = encode_one_slice(version, topic, 3, offsets, records, (0, 77))
    assert slice_form(version, topic, 3, 77)(*offsets, records) == whole


def test_what_has_no_room_is_told_when_it_has() -> None:
    """KIP-227: a partition that has records and no room for them is no news, since its offsets are known; its turn comes."""
    side = Side(17, "")
    for partition in (0, 1):
        side.produce(partition, batch(b"x"))
    side.ask({0: 0, 1: 0}, max_bytes=1)
    told = [side.ask({}, max_bytes=1).responses for _ in range(4)]
    assert [[part.partition_index for part in topic.partitions] for (topic,) in told] == [[1], [0], [1], [0]]
    assert all(bytes(topic.partitions[0].records) for (topic,) in told)
