"""Do followers come for a partition as soon as its new leader has it, though a fetch of theirs waits there?"""

from __future__ import annotations

from headrace.broker.new_leaderships import AWAITED_MS, SHORT_WAIT_MS
from headrace.core.ids import Uuid
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
    assert not follower.is_answered()
    bench.topic("never asked for", leader=1, replicas=(1, 2))
    assert follower.is_answered()
    bench.advance(AWAITED_MS)
    follower.fetch()
    follower.waits(LONG_MS)
