"""When may a peer that did not answer be asked again?"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.peers import Destination, SendFailure
from headrace.raft.config import RaftConfig
from headrace.raft.events import NodeStarted, QuorumState, RaftRequestFailed, SendRaftRequest, TimeAdvanced
from headrace.raft.machine import RaftNode
from headrace.raft.outbox import Outbox, Purpose
from headrace.raft.roles import Prospective
from headrace.wire.messages.fetch import FetchRequest
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CONFIG
from tests.support.raft_cluster import config, static

PEER, OTHER = Destination(2, "peer", 9093), Destination(3, "other", 9093)
START_MS = 1_000


class Middle(random.Random):
    """Chance that is always in the middle, so that a wait is exactly what it is without chance."""

    def random(self) -> float:
        """One half."""
        return 0.5


def outbox(rng: random.Random | None = None, settings: RaftConfig = CONFIG) -> Outbox:
    """An outbox with the product's limits."""
    return Outbox(settings, rng or Middle())


def fail(sent_by: Outbox, now_ms: int, *, to: Destination = PEER, failure: SendFailure = SendFailure.TIMED_OUT) -> int:
    """A request fails at that time; how long the peer is left alone from then on (ms)."""
    sent = sent_by.send(Purpose.FETCH, to, FetchRequest(), epoch=1)
    sent_by.failed(sent.correlation, failure, now_ms)
    return sent_by.ready_at(to) - now_ms


def waits(sent_by: Outbox, count: int, *, failure: SendFailure = SendFailure.TIMED_OUT) -> list[int]:
    """The waits after so many failures in a row, each tried as soon as it may be."""
    found: list[int] = []
    now_ms = START_MS
    for _ in range(count):
        found.append(fail(sent_by, now_ms, failure=failure))
        now_ms += found[-1]
    return found


def test_each_wait_is_twice_the_one_before_up_to_the_limit() -> None:
    """S1-21, S1-22: from retry.backoff.ms on, doubled, at most retry.backoff.max.ms."""
    assert waits(outbox(), 9) == [20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]
    settings = replace(CONFIG, retry_backoff_ms=300, retry_backoff_max_ms=700)
    assert waits(outbox(settings=settings), 4) == [300, 600, 700, 700]
    assert waits(outbox(), 80)[-1] == 1_000


def test_waits_have_a_fifth_of_chance() -> None:
    """S1-22: with jitter, so that many who lost the same peer do not come back at one moment."""
    drawn = [waits(outbox(random.Random(seed)), 7) for seed in range(200)]
    for position, middle in enumerate((20, 40, 80, 160, 320, 640, 1_000)):
        found = {each[position] for each in drawn}
        assert min(found) >= int(middle * 0.8)
        assert max(found) <= middle * 1.2
        assert len(found) > 5


def test_a_connection_that_broke_is_tried_again_at_once_and_only_once() -> None:
    """S1-23: a lost connection is a reason to ask again, and a process that died shows itself by refusing the next one."""
    assert waits(outbox(), 4, failure=SendFailure.DISCONNECTED) == [0, 40, 80, 160]
    assert waits(outbox(), 2, failure=SendFailure.REFUSED) == [20, 40]


def test_an_answer_ends_the_waiting_and_the_next_failure_begins_anew() -> None:
    """S1-21: the first wait is that of the first failure in a row."""
    box = outbox()
    assert waits(box, 5)[-1] == 320
    sent = box.send(Purpose.FETCH, PEER, FetchRequest(), epoch=1)
    assert box.answered(sent.correlation) is not None
    assert box.ready_at(PEER) == 0
    assert waits(box, 2) == [20, 40]
    box.heard_from(PEER.node_id)
    assert box.ready_at(PEER) == 0


def test_one_peer_is_left_alone_and_no_other() -> None:
    """S1-23: each peer has its own wait."""
    box = outbox()
    waits(box, 6)
    assert box.ready_at(OTHER) == 0
    assert fail(box, START_MS, to=OTHER) == 20


class Standing:
    """Voter 1 of three, whose election timeout has passed: it asks the others whether they would vote for it."""

    def __init__(self, **changes: Any) -> None:
        self.node = RaftNode(
            config=config(1, static(1, 2, 3), elect_at_start=False, **changes),
            log=MemoryLog().as_port(),
            snapshots=MemorySnapshots().as_port(),
            state=QuorumState(),
            rng=random.Random(1),
        )
        self.sent: list[SendRaftRequest] = []
        self.step(NodeStarted(now_ms=START_MS))
        deadline = self.node.role.election_deadline_ms  # type: ignore[union-attr]
        assert deadline is not None
        self.now_ms: int = deadline
        self.step(TimeAdvanced(now_ms=self.now_ms))

    def step(self, event: Any) -> None:
        """One event; what was sent is kept."""
        self.sent += [each for each in self.node.step(event) if isinstance(each, SendRaftRequest)]

    @property
    def role(self) -> Prospective:
        """It asks for pre-votes."""
        role = self.node.role
        assert isinstance(role, Prospective)
        return role

    def asked(self, node_id: int) -> list[SendRaftRequest]:
        """What that voter was asked since it stands."""
        return [each for each in self.sent if each.to.node_id == node_id and "Vote" in type(each.request).__name__]


@pytest.mark.parametrize("backoff_ms", [20, 100])
def test_a_retry_does_not_move_the_election_and_the_election_no_retry(backoff_ms: int) -> None:
    """S1-23: two timers; the voter that did not answer is asked again after retry.backoff.ms, in the same election."""
    standing = Standing(retry_backoff_ms=backoff_ms)
    deadline = standing.role.election_deadline_ms
    [first] = standing.asked(2)
    standing.step(
        RaftRequestFailed(correlation=first.correlation, failure=SendFailure.TIMED_OUT, now_ms=standing.now_ms)
    )
    assert len(standing.asked(2)) == 1
    assert standing.role.election_deadline_ms == deadline
    again = standing.node.next_deadline_ms()
    assert again is not None
    assert backoff_ms * 0.8 <= again - standing.now_ms <= backoff_ms * 1.2
    standing.step(TimeAdvanced(now_ms=again - 1))
    assert len(standing.asked(2)) == 1
    standing.step(TimeAdvanced(now_ms=again))
    assert len(standing.asked(2)) == 2
    assert (standing.role.election_deadline_ms, standing.role.epoch) == (deadline, 0)
    assert len(standing.asked(3)) == 1
