"""Throttled replication at a broker: by whose settings, and what a leader sends while its quota is exceeded (KIP-73)."""

from __future__ import annotations

from typing import Any

import pytest
from immutables import Map

from headrace.metadata.image import RESOURCE_BROKER, ConfigResource
from headrace.replication.quota import UNBOUNDED
from headrace.server.metrics.broker import throttle_families
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request
from tests.unit.broker.test_replica_fetchers import Follower, records

LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADERS, FOLLOWERS = "leader_replication_throttled_replicas", "follower_replication_throttled_replicas"


def set_rates(bench: BrokerBench, broker: str = "1", **rates: int) -> None:
    """Of one broker, or of the whole cluster."""
    names = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
    settings = Map({names[role]: str(rate) for role, rate in rates.items()})
    bench._configs[ConfigResource(RESOURCE_BROKER, broker)] = settings
    bench.publish()


def test_a_brokers_own_rate_wins_over_the_clusters() -> None:
    """KIP-73, KIP-226: and where neither is set there is none."""
    bench = BrokerBench()
    broker = bench.broker
    bounds = [(broker.leader_quota.bound, broker.replica_fetchers.quota.bound)]
    for name, rates in (("", {"leader": 5, "follower": 6}), ("1", {"leader": 7}), ("1", {}), ("", {})):
        set_rates(bench, name, **rates)
        bounds.append((broker.leader_quota.bound, broker.replica_fetchers.quota.bound))
    none = (UNBOUNDED, UNBOUNDED)
    assert bounds == [none, (5, 6), (7, 6), (5, 6), none]


@pytest.mark.parametrize("value", ["*", "0:1", "5:3,0:1"])
def test_a_topics_lists_name_this_brokers_replicas(value: str) -> None:
    """KIP-73: also those that come to be after the setting."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2))
    bench.configure("t", **{LEADERS: value, FOLLOWERS: "0:2"})
    bench.configure("later", **{FOLLOWERS: value})
    bench.topic("later", leader=2, replicas=(2, 1))
    hosted = [bench.broker.partitions.get(name, 0) for name in ("t", "later")]
    listed = [(each.is_throttled_leader, each.is_throttled_follower) for each in hosted if each is not None]
    assert listed == [(True, False), (False, True)]
    bench.configure("t")
    assert hosted[0] is not None
    assert not hosted[0].is_throttled_leader


class Leading:
    """Broker 1 leads `t`; 2 is in sync, 3 is not; the leader may send 100 bytes a second to those that are not."""

    def __init__(self, *, isr: tuple[int, ...] = (1, 2), listed: str = "*") -> None:
        self.bench = BrokerBench()
        self.topic = self.bench.topic("t", replicas=(1, 2, 3), isr=isr)
        self.bench.configure("t", **{LEADERS: listed})
        set_rates(self.bench, leader=100)
        Client(self.bench).ask(produce_request("t", batch(b"a" * 500), version=9, acks=1), 9)
        self.clients = {node: Client(self.bench) for node in (2, 3)}

    def send(self, node: int, *, offset: int = 0, wait_ms: int = 0) -> None:
        """A follower's fetch."""
        partition = FetchPartition(
            partition=0, current_leader_epoch=0, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 20
        )
        topics = (FetchTopic(topic_id=self.topic, partitions=(partition,)),)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=node, replica_epoch=10 + node),
            max_wait_ms=wait_ms,
            min_bytes=1,
            session_epoch=-1,
            topics=topics,
        )
        self.clients[node].send(request, 17)

    def got(self, node: int) -> list[tuple[int, int]]:
        """(error, bytes) of each answer."""
        told: list[Any] = [each.responses[0].partitions[0] for each in self.clients[node].answers()]
        return [(each.error_code, len(each.records or b"")) for each in told]

    def asked(self, node: int, **fields: int) -> list[tuple[int, int]]:
        """The same of one fetch."""
        self.send(node, **fields)
        return self.got(node)


