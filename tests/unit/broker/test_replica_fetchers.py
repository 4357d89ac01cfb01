"""The followed partitions of a broker: whom it asks, in which messages, and what a change of metadata does to that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headrace.broker.replica_fetchers import FetcherId, fetcher_number
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.peers import Destination, SendFailure
from headrace.log.ports import LogCut
from headrace.metadata.image import EndPoint
from headrace.records.batch import set_offset_and_epoch
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_bench import BrokerBench, Client, Turns
from tests.support.peer import batch

BACKOFF_MS = 1_000


@dataclass
class Sent:
    """A request on its way."""

    to: Destination
    request: Any
    timeout_ms: int
    then: Callable[[Any], None]
    number: int = 0


class Links:
    """The way to other brokers: keeps what is asked until the test answers."""

    def __init__(self) -> None:
        self.fetches: list[Sent] = []
        self.others: list[Sent] = []

    def fetch(
        self, to: Destination, request: Any, *, number: int, timeout_ms: int, then: Callable[[Any], None]
    ) -> None:
        """As the port's."""
        self.fetches.append(Sent(to, request, timeout_ms, then, number))

    def ask(self, to: Destination, request: Any, *, timeout_ms: int, then: Callable[[Any], None]) -> None:
        """As the port's."""
        self.others.append(Sent(to, request, timeout_ms, then))


class Follower:
    """Broker 1, which follows what brokers 2 and 3 lead."""

    def __init__(self, **settings: Any) -> None:
        self.bench = BrokerBench(**settings)
        self.links = Links()
        self.fetchers = self.bench.broker.replica_fetchers
        self.fetchers.channel = self.links
        self.fetchers.broker_epoch = 11

    def follow(self, name: str = "t", *, leader: int = 2, leader_epoch: int = 5, **more: Any) -> Uuid:
        """A topic of which it is a replica."""
        return self.bench.topic(name, leader=leader, replicas=(leader, 1), leader_epoch=leader_epoch, **more)

    def sent(self) -> Sent:
        """The one fetch on its way."""
        (sent,) = self.links.fetches
        self.links.fetches.clear()
        return sent

    def answer(self, sent: Sent, *data: PartitionData, topic: Uuid, session_id: int = 77) -> None:
        """The leader answers."""
        told = FetchableTopicResponse(topic_id=topic, partitions=data)
        sent.then(FetchResponse(session_id=session_id, responses=(told,) if data else ()))

    def log(self, name: str = "t") -> Any:
        """The log of partition 0."""
        return self.bench.logs.get(TopicPartition(name, 0))


def asked(sent: Sent) -> dict[tuple[bytes, int], tuple[int, int, int, int]]:
    """(leader epoch, fetch offset, last fetched epoch, log start) by topic id and partition."""
    return {
        (topic.topic_id, one.partition): (
            one.current_leader_epoch,
            one.fetch_offset,
            one.last_fetched_epoch,
            one.log_start_offset,
        )
        for topic in sent.request.topics
        for one in topic.partitions
    }


def records(*values: bytes, offset: int = 0, epoch: int = 5) -> memoryview:
    """A leader's batch."""
    data = batch(*values)
    set_offset_and_epoch(data, 0, offset, epoch)
    return memoryview(data)


def test_a_follower_fetches_from_its_leaders_address_as_its_settings_say() -> None:
    """S3-102 S3-106, KIP-903: replica id and broker epoch; limits, waits and the timeout of `replica.*`."""
    follower = Follower(
        replica_fetch_max_bytes=111,
        replica_fetch_response_max_bytes=222,
        replica_fetch_wait_max_ms=333,
        replica_fetch_min_bytes=4,
        replica_socket_timeout_ms=5_555,
    )
    topic = follower.follow()
    sent = follower.sent()
    assert (sent.to, sent.timeout_ms) == (Destination(2, "host-2", 9002), 5_555)
    request = sent.request
    assert isinstance(request, FetchRequest)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (1, 11)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (333, 4, 222)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert asked(sent) == {(topic, 0): (5, 0, -1, 0)}
    assert request.topics[0].partitions[0].partition_max_bytes == 111


