"""Which partitions does a broker stop to serve when it is cut off, from when to when?"""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.broker.partitions import HostedPartition
from headrace.controller.heartbeats import Heartbeats
from headrace.core.error_code import ErrorCode
from headrace.node.self_fencing import LOOK_MS, SelfFencing, SelfFencingMode
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.broker.test_replicated_partitions import fetched, follower_fetch, produced

TIMEOUT_MS = 13_500
SESSION_MS = 9_000
OTHERS = {"alone": ((1,), (1,)), "shrunk": ((1, 2), (1,)), "shared": ((1, 2), (1, 2))}
"""Topic -> (replicas, ISR)."""


class Setting:
    """A broker that leads a partition of each kind, and its self-fencing; time 0 is when it began."""

    def __init__(self, mode: str = "isolated", timeout_ms: int = TIMEOUT_MS) -> None:
        self.bench = BrokerBench()
        self.client = Client(self.bench)
        self.ids = {
            name: self.bench.topic(name, replicas=replicas, isr=isr) for name, (replicas, isr) in OTHERS.items()
        }
        self.start = self.bench.clock.now
        self.moved: list[str] = []
        self.fencing = SelfFencing(
            mode=SelfFencingMode(mode),
            timeout_ms=timeout_ms,
            session_ms=SESSION_MS,
            partitions=self.bench.broker.partitions,
            moved=self._moved,
        )
        self.fencing.begin(self.start)

    def _moved(self, hosted: HostedPartition) -> None:
        self.moved.append(hosted.topic)
        self.bench.broker.partition_changed(hosted)

    def at(self, ms: int) -> list[str]:
        """Time is `ms` after the start; the topics that are withheld then."""
        self.bench.clock.now = self.start + ms
        self.fencing.tick(self.bench.clock.now)
        return [hosted.topic for hosted in self.bench.broker.partitions if hosted.is_withheld]

    def heard(self, *, heartbeat_ms: int | None = None, fetch_ms: int | None = None) -> None:
        """The controller answered a heartbeat, a metadata fetch, that were sent then."""
        if heartbeat_ms is not None:
            self.fencing.heartbeat_answered(self.start + heartbeat_ms)
        if fetch_ms is not None:
            self.fencing.metadata_fetched(self.start + fetch_ms)

    def replica_fetches(self, topic: str = "shared") -> Any:
        """The other replica asks for records."""
        return fetched(self.client.ask(follower_fetch(self.ids[topic], 0), 15)).error_code

    def produce(self, topic: str) -> int:
        """The error of a produce."""
        request = produce_request(topic, batch(b"x"), version=12, topic_id=self.ids[topic], acks=1)
        return produced(self.client.ask(request, 12))[0]

    def fetch(self, topic: str) -> Any:
        """The error of a consumer's fetch."""
        request = fetch_request(topic)
        return fetched(self.client.ask(request, 12)).error_code


def test_only_what_another_broker_could_lead_is_withheld_from_the_timeout_on() -> None:
    """S0-15: at T-1 ms nothing, at T what has another in-sync replica that is silent; the only in-sync replica goes on."""
    setting = Setting()
    assert setting.at(TIMEOUT_MS - 1) == []
    assert setting.at(TIMEOUT_MS) == ["shared"]
    assert (setting.produce("shared"), setting.fetch("shared")) == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2
    for topic in ("alone", "shrunk"):
        assert (setting.produce(topic), setting.fetch(topic)) == (0, 0)


@pytest.mark.parametrize("heard", ["heartbeat_ms", "fetch_ms"])
def test_one_of_the_two_signs_is_not_enough(heard: str) -> None:
    """S4-57: heartbeats pass and metadata do not, or the other way: the older one decides."""
    setting = Setting()
    setting.heard(**{heard: 10_000})
    assert setting.at(TIMEOUT_MS - 1) == []
    assert setting.at(TIMEOUT_MS) == ["shared"]


