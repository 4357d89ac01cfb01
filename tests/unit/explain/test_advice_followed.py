"""What becomes of a quorum when its operator follows the advice: it is healthy, and nothing that was acknowledged is gone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.explain.causes import CauseKind
from headrace.explain.diagnose import diagnose
from headrace.explain.facts import Seen
from headrace.raft.events import QuorumState
from headrace.wire.messages.describe_quorum import BatchDigest, NodeView
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft_cluster import (
    RaftCluster,
    add_voter,
    directory_id,
    dynamic_cluster,
    remove_voter,
    static_cluster,
)
from tests.unit.explain.test_diagnose import CLUSTER, directory, view, voters


def seen(*views: NodeView) -> list[Seen]:
    """All of them answered."""
    return [Seen(address=f"h{each.node_id}:9093", expected_id=each.node_id, view=each) for each in views]


def diverged(*, is_dynamic: bool, **of_second: object) -> tuple[str, ...]:
    """The advice for a quorum of three, led by node 1, where node 3 holds other batches than the others."""
    names = voters(1, 2, 3, is_dynamic=is_dynamic)
    same = BatchDigest(base_offset=50, last_offset=59, epoch=6, crc=1)
    nodes = [
        view(1, voters=names, batches=(same,)),
        view(2, voters=names, batches=(same,), **of_second),
        view(3, voters=names, batches=(replace(same, crc=2),)),
    ]
    [cause] = [each for each in diagnose(seen(*nodes)).causes if each.kind is CauseKind.DIVERGED_LOG]
    assert cause.nodes == (3,)
    return cause.advice


def empty(cluster: RaftCluster, node_id: int) -> None:
    """The disk of a node that is down is replaced by an empty one."""
    member = cluster.members[node_id]
    member.log, member.snapshots, member.state = MemoryLog(), MemorySnapshots(), QuorumState()


def held(cluster: RaftCluster, node_id: int, record: bytes) -> bool:
    """Whether a node's log holds a record."""
    return any(record in data for _, _, _, data in cluster.members[node_id].log.batches)


def test_the_former_advice_would_lose_an_acknowledged_change() -> None:
    """inv:R2, R18: to empty a voter of a static quorum and start it, while another one is behind."""
    cluster = static_cluster(1, 2, 3)
    leader = cluster.elect()
    behind, emptied = (each for each in (1, 2, 3) if each != leader)
    cluster.stop(behind)
    cluster.run_committed(cluster.offer(leader, b"acknowledged"), leader, emptied)
    cluster.stop(emptied)
    cluster.stop(leader)
    empty(cluster, emptied)
    cluster.start(behind)
    cluster.start(emptied)
    cluster.elect()
    assert not held(cluster, behind, b"acknowledged")
    assert not held(cluster, emptied, b"acknowledged")


def test_the_advice_for_a_dynamic_quorum_is_to_replace_the_voter() -> None:
    """inv:R2, R18, KIP-853: remove the key, format with a new directory id, add it again; never to empty it as it is."""
    advice = " ".join(diverged(is_dynamic=True))
    assert f"remove-controller -i 3 -d {directory(3)}" in advice
    assert f"headrace storage format -t {CLUSTER} --no-initial-controllers" in advice
    assert advice.index("remove-controller") < advice.index("storage format") < advice.index("add-controller")
    assert "Never start it on an emptied directory" in advice


def test_a_voter_that_is_replaced_as_advised_loses_nothing() -> None:
    """inv:R18: also when the other follower was behind all the time: the removal is committed by who is left, so that one catches up first."""
    for seed in range(10):
        cluster = dynamic_cluster(1, 2, 3, seed=seed)
        leader = cluster.elect()
        behind, replaced = (each for each in (1, 2, 3) if each != leader)
        cluster.stop(behind)
        cluster.run_committed(cluster.offer(leader, b"acknowledged"), leader, replaced)
        cluster.stop(replaced)
        cluster.start(behind)
        assert cluster.answer(leader, remove_voter(replaced)).error_code == 0
        empty(cluster, replaced)
        cluster.start(replaced, directory_id=directory_id(90 + replaced))
        cluster.run_committed(cluster.members[leader].raft.high_watermark, replaced)
        assert cluster.answer(leader, add_voter(cluster.members[replaced].config)).error_code == 0
        cluster.stop(leader)
        cluster.run_committed(cluster.offer(cluster.elect(), b"later"), behind, replaced)
        assert held(cluster, behind, b"acknowledged")
        assert held(cluster, replaced, b"acknowledged")
        cluster.check_logs()