def test_what_comes_is_appended_and_the_next_fetch_acknowledges_it() -> None:
    """S3-103 S3-105 S3-107: the high watermark too, as far as the log goes."""
    follower = Follower()
    topic = follower.follow()
    data = PartitionData(partition_index=0, high_watermark=9, log_start_offset=0, records=records(b"a", b"b"))
    follower.answer(follower.sent(), data, topic=topic)
    assert (follower.log().log_end_offset, follower.log().high_watermark) == (2, 2)
    sent = follower.sent()
    assert (sent.request.session_id, sent.request.session_epoch) == (77, 1)
    assert asked(sent) == {(topic, 0): (5, 2, 5, 0)}
    assert follower.fetchers.max_lag == 7


def test_one_fetch_a_leader_for_all_its_partitions() -> None:
    """KIP-227: what one delta brings is one request; another leader has its own."""
    follower = Follower()
    first = follower.follow("a", partitions=3)
    second = follower.follow("b", leader=3)
    (one, other) = follower.links.fetches
    assert (one.to.node_id, sorted(asked(one))) == (2, [(first, 0), (first, 1), (first, 2)])
    assert (other.to.node_id, list(asked(other))) == (3, [(second, 0)])


def test_an_isr_that_changes_restarts_no_fetcher() -> None:
    """S3-50: the leader and its epoch are the same."""
    follower = Follower()
    follower.follow()
    follower.follow(partition_epoch=1, isr=(2,))
    assert len(follower.links.fetches) == 1


def test_a_new_leader_is_followed_instead() -> None:
    """S3-50 S3-52: what the former one still answers is dropped."""
    follower = Follower()
    topic = follower.follow()
    old = follower.sent()
    follower.follow(leader=3, leader_epoch=6)
    new = follower.sent()
    assert (new.to.node_id, asked(new)) == (3, {(topic, 0): (6, 0, -1, 0)})
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"late"))
    follower.answer(old, data, topic=topic)
    assert follower.log().log_end_offset == 0
    assert asked(follower.sent()) == {}, "what the old leader must forget"


def test_who_becomes_leader_follows_no_more() -> None:
    """S3-57: and a late response of the former leader changes nothing."""
    follower = Follower()
    topic = follower.follow()
    old = follower.sent()
    follower.bench.topic("t", leader=1, replicas=(2, 1), leader_epoch=6)
    follower.answer(
        old, PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x")), topic=topic
    )
    assert follower.log().log_end_offset == 0
    assert follower.sent().request.forgotten_topics_data[0].partitions == (0,)


def test_a_deleted_topic_is_fetched_no_more_and_its_successor_anew() -> None:
    """S3-51, KIP-516: by topic id."""
    follower = Follower()
    topic = follower.follow()
    follower.bench.delete("t")
    follower.answer(follower.sent(), topic=topic)
    forget = follower.sent()
    assert [(each.topic_id, each.partitions) for each in forget.request.forgotten_topics_data] == [(topic, (0,))]
    assert [source.leader_id for source, _ in follower.fetchers] == [2]
    follower.answer(forget, topic=topic)
    assert follower.links.fetches == []
    assert list(follower.fetchers) == [], "who follows nothing has no fetcher, which would count as the slowest"
    follower.follow(leader=2, leader_epoch=0)
    assert follower.sent().request.session_id == 0


def test_a_partition_without_leader_is_not_fetched() -> None:
    """Until there is one."""
    follower = Follower()
    topic = follower.follow(leader=2)
    follower.answer(follower.sent(), topic=topic)
    follower.bench.topic("t", leader=-1, replicas=(2, 1), leader_epoch=6)
    assert follower.sent().request.topics == ()
    follower.follow(leader=2, leader_epoch=7)
    assert follower.links.fetches == [], "the fetch to forget it is still on its way"