def test_contact_moves_the_moment_and_ends_it() -> None:
    """S0-15, S0-17: both count from when they were asked; after a heal, service comes back without a restart, again and again."""
    setting = Setting()
    now = 0
    for _ in range(5):
        assert setting.at(now + TIMEOUT_MS - 1) == []
        assert setting.at(now + TIMEOUT_MS) == ["shared"]
        now += TIMEOUT_MS + 100
        setting.heard(heartbeat_ms=now, fetch_ms=now)
        assert setting.at(now + LOOK_MS) == []
        assert setting.produce("shared") == 0
    assert setting.moved == ["shared"] * 10


def test_an_answer_to_an_old_question_is_old() -> None:
    """S2-29: answers that lay in a socket while the process stood still prove nothing about now."""
    setting = Setting()
    setting.bench.clock.now += 60_000
    setting.fencing.look(setting.bench.clock.now)
    setting.heard(heartbeat_ms=100, fetch_ms=100)
    assert setting.at(60_000 + LOOK_MS) == ["shared"]


def test_a_replica_that_is_heard_keeps_a_partition_served() -> None:
    """S0-15: so a quorum that is down does not take the data plane with it; replicas are answered while clients are not."""
    setting = Setting()
    assert setting.at(10_000) == []
    assert setting.replica_fetches() == 0
    assert setting.at(10_000 + TIMEOUT_MS - 1) == []
    assert setting.at(10_000 + TIMEOUT_MS + LOOK_MS) == ["shared"]
    assert setting.replica_fetches() == 0
    assert setting.at(10_000 + TIMEOUT_MS + 2 * LOOK_MS) == []


def test_the_process_wakes_to_marks_that_stand_already() -> None:
    """S2-29: `look` marks without telling anybody; who waits is told with the next tick."""
    setting = Setting()
    setting.bench.clock.now += 60_000
    setting.fencing.look(setting.bench.clock.now)
    assert setting.produce("shared") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert setting.moved == []
    assert setting.at(60_010) == ["shared"]
    assert setting.moved == ["shared"]


def test_who_slept_for_a_session_may_have_been_replaced() -> None:
    """S2-29, inv:H14, fault:S8: from the session on, not only after the longer timeout of a process that was awake; until it has contact again."""
    setting = Setting()
    setting.bench.clock.now += SESSION_MS - 1
    setting.fencing.woke(setting.bench.clock.now)
    assert setting.produce("shared") == 0
    setting.bench.clock.now += 1
    setting.fencing.woke(setting.bench.clock.now)
    assert setting.produce("shared") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert setting.produce("shrunk") == 0
    assert setting.at(SESSION_MS + 2 * LOOK_MS) == ["shared"]
    setting.heard(heartbeat_ms=SESSION_MS + 10, fetch_ms=SESSION_MS + 10)
    assert setting.at(SESSION_MS + 3 * LOOK_MS) == []
    assert setting.at(2 * SESSION_MS + 100) == [], "awake, it waits for the longer time again"
    assert setting.at(SESSION_MS + 10 + TIMEOUT_MS) == ["shared"]


def test_the_seeds_rule_stops_everything() -> None:
    """S0-15, S0-16: `always`."""
    setting = Setting("always")
    assert [setting.produce(topic) for topic in OTHERS] == [0, 0, 0]
    assert [setting.fetch(topic) for topic in OTHERS] == [0, 0, 0]
    assert setting.at(TIMEOUT_MS - 1) == []
    closed = [setting.fencing.is_closed]
    assert setting.at(TIMEOUT_MS) == ["alone", "shrunk", "shared"]
    closed.append(setting.fencing.is_closed)
    assert {setting.produce(topic) for topic in OTHERS} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert {setting.fetch(topic) for topic in OTHERS} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    setting.heard(heartbeat_ms=TIMEOUT_MS, fetch_ms=TIMEOUT_MS)
    assert setting.at(TIMEOUT_MS + LOOK_MS) == []
    assert [*closed, setting.fencing.is_closed] == [False, True, False]