SIZE = len(batch(b"a" * 500))


def test_a_leader_sends_no_more_to_a_replica_that_is_behind() -> None:
    """KIP-73: the answer is empty, at the end of the wait, until the rate has fallen; one in sync gets all, and that counts too."""
    leading = Leading()
    assert leading.asked(3) == [(0, SIZE)]
    assert leading.asked(3) == [(0, 0)]
    assert leading.asked(3, wait_ms=500) == []
    leading.bench.advance(500)
    assert leading.got(3) == [(0, 0)]
    assert leading.asked(2) == [(0, SIZE)]
    assert leading.bench.broker.leader_quota.rate(leading.bench.clock.now) == 2 * SIZE
    leading.bench.advance(20_000)
    assert leading.asked(3) == [(0, SIZE)]


def test_the_rates_are_shown_where_there_are_any() -> None:
    """KIP-73: `kafka.server:type=LeaderReplication`, attribute `byte-rate`, under the name that the JMX exporter makes of it."""
    assert list(throttle_families(BrokerBench().broker)) == []
    leading = Leading()
    leading.asked(3)
    shown = {each.name: each.samples[0].value for each in throttle_families(leading.bench.broker)}
    assert shown == {"kafka_server_leaderreplication_byte_rate": float(SIZE)}


@pytest.mark.parametrize("unthrottled", ["in sync", "not listed", "no bound"])
def test_who_is_not_throttled_gets_all(unthrottled: str) -> None:
    """KIP-73: only replicas that are listed, and behind."""
    leading = Leading(
        isr=(1, 2, 3) if unthrottled == "in sync" else (1, 2), listed="0:2" if unthrottled == "not listed" else "0:1"
    )
    if unthrottled == "no bound":
        set_rates(leading.bench)
    assert [leading.asked(3) for _ in range(3)] == [[(0, SIZE)]] * 3


def test_what_a_throttled_replica_is_behind_by_is_still_noted() -> None:
    """S3-105: a fetch acknowledges, whatever it gets."""
    leading = Leading()
    leading.asked(3)
    assert leading.asked(3, offset=1) == [(0, 0)]
    hosted = leading.bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.leader is not None
    assert hosted.leader.followers[3].log_end_offset == 1


def test_a_follower_asks_for_less_by_its_own_rate() -> None:
    """KIP-73: the partition is forgotten at the leader's session, and asked for again by the clock."""
    follower = Follower()
    follower.bench.configure("t", **{FOLLOWERS: "0:1"})
    set_rates(follower.bench, follower=100)
    topic = follower.follow()
    data = PartitionData(partition_index=0, high_watermark=99, log_start_offset=0, records=records(b"a" * 200))
    follower.answer(follower.sent(), data, topic=topic)
    sent = follower.sent()
    assert [each.partitions for each in sent.request.forgotten_topics_data] == [(0,)]
    follower.answer(sent, topic=topic)
    assert follower.links.fetches == []
    due_ms = follower.fetchers.next_deadline_ms()
    assert due_ms is not None
    for _ in range(3):
        follower.bench.advance(1_000)
    (again,) = follower.links.fetches
    assert [each.partitions[0].fetch_offset for each in again.request.topics] == [1]


def test_a_list_that_is_taken_back_lets_the_follower_go_on() -> None:
    """KIP-73: at once."""
    follower = Follower()
    follower.bench.configure("t", **{FOLLOWERS: "*"})
    set_rates(follower.bench, follower=100)
    topic = follower.follow()
    data = PartitionData(partition_index=0, high_watermark=99, log_start_offset=0, records=records(b"a" * 200))
    follower.answer(follower.sent(), data, topic=topic)
    follower.answer(follower.sent(), topic=topic)
    follower.bench.configure("t")
    assert [each.partitions[0].fetch_offset for each in follower.sent().request.topics] == [1]