def test_a_leader_that_is_not_reached_is_asked_again_after_the_backoff() -> None:
    """S3-108: `replica.fetch.backoff.ms`, where it listens by then."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    topic = follower.follow()
    follower.sent().then(SendFailure.REFUSED)
    follower.bench.advance(BACKOFF_MS - 1)
    assert follower.links.fetches == []
    follower.bench.register(2, end_points=(EndPoint("PLAINTEXT", "moved", 9999, 0),))
    follower.bench.advance(1)
    sent = follower.sent()
    assert (sent.to, asked(sent)) == (Destination(2, "moved", 9999), {(topic, 0): (5, 0, -1, 0)})
    assert follower.fetchers.failed_requests == 1


def topic_named(name: str) -> MetadataRequestTopic:
    """As a request names it."""
    return MetadataRequestTopic(name=name)


MOMENT_MS = 5
"""After so long it is looked who leads: a connection of the broker's own may break as well."""


def asking(follower: Follower, *names: str, moment_ms: int = MOMENT_MS) -> Client:
    """A client that asked who leads, a moment ago."""
    client = Client(follower.bench)
    client.send(MetadataRequest(topics=tuple(map(topic_named, names)), allow_auto_topic_creation=False), 12)
    follower.bench.advance(moment_ms)
    return client


def leaders_told(follower: Follower, *names: str, wait_ms: int = 0) -> list[tuple[int, int, int]]:
    """Leader and error of each topic's partition by Metadata, after so long, and the leader by DescribeTopicPartitions."""
    client = asking(follower, *names)
    if wait_ms:
        assert client.answers() == []
        follower.bench.advance(wait_ms)
    [told] = [each.topics for each in client.answers()]
    pages = DescribeTopicPartitionsRequest(topics=tuple(TopicRequest(name=name) for name in names))
    described = client.ask(pages, 0).topics
    return [
        (one.partitions[0].leader_id, one.partitions[0].error_code, other.partitions[0].leader_id)
        for one, other in zip(told, described, strict=True)
    ]


@pytest.mark.parametrize("failure", [SendFailure.REFUSED, SendFailure.DISCONNECTED])
def test_clients_do_not_hear_of_a_leader_whose_process_is_gone(failure: SendFailure) -> None:
    """fault:S1: LEADER_NOT_AVAILABLE, after half a second, until the metadata say who leads instead, or it answers again; what others lead is led."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    follower.follow("t", leader=2)
    follower.follow("u", leader=3)
    first, other = follower.links.fetches
    assert leaders_told(follower, "t", "u") == [(2, 0, 2), (3, 0, 3)]
    first.then(failure)
    assert leaders_told(follower, "u") == [(3, 0, 3)]
    told = leaders_told(follower, "t", "u", wait_ms=500)
    assert told == [(-1, ErrorCode.LEADER_NOT_AVAILABLE, -1), (3, 0, 3)]
    follower.bench.advance(BACKOFF_MS)
    follower.links.fetches[-1].then(FetchResponse())
    assert leaders_told(follower, "t") == [(2, 0, 2)]
    follower.links.fetches[-1].then(failure)
    follower.follow("t", leader=3, leader_epoch=6)
    assert leaders_told(follower, "t", "u") == [(3, 0, 3), (3, 0, 3)]
    follower.follow("t", leader=2, leader_epoch=7)
    assert leaders_told(follower, "t") == [(2, 0, 2)], "another life of it"
    assert other.to.node_id == 3


@pytest.mark.parametrize("news", ["fenced", "back"])
def test_clients_wait_for_news_of_a_leader_whose_process_is_gone(news: str) -> None:
    """fault:S1: who is told of no leader asks again after a second (librdkafka); the metadata, or the leader itself, tell before."""
    follower = Follower(replica_fetch_backoff_ms=100)
    follower.follow("t", leader=2)
    follower.links.fetches[-1].then(SendFailure.DISCONNECTED)
    client = asking(follower, "t")
    follower.bench.advance(100)
    assert client.answers() == []
    if news == "fenced":
        follower.bench.topic("t", leader=3, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
        follower.bench.register(2, fenced=True)
    else:
        follower.links.fetches[-1].then(FetchResponse())
    [answer] = client.answers()
    assert answer.topics[0].partitions[0].leader_id == (2 if news == "back" else 3)
    assert [each.node_id for each in answer.brokers] == [1, 2, 3]


def gone(follower: Follower, **leaders: int) -> None:
    """Follow topics of these leaders, whose processes end."""
    for name, leader in leaders.items():
        follower.follow(name, leader=leader)
        follower.links.fetches[-1].then(SendFailure.REFUSED)


def errors_told(client: Client) -> list[int]:
    """The error of each answer's first partition."""
    return [answer.topics[0].partitions[0].error_code for answer in client.answers()]