@pytest.mark.parametrize(("mode", "timeout_ms"), [("off", TIMEOUT_MS), ("always", 0), ("isolated", 0)])
def test_it_can_be_switched_off(mode: str, timeout_ms: int) -> None:
    """S0-15: by the mode, or by a timeout of 0."""
    setting = Setting(mode, timeout_ms)
    assert setting.at(100 * TIMEOUT_MS) == []
    assert setting.fencing.next_deadline_ms() is None


def test_a_broker_that_serves_nothing_yet_is_not_looked_at() -> None:
    """S1-40: the clock runs from the moment at which it begins to serve."""
    fencing = SelfFencing(mode=SelfFencingMode.ALWAYS, timeout_ms=5, session_ms=5, partitions=(), moved=lambda _: None)
    fencing.heartbeat_answered(1)
    fencing.tick(1_000)
    assert (fencing.is_alone, fencing.next_deadline_ms()) == (False, None)


def test_a_fetch_that_waits_is_ended_and_a_produce_that_waits_is_finished() -> None:
    """S0-16: what was accepted before ends as it would; a consumer that waits for records is sent to look for the leader."""
    setting = Setting()
    assert setting.produce("shared") == 0
    waiting, acks_all = Client(setting.bench), Client(setting.bench)
    waiting.send(fetch_request(setting.ids["shared"], offset=0, max_wait_ms=60_000), 13)
    acks_all.send(produce_request("shared", batch(b"y"), version=12, acks=-1), 12)
    assert waiting.answers() == acks_all.answers() == []
    assert setting.at(TIMEOUT_MS) == ["shared"]
    [ended] = waiting.answers()
    assert fetched(ended).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acks_all.answers() == []
    for offset in (2, 2):
        assert fetched(setting.client.ask(follower_fetch(setting.ids["shared"], offset), 15)).error_code == 0
    [done] = acks_all.answers()
    assert produced(done) == (0, 1)


def test_the_controller_fences_first() -> None:
    """S0-21, S0-20: whenever the link is cut, and whichever answer is the last, the session is over before the broker stops to serve.

    A thousand cuts; heartbeats every two seconds, half a second on their way at most. The controller counts from the arrival of the last
    request, the broker from when it sent the last one that was answered.
    """
    rng = random.Random(21)
    for _ in range(1_000):
        controller = Heartbeats(session_timeout_ms=9_000)
        controller.register(1, is_fenced=False, now_ms=0)
        broker = SelfFencing(
            mode=SelfFencingMode.ALWAYS,
            timeout_ms=TIMEOUT_MS,
            session_ms=SESSION_MS,
            partitions=(),
            moved=lambda _hosted: None,
        )
        broker.begin(0)
        cut_ms, now_ms = rng.randrange(0, 60_000), 0
        while now_ms < cut_ms:
            arrival_ms = now_ms + rng.randrange(1, 250)
            answer_ms = arrival_ms + rng.randrange(1, 250)
            if arrival_ms < cut_ms:
                controller.touch(1, metadata_offset=1, now_ms=arrival_ms)
            if answer_ms < cut_ms:
                broker.heartbeat_answered(now_ms)
                broker.metadata_fetched(now_ms)
            now_ms += 2_000
        session_ends_ms, fenced_ms = controller.next_expiry_ms(), broker.next_deadline_ms()
        assert session_ends_ms is not None
        assert fenced_ms is not None
        assert controller.expired(session_ends_ms) == [1]
        assert session_ends_ms <= fenced_ms
        broker.tick(fenced_ms - 1)
        assert not broker.is_alone
        broker.tick(fenced_ms)
        assert broker.is_alone


def test_a_consumer_is_turned_away_where_no_client_is_served() -> None:
    """S0-01, S0-16: its fetch closes the connection, whatever it asks for; that of another broker is answered."""
    setting = Setting()
    is_shut = [True]
    setting.bench.broker.is_shut = lambda: is_shut[0]
    consumer = Client(setting.bench)
    consumer.send(fetch_request("alone"), 12)
    assert consumer.answers() == []
    told = "this broker has no contact with the controller (headrace.self.fencing=always)"
    assert consumer.outbox.closed_because == told
    assert setting.replica_fetches() == 0
    is_shut[0] = False
    assert setting.fetch("alone") == 0
