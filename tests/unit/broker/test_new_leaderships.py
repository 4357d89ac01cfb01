"""Do followers come for a partition as soon as its new leader has it, though a fetch of theirs waits there?"""

from __future__ import annotations

from headrace.broker.new_leaderships import AWAITED_MS, SHORT_WAIT_MS
from headrace.core.ids import TopicPartition, Uuid
from headrace.log.ports import LogCut
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.broker_bench import BrokerBench, Client

LONG_MS = 10_000


class FollowerTwo:
    """The fetcher of broker 2, which has one session and one fetch under way."""

    def __init__(self, bench: BrokerBench) -> None:
        self.bench = bench
        self._client = Client(bench)
        self._session = (0, 0)

    def fetch(self, *topics: Uuid, replica: int = 2) -> None:
        """Ask for the rest of all that the session has, and of these from now on."""
        partition = FetchPartition(partition=0, fetch_offset=0, log_start_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=replica, replica_epoch=12),
            max_wait_ms=LONG_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self._session[0],
            session_epoch=self._session[1],
            topics=tuple(FetchTopic(topic_id=each, partitions=(partition,)) for each in topics),
        )
        self._client.send(request, 18)

    def is_answered(self) -> bool:
        """Whether there is an answer to the last one; all are empty here."""
        answers = self._client.answers()
        for each in answers:
            assert each.error_code == 0
            assert all(not part.records for topic in each.responses for part in topic.partitions)
            self._session = (each.session_id, self._session[1] + 1)
        return bool(answers)

    def waits(self, ms: int) -> None:
        """The last one is answered after so long, and not before."""
        self.bench.advance(ms - 1)
        assert not self.is_answered()
        self.bench.advance(1)
        assert self.is_answered()


def waiting(bench: BrokerBench) -> FollowerTwo:
    """A follower of a partition that this broker leads, whose fetch waits for news of it."""
    old = bench.topic("old", leader=1, replicas=(1, 2))
    follower = FollowerTwo(bench)
    follower.fetch(old)
    while follower.is_answered():
        follower.fetch()
    return follower


def test_a_fetch_that_waits_is_answered_when_there_is_more_to_ask_for() -> None:
    """P6: what the new leader writes is committed when its followers have it; one that hears late of its leader is asked back soon, for half a second."""
    bench = BrokerBench()
    follower = waiting(bench)
    new = bench.topic("new", leader=1, replicas=(1, 2))
    bench.advance(0)
    assert follower.is_answered()
    follower.fetch()  # it has not heard of its new leader yet
    follower.waits(SHORT_WAIT_MS)
    follower.fetch(new)
    follower.waits(LONG_MS)


def test_followers_that_have_it_wait_as_they_ask() -> None:
    """Newer terms within an epoch, partitions of others, and what is long ago are no reason to answer."""
    bench = BrokerBench()
    follower = waiting(bench)
    bench.topic("others", leader=3, replicas=(3, 2))
    bench.topic("not its own", leader=1, replicas=(1, 3))
    bench.advance(0)
    assert not follower.is_answered()
    bench.topic("never asked for", leader=1, replicas=(1, 2))
    bench.advance(0)
    assert follower.is_answered()
    bench.advance(AWAITED_MS)
    follower.fetch()
    follower.waits(LONG_MS)


def test_each_partition_is_awaited_for_its_own_time() -> None:
    """Others that begin later, and that the follower asks for, keep its fetches no shorter for one that it does not ask for."""
    bench = BrokerBench()
    follower = waiting(bench)
    bench.topic("never asked for", leader=1, replicas=(1, 2))
    bench.advance(AWAITED_MS - 1)
    assert follower.is_answered()
    follower.fetch(bench.topic("later", leader=1, replicas=(1, 2)))
    follower.waits(SHORT_WAIT_MS)
    follower.fetch()
    follower.waits(LONG_MS)


def test_of_a_follower_that_is_gone_nothing_piles_up() -> None:
    """Topics that are made and deleted again and again; it never asks for them."""
    bench = BrokerBench()
    for _ in range(20):
        bench.topic("t", leader=1, replicas=(1, 3))
        bench.advance(AWAITED_MS // 4)
        bench.delete("t")
    assert len(bench.broker.new_leaderships) <= 5


def test_who_leads_after_a_cut_calls_its_followers_too() -> None:
    """KIP-101: a thread still cuts the log when the metadata name the leader; its epoch begins later."""
    bench = BrokerBench()
    follower = waiting(bench)
    bench.topic("cut", leader=2, replicas=(1, 2))
    (job,) = bench.logs.cut([LogCut(TopicPartition("cut", 0), 0)])
    bench.topic("cut", leader=1, replicas=(1, 2), leader_epoch=2)
    for step in (job.look_up, job.lower, job.run):
        step()
    bench.advance(0)
    assert not follower.is_answered()
    job.finish()
    bench.advance(0)
    assert follower.is_answered()


def test_very_many_fetches_of_one_follower_are_answered_in_turns() -> None:
    """Somebody claims to be the follower (PR8): hundreds of answers in one turn would hold up everybody."""
    bench = BrokerBench()
    old = bench.topic("old", leader=1, replicas=(1, 2))
    crowd = [FollowerTwo(bench) for _ in range(300)]
    for each in crowd:
        each.fetch(old)
        while each.is_answered():
            each.fetch()
    bench.topic("new", leader=1, replicas=(1, 2))
    answered = []
    for _ in range(8):
        bench.advance(0)
        answered.append(sum(each.is_answered() for each in crowd))
    assert sum(answered) == 300
    assert max(answered) <= 100