def test_news_of_a_leader_are_waited_for_once() -> None:
    """fault:S1: half a second after it went nobody waits any more, however often the fetch is tried again and clients ask."""
    follower = Follower(replica_fetch_backoff_ms=100)
    gone(follower, t=2)
    first = asking(follower, "t")
    for _ in range(5):
        assert errors_told(first) == []
        follower.bench.advance(100)
        follower.links.fetches[-1].then(SendFailure.REFUSED)
    assert errors_told(first) == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert errors_told(asking(follower, "t")) == [ErrorCode.LEADER_NOT_AVAILABLE]


def test_news_of_one_leader_are_no_news_of_another() -> None:
    """fault:S1: two brokers may go together."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    gone(follower, t=2, u=3)
    one, both = asking(follower, "u"), asking(follower, "u", "t")
    follower.bench.topic("t", leader=1, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
    follower.bench.register(2, fenced=True)
    assert errors_told(one) == errors_told(both) == []
    follower.bench.topic("u", leader=1, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
    follower.bench.register(3, fenced=True)
    assert errors_told(one) == errors_told(both) == [0]


def test_news_that_come_while_an_answer_is_made_are_in_it() -> None:
    """fault:S1, M6: of many partitions it is made in several turns."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    gone(follower, t=2)
    turns = Turns()
    client = Client(follower.bench, turns=turns)
    names = ["t", *(f"unknown-{number}" for number in range(500))]
    client.send(MetadataRequest(topics=tuple(map(topic_named, names)), allow_auto_topic_creation=False), 12)
    assert turns.due
    follower.bench.topic("t", leader=3, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
    follower.bench.register(2, fenced=True)
    while turns.due:
        turns.due.pop(0)()
    [answer] = client.answers()
    assert answer.topics[0].partitions[0].leader_id == 3


@pytest.mark.parametrize("wait_s", [1, 3_600])
def test_a_leader_that_stays_registered_is_told_again(wait_s: int) -> None:
    """It lives, and is out of reach of this broker alone, for want of its name or a certificate: clients are sent there after two seconds."""
    follower = Follower(replica_fetch_backoff_ms=1_000)
    follower.follow("t", leader=2)
    for _ in range(wait_s):
        follower.links.fetches.pop().then(SendFailure.DISCONNECTED)
        follower.links.fetches.clear()
        follower.bench.advance(1_000)
    assert leaders_told(follower, "t") == [(-1, 5, -1) if wait_s == 1 else (2, 0, 2)]


def test_another_life_of_a_leader_is_not_the_one_that_went() -> None:
    """It is registered and unfenced with another broker epoch: clients are sent there at once."""
    follower = Follower(replica_fetch_backoff_ms=1_000)
    gone(follower, t=2)
    follower.bench.register(2, fenced=True)
    follower.bench.register(2, fenced=False, broker_epoch=99)
    assert leaders_told(follower, "t") == [(2, 0, 2)]


def test_a_leader_that_is_unregistered_is_news() -> None:
    """Who waits for news of it is told at once who leads instead."""
    follower = Follower(replica_fetch_backoff_ms=1_000)
    gone(follower, t=2)
    client = asking(follower, "t")
    follower.bench.topic("t", leader=3, replicas=(1, 3), leader_epoch=6, is_published=False)
    follower.bench.unregister(2)
    [answer] = client.answers()
    assert answer.topics[0].partitions[0].leader_id == 3


def test_a_broker_is_listed_where_it_was() -> None:
    """Its next process may have registered elsewhere, and serves nobody yet."""
    follower = Follower(replica_fetch_backoff_ms=1_000)
    follower.follow("t", leader=2)
    follower.bench.topic("t", leader=3, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
    elsewhere = EndPoint("PLAINTEXT", "new-host", 7777, 0)
    follower.bench.register(2, fenced=True, broker_epoch=99, end_points=(elsewhere,))
    [answer] = asking(follower, "t").answers()
    assert [(each.host, each.port) for each in answer.brokers if each.node_id == 2] == [("host-2", 9002)]


def in_turns(follower: Follower) -> None:
    """Time enough for all whose time is up: some are answered in each turn."""
    for _ in range(10):
        follower.bench.advance(0)


def test_few_wait_for_news_and_with_little_in_memory() -> None:
    """inv:M1: who names very much, and who comes after five hundred, is told of no leader at once."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    gone(follower, t=2)
    ids = (
        topic_named("t"),
        *(MetadataRequestTopic(topic_id=Uuid.from_numbers(9, each), name=None) for each in range(1_000)),
    )
    by_id = Client(follower.bench)
    by_id.send(MetadataRequest(topics=ids, allow_auto_topic_creation=False), 12)
    assert by_id.answers() != []
    many = asking(follower, "t", *(f"unknown-{number:0200}" for number in range(400)))
    assert errors_told(many) == [ErrorCode.LEADER_NOT_AVAILABLE]
    waiting = [asking(follower, "t", moment_ms=0) for _ in range(500)]
    follower.bench.advance(MOMENT_MS)
    in_turns(follower)
    assert errors_told(asking(follower, "t")) == [ErrorCode.LEADER_NOT_AVAILABLE]
    waiting[0].connection.closed()
    assert errors_told(asking(follower, "t")) == []
    follower.bench.advance(500)
    in_turns(follower)
    assert all(errors_told(each) == [ErrorCode.LEADER_NOT_AVAILABLE] for each in waiting[1:])


def test_who_asks_in_the_moment_of_a_leaders_death_is_not_told_of_it() -> None:
    """fault:S1: a process that is killed closes its clients' connections before its followers'; few topics are asked for then, and others wait for nothing."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    follower.follow("t", leader=2)
    first = asking(follower, "t", moment_ms=MOMENT_MS - 1)
    assert first.answers() == []
    follower.links.fetches[-1].then(SendFailure.DISCONNECTED)
    follower.bench.advance(1)
    assert first.answers() == []
    follower.bench.topic("t", leader=3, replicas=(1, 2, 3), leader_epoch=6, is_published=False)
    follower.bench.register(2, fenced=True)
    [answer] = first.answers()
    assert answer.topics[0].partitions[0].leader_id == 3
    follower.bench.topic("own", leader=1, replicas=(1, 2))
    for names in (("own",), ("unknown",), (*(f"u{number}" for number in range(11)), "t")):
        [answer] = asking(follower, *names, moment_ms=0).answers()
        assert len(answer.topics) == len(names)


def test_silence_is_no_sign_that_a_leader_is_gone() -> None:
    """It may be paused, or cut off from this broker alone: clients are sent there until the controller decides."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    follower.follow()
    follower.sent().then(SendFailure.TIMED_OUT)
    assert leaders_told(follower, "t") == [(2, 0, 2)]


def test_a_leader_without_an_address_waits_for_one() -> None:
    """A broker that has no such listener, or is not registered any more."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    follower.bench.register(2, end_points=())
    follower.follow()
    assert follower.links.fetches == []
    assert follower.bench.broker.next_deadline_ms() == follower.bench.clock.now + BACKOFF_MS


def diverged(follower: Follower) -> Uuid:
    """A follower with three records, two of which its leader says to be of another history."""
    topic = follower.follow()
    data = PartitionData(partition_index=0, high_watermark=0, log_start_offset=0, records=records(b"a"))
    follower.answer(follower.sent(), data, topic=topic)
    data = PartitionData(partition_index=0, high_watermark=0, log_start_offset=0, records=records(b"b", b"c", offset=1))
    follower.answer(follower.sent(), data, topic=topic)
    follower.follow(leader=3, leader_epoch=6)
    told = PartitionData(
        partition_index=0, high_watermark=1, log_start_offset=0, diverging_epoch=EpochEndOffset(epoch=5, end_offset=1)
    )
    follower.answer(follower.links.fetches.pop(), told, topic=topic)
    return topic


def test_where_histories_part_the_log_is_cut_and_fetched_from_there() -> None:
    """KIP-595, B-P02, S3-52."""
    follower = Follower()
    topic = diverged(follower)
    assert follower.log().log_end_offset == 1
    sent = follower.links.fetches.pop()
    assert sent.request.session_id == 77
    follower.answer(sent, topic=topic)
    assert asked(follower.links.fetches.pop()) == {(topic, 0): (6, 1, 5, 0)}
    assert follower.fetchers.cuts == 1


def led(follower: Follower) -> tuple[int, int] | None:
    """Epoch in which the partition is led here, and its start."""
    hosted = follower.bench.broker.partitions.get("t", 0)
    assert hosted is not None
    return None if hosted.leader is None else (hosted.leader.leader_epoch, hosted.leader.epoch_start)


class HeldCuts:
    """Cuts that are done when the test says."""

    def __init__(self, follower: Follower) -> None:
        self._logs = follower.bench.logs
        self.held: list[tuple[Any, Callable[[], None]]] = []
        follower.fetchers.cut_logs = self._cut

    def _cut(self, cuts: Any, then: Callable[[], None]) -> None:
        self.held.append((self._logs.cut(cuts), then))

    def finish(self) -> None:
        """All that are held."""
        for jobs, then in self.held:
            for job in jobs:
                job.look_up()
                job.lower()
                job.run()
                job.finish()
            then()


def test_who_is_to_lead_while_its_log_is_cut_leads_when_that_is_over() -> None:
    """B-P02: a cut is a job of the disk; nobody is served meanwhile."""
    follower = Follower()
    cuts = HeldCuts(follower)
    diverged(follower)
    follower.bench.topic("t", leader=1, replicas=(3, 1), leader_epoch=7)
    assert led(follower) is None
    cuts.finish()
    assert led(follower) == (7, 1)


def test_who_follows_another_leader_while_its_log_is_cut_does_so_when_that_is_over() -> None:
    """KIP-101: with the end and the epoch that the log has then."""
    follower = Follower()
    cuts = HeldCuts(follower)
    topic = diverged(follower)
    follower.links.fetches.clear()
    follower.follow(leader=2, leader_epoch=7)
    assert all(not asked(each) for each in follower.links.fetches)
    follower.links.fetches.clear()
    cuts.finish()
    for each in list(follower.links.fetches):
        if each.to.node_id == 2:
            assert asked(each) in ({(topic, 0): (7, 1, 5, 0)}, {})
    state = dict(follower.fetchers)[FetcherId(2, 0)].partitions
    assert [(one.leader_epoch, one.state.value) for one in state.values()] == [(7, "fetching")]


def ends(offset: int, error: int = 0) -> ListOffsetsResponse:
    """One answer to ListOffsets."""
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="t", partitions=(partition,)),))