@pytest.mark.parametrize(
    ("of_second", "said"),
    [
        ({}, "That is so now."),
        ({"durable_end_offset": 90}, "node 2 has the log up to 90 of 100"),
        ({"role": "Unattached", "leader_id": -1}, "node 2 is Unattached in epoch 7"),
    ],
)
def test_a_static_voter_may_be_emptied_only_while_all_others_hold_everything(
    of_second: dict[str, object], said: str
) -> None:
    """inv:R2, R18: the advice says when, and whether that is so now."""
    advice = diverged(is_dynamic=False, **of_second)
    assert any("only while every other voter (nodes 1 and 2) is up" in line and said in line for line in advice)
    assert "remove-controller" not in " ".join(advice)


def test_a_static_voter_that_is_emptied_as_advised_loses_nothing() -> None:
    """inv:R2, R18: all others are up, follow one leader and hold its log, until it has fetched everything."""
    for seed in range(10):
        cluster = static_cluster(1, 2, 3, seed=seed)
        leader = cluster.elect()
        cluster.run_committed(cluster.offer(leader, b"acknowledged"))
        other, emptied = (each for each in (1, 2, 3) if each != leader)
        cluster.stop(emptied)
        empty(cluster, emptied)
        cluster.start(emptied)
        cluster.run_committed(cluster.members[leader].raft.high_watermark, emptied)
        cluster.stop(leader)
        cluster.run_committed(cluster.offer(cluster.elect(), b"later"), other, emptied)
        assert held(cluster, other, b"acknowledged")
        assert held(cluster, emptied, b"acknowledged")
        cluster.check_logs()


def test_of_two_logs_that_differ_without_a_leader_none_is_given_up() -> None:
    """inv:R18: which of them holds what was acknowledged cannot be told."""
    names = voters(1, 2, 3)
    same = BatchDigest(base_offset=50, last_offset=59, epoch=6, crc=1)
    lost = {"role": "Unattached", "leader_id": -1, "voters": names}
    found = diagnose(seen(view(1, batches=(same,), **lost), view(2, batches=(replace(same, crc=2),), **lost)))
    [cause] = [each for each in found.causes if each.kind is CauseKind.DIVERGED_LOG]
    assert cause.nodes == (1, 2)
    assert not any("format" in line for line in cause.advice)
    assert any("Copy all their directories before anything else" in line for line in cause.advice)


def test_lost_voters_are_not_to_be_started_empty() -> None:
    """inv:R18: two empty voters of three could elect one of themselves."""
    found = diagnose(
        [
            *seen(view(1, role="Unattached", leader_id=-1, links=())),
            Seen(address="h2:9093", expected_id=2, failure="connection refused"),
            Seen(address="h3:9093", expected_id=3, failure="connection refused"),
        ]
    )
    [cause] = [each for each in found.causes if each.kind is CauseKind.MAJORITY_DOWN]
    assert any("start none of the lost ones on an empty directory" in line for line in cause.advice)


def test_a_voter_in_an_epoch_out_of_reach_is_named_and_to_be_replaced() -> None:
    """promise:PR8: its quorum-state is rotten; the others go on without it."""
    names = voters(1, 2, 3, is_dynamic=True)
    rotten = view(3, voters=names, role="Unattached", leader_id=-1, epoch=(1 << 31) - 1)
    found = diagnose(seen(view(1, voters=names), view(2, voters=names), rotten))
    [cause] = [each for each in found.causes if each.kind is CauseKind.EPOCH_OUT_OF_REACH]
    assert cause.nodes == (3,)
    assert any(f"remove-controller -i 3 -d {directory(3)}" in line for line in cause.advice)


def test_the_voter_stays_of_two_nodes_with_one_id() -> None:
    """inv:R2: the one whose directory is in the voter set holds the votes and the log."""
    names = voters(1, 2, 3, is_dynamic=True)
    both = [view(3, voters=names), view(3, voters=names, directory_id=directory(9))]
    found = diagnose(seen(view(1, voters=names), view(2, voters=names), *both))
    [cause] = [each for each in found.causes if each.kind is CauseKind.TWO_NODES_ONE_ID]
    assert cause.advice == (
        f"Stop the one that has not directory id {directory(3)}, which is the voter's, or give it a node.id of its own.",
    )