def test_an_offset_that_the_leader_has_not_is_looked_for() -> None:
    """S3-108: ListOffsets of both ends as a replica, in the leader's epoch; then the log starts over where the leader's begins."""
    follower = Follower()
    topic = follower.follow()
    out_of_range = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    follower.answer(follower.sent(), out_of_range, topic=topic)
    latest, earliest = follower.links.others
    for sent, timestamp in ((latest, -1), (earliest, -2)):
        assert isinstance(sent.request, ListOffsetsRequest)
        (partition,) = sent.request.topics[0].partitions
        assert (sent.request.replica_id, sent.request.topics[0].name) == (1, "t")
        assert (partition.timestamp, partition.current_leader_epoch) == (timestamp, 5)
    earliest.then(ends(40))
    latest.then(ends(50))
    log = follower.log()
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)


def test_a_leader_that_refuses_to_tell_its_ends_is_asked_again() -> None:
    """After the backoff."""
    follower = Follower(replica_fetch_backoff_ms=BACKOFF_MS)
    topic = follower.follow()
    out_of_range = PartitionData(partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)
    follower.answer(follower.sent(), out_of_range, topic=topic)
    latest, earliest = follower.links.others
    follower.links.others.clear()
    latest.then(ends(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    earliest.then(SendFailure.TIMED_OUT)
    follower.bench.advance(BACKOFF_MS)
    assert len(follower.links.others) == 2


def test_a_log_directory_that_fails_is_fetched_for_no_more() -> None:
    """B-K08: the others go on."""
    follower = Follower()
    topic = follower.follow()
    hosted = follower.bench.broker.partitions.get("t", 0)
    assert hosted is not None
    follower.bench.broker.lost_log(hosted)
    follower.fetchers.begin()
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x"))
    follower.answer(follower.sent(), data, topic=topic)
    assert follower.log().log_end_offset == 0


def test_nothing_is_written_once_the_logs_are_to_be_closed() -> None:
    """B-K12: a response that comes during a stop is dropped."""
    follower = Follower()
    topic = follower.follow()
    follower.fetchers.end()
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x"))
    follower.answer(follower.sent(), data, topic=topic)
    assert (follower.log().log_end_offset, follower.links.fetches) == (0, [])
    assert follower.fetchers.next_deadline_ms() is None


def test_what_a_follower_cannot_take_is_told() -> None:
    """inv:PR9: damaged bytes are named, with who sent them."""
    follower = Follower()
    told: list[str] = []
    follower.bench.broker.on_warning = told.append
    topic = follower.follow()
    damaged = bytearray(records(b"x"))
    damaged[-2] ^= 1
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=memoryview(damaged))
    follower.answer(follower.sent(), data, topic=topic)
    assert told == ["t-0 cannot take what broker 2 sent: Batch at 0 is damaged."]


def test_a_disk_that_refuses_a_followers_append_takes_its_directory_offline() -> None:
    """B-K08."""
    follower = Follower()
    faults: list[StorageFault] = []
    follower.bench.broker.on_storage_fault = faults.append
    topic = follower.follow()
    fault = StorageFault("no", directory="/data")
    fetcher = dict(follower.fetchers)[FetcherId(2, 0)]
    (partition,) = fetcher.partitions.values()
    partition.log = _Refusing(fault)  # type: ignore[assignment] # the port's one method
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x"))
    follower.answer(follower.sent(), data, topic=topic)
    assert faults == [fault]


def test_a_disk_that_fails_in_the_middle_of_an_append_takes_the_partition_from_its_fetcher_afterwards() -> None:
    """B-K08: the broker hears of it from the log itself, before the append has come back to the fetcher."""
    follower = Follower()
    faults: list[StorageFault] = []
    follower.bench.broker.on_storage_fault = faults.append
    topic = follower.follow()
    fault = StorageFault("no", directory="/data")
    fetcher = dict(follower.fetchers)[FetcherId(2, 0)]
    (partition,) = fetcher.partitions.values()
    hosted = follower.bench.broker.partitions.get("t", 0)
    assert hosted is not None

    def told_at_once() -> None:
        follower.bench.broker.lost_log(hosted)
        follower.fetchers.begin()

    partition.log = _Refusing(fault, told_at_once)  # type: ignore[assignment] # the port's one method
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x"))
    follower.answer(follower.sent(), data, topic=topic)
    assert faults == [fault]
    assert dict(fetcher.partitions) == {}


class _Refusing:
    """A log whose disk refuses, and which says so to somebody first."""

    def __init__(self, fault: StorageFault, tell: Callable[[], None] = lambda: None) -> None:
        self._fault = fault
        self._tell = tell

    def append_as_follower(self, *_: object, **__: object) -> None:
        """As the port's."""
        self._tell()
        raise self._fault


def test_cuts_name_logs_and_offsets() -> None:
    """What the node gives to the lanes of its disk."""
    follower = Follower()
    ordered: list[LogCut] = []
    follower.fetchers.cut_logs = lambda cuts, then: ordered.extend(cuts)
    diverged(follower)
    assert ordered == [LogCut(TopicPartition("t", 0), 1)]


def test_records_that_must_be_synced_hold_the_next_fetch_up() -> None:
    """`flush.messages`: a fetch acknowledges what is below it, so it leaves when that is durable."""
    follower = Follower()
    syncs: list[Any] = []
    follower.bench.broker.log_syncs.begin = syncs.append
    topic = follower.follow()
    follower.bench.configure("t", flush_messages="1")
    data = PartitionData(partition_index=0, high_watermark=1, log_start_offset=0, records=records(b"x"))
    follower.answer(follower.sent(), data, topic=topic)
    assert follower.links.fetches == []
    (sync,) = syncs
    sync.prepare()
    sync.run()
    sync.finish()
    assert asked(follower.sent()) == {(topic, 0): (5, 1, 5, 0)}


# --- several fetchers a leader ---


@pytest.mark.parametrize(
    ("topic", "partition", "count", "expected"),
    [
        ("t", 0, 1, 0),
        ("t", 0, 4, 116 * 31 % 4),
        ("t", 1, 4, (116 * 31 + 1) % 4),
        ("orders", 7, 5, 1_207_109_182 % 5),
        ("", 0, 3, 0),
    ],
)
def test_partitions_are_spread_over_fetchers_as_kafka_does(
    topic: str, partition: int, count: int, expected: int
) -> None:
    """`num.replica.fetchers`, Kafka behaviour: by 31 times the topic's hash plus the partition, as a 32-bit number without its sign."""
    assert fetcher_number(topic, partition, count) == expected


def spread(follower: Follower) -> dict[int, set[int]]:
    """The partitions that each fetcher asks for in the fetches on their way, which are answered with nothing."""
    sent, follower.links.fetches = follower.links.fetches, []
    found = {each.number: {partition for _, partition in asked(each)} for each in sent}
    for each in sent:
        follower.answer(each, topic=Uuid(b"t" * 16), session_id=70 + each.number)
    return found


def test_each_fetcher_of_a_leader_has_its_own_partitions_and_session() -> None:
    """KIP-227: partitions of one leader, in as many fetches under way."""
    follower = Follower(num_replica_fetchers=2)
    follower.follow(partitions=4)
    sent = list(follower.links.fetches)
    assert {each.to.node_id for each in sent} == {2}
    assert spread(follower) == {0: {0, 2}, 1: {1, 3}}
    assert {each.number: each.request.session_id for each in follower.links.fetches} == {0: 70, 1: 71}


def test_another_number_of_fetchers_spreads_partitions_anew() -> None:
    """KIP-226: each from where its log ends; fetchers that have nothing left end when their session has forgotten it all."""
    follower = Follower(num_replica_fetchers=2)
    follower.follow(partitions=4)
    spread(follower)
    follower.bench.broker.config = replace(follower.bench.broker.config, num_replica_fetchers=1)
    follower.fetchers.resize(follower.bench.broker.partitions)
    spread(follower)
    (first, second) = sorted(follower.links.fetches, key=lambda each: each.number)
    assert {partition for _, partition in asked(first)} == {1, 3}
    assert [each.partitions for each in second.request.forgotten_topics_data] == [(1, 3)]
    spread(follower)
    assert [each.number for each in follower.links.fetches] == [0]
    assert [source.number for source, _ in follower.fetchers] == [0]
