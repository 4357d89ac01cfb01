"""Which cause does the diagnosis name for which facts? One hand-made quorum, and one thing wrong with it at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.explain.causes import CauseKind, Diagnosis, State
from headrace.explain.diagnose import diagnose
from headrace.explain.facts import Seen, names, size_of, span
from headrace.wire.messages.describe_quorum import (
    BatchDigest,
    EpochStart,
    NodeEndPoint,
    NodeLink,
    NodeView,
    NodeVote,
    NodeVoter,
    OwnEndPoint,
)

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
Change = Callable[[NodeView], NodeView]


def directory(node_id: int) -> Uuid:
    return Uuid(bytes([node_id]) * 16)


def voters(*ids: int, is_dynamic: bool = False) -> tuple[NodeVoter, ...]:
    return tuple(
        NodeVoter(
            voter_id=number,
            directory_id=directory(number) if is_dynamic else Uuid(),
            end_points=(NodeEndPoint(name="CONTROLLER", host=f"h{number}", port=9093),),
        )
        for number in ids
    )


def link(peer_id: int, **facts: Any) -> NodeLink:
    """A link that works, but for what is said otherwise."""
    given: dict[str, Any] = {"answered_age_ms": 100, **facts}
    return NodeLink(peer_id=peer_id, host=f"h{peer_id}", port=9093, **given)


def failing(peer_id: int, failure: str = "TIMED_OUT") -> NodeLink:
    return link(peer_id, answered_age_ms=9_000, failed_age_ms=50, failing_for_ms=8_000, failure=failure)


def view(node_id: int, **facts: Any) -> NodeView:
    """A node of a healthy quorum of 1, 2 and 3, which 1 leads."""
    others = [number for number in (1, 2, 3) if number != node_id]
    given: dict[str, Any] = {
        "directory_id": directory(node_id),
        "cluster_id": CLUSTER,
        "process_roles": "controller",
        "log_directory": f"/data/{node_id}",
        "role": "Leader" if node_id == 1 else "Follower",
        "epoch": 7,
        "leader_id": 1,
        "log_start_offset": 0,
        "log_end_offset": 100,
        "durable_end_offset": 100,
        "high_watermark": 100,
        "log_end_epoch": 7,
        "voters": voters(1, 2, 3),
        "own_end_points": (
            OwnEndPoint(name="CONTROLLER", host=f"h{node_id}", port=9093, is_for_controllers=True),
            OwnEndPoint(name="PLAINTEXT", host=f"h{node_id}", port=9092),
        ),
        "links": tuple(link(number) for number in others),
        "flush_last_ms": 3,
        "flush_average_ms": 3,
        "flush_max_ms": 20,
        "disk_free_bytes": 1 << 34,
        "disk_total_bytes": 1 << 35,
        "wall_clock_ms": 1_000_000,
        "uptime_ms": 600_000,
        "epoch_history": (EpochStart(epoch=5, start_offset=0), EpochStart(epoch=7, start_offset=60)),
        "batches": tuple(
            BatchDigest(base_offset=offset, last_offset=offset, epoch=7, crc=offset * 31) for offset in range(90, 100)
        ),
        **facts,
    }
    return NodeView(node_id=node_id, **given)


def seen(views: Iterable[NodeView], *, down: Iterable[int] = (), clock_ms: dict[int, int] | None = None) -> list[Seen]:
    clocks = clock_ms or {}
    found = [
        Seen(
            address=f"h{each.node_id}:9093",
            expected_id=each.node_id,
            view=each,
            clock_ms=clocks.get(each.node_id, 50),
        )
        for each in views
    ]
    return found + [
        Seen(address=f"h{number}:9093", expected_id=number, failure="connection refused") for number in down
    ]


def first(found: Diagnosis) -> tuple[State, CauseKind, tuple[int, ...]]:
    return found.state, found.causes[0].kind, found.causes[0].nodes


def leaderless(node_id: int, **facts: Any) -> NodeView:
    return view(node_id, **{"role": "Prospective", "leader_id": -1, "epoch": 7, **facts})


def test_a_healthy_quorum_has_no_causes() -> None:
    """S4-54: state, and who leads; nothing is wrong."""
    found = diagnose(seen([view(1), view(2), view(3)]))
    assert (found.state, found.causes) == (State.HEALTHY, ())
    assert found.summary == "Node 1 leads epoch 7, committed up to offset 100. The quorum is healthy."


def test_nobody_answers() -> None:
    """S4-24: nothing is known but the addresses."""
    found = diagnose(seen([], down=(1, 2)))
    assert first(found) == (State.UNKNOWN, CauseKind.NOBODY_REACHED, ())
    assert found.causes[0].evidence == ("h1:9093: connection refused", "h2:9093: connection refused")


def test_a_majority_that_is_down_is_the_cause() -> None:
    """fault:S4: two of three neither answer us nor the one that is left; it says who refused whom."""
    alone = leaderless(
        2, links=(failing(1, "REFUSED"), failing(3, "TIMED_OUT")), votes=(NodeVote(voter_id=2, is_granted=True),)
    )
    found = diagnose(seen([alone], down=(1, 3)))
    assert first(found) == (State.LEADERLESS, CauseKind.MAJORITY_DOWN, (1, 3))
    assert len(found.causes) == 1
    assert "node 2 cannot reach it either for 8.0 s: REFUSED" in found.causes[0].evidence
    assert "has the vote of node 2" in found.story[0]


def test_a_leader_whose_majority_has_just_gone_commits_nothing_more() -> None:
    """fault:S4: it leads until it has heard nobody for one and a half fetch timeouts; a quorum without a majority does not "work" meanwhile."""
    left = view(1, links=(failing(2, "REFUSED"), failing(3, "REFUSED")))
    found = diagnose(seen([left], down=(2, 3)))
    assert first(found) == (State.STALLED, CauseKind.MAJORITY_DOWN, (2, 3))
    assert found.summary == (
        "Node 1 leads epoch 7, committed up to offset 100. Nothing more is committed: "
        "2 of 3 voters are down (nodes 2 and 3); 2 are needed."
    )


def test_one_voter_down_is_told_but_blocks_nothing() -> None:
    """fault:S4."""
    found = diagnose(seen([view(1, links=(link(2), failing(3, "REFUSED"))), view(2, links=(link(1),))], down=(3,)))
    assert first(found) == (State.DEGRADED, CauseKind.VOTER_DOWN, (3,))


def asked_elsewhere(peer_id: int, host: str, **facts: Any) -> NodeLink:
    """A link of a peer that was asked at a bootstrap server, where it does not live."""
    return replace(link(peer_id, **facts), host=host)


REFUSED_AS_ANOTHER = {"answered_age_ms": 20, "refused_age_ms": 20, "refusal_code": int(ErrorCode.INVALID_VOTER_KEY)}


@pytest.mark.parametrize("host", ["h2", "balancer"])
def test_a_voter_in_whose_name_another_node_answers_is_down(host: str) -> None:
    """S4-17: the leader asks for it at the bootstrap servers, where the other voters are, or a balancer, and is refused."""
    dynamic = {"voters": voters(1, 2, 3, is_dynamic=True), "kraft_version": 1}
    leader = view(1, **dynamic, links=(link(2), failing(3, "REFUSED"), asked_elsewhere(3, host, **REFUSED_AS_ANOTHER)))
    found = diagnose(seen([leader, view(2, **dynamic, links=(link(1),))], down=(3,)))
    assert first(found) == (State.DEGRADED, CauseKind.VOTER_DOWN, (3,))


def test_a_bootstrap_server_that_was_down_is_no_wrong_listener_of_others() -> None:
    """S4-17: node 1 was looked for where node 2 was about to start."""
    dynamic = {"voters": voters(1, 2, 3, is_dynamic=True), "kraft_version": 1}
    refused = asked_elsewhere(1, "h2", answered_age_ms=-1, failed_age_ms=3_000, failure="REFUSED")
    nodes = [view(1, **dynamic), view(2, **dynamic), view(3, **dynamic, links=(link(1), link(2), refused))]
    assert diagnose(seen(nodes)).state is State.HEALTHY
    leader = view(1, **dynamic, links=(failing(2, "REFUSED"), link(3)))
    gone = diagnose(seen([leader, view(3, **dynamic, links=(link(1), failing(2, "REFUSED"), refused))], down=(2,)))
    assert [cause.kind for cause in gone.causes] == [CauseKind.VOTER_DOWN]


def test_a_voter_that_only_we_cannot_reach_is_not_down() -> None:
    """S4-36: the others reach it, or hear it."""
    assert diagnose(seen([view(1), view(2)], down=(3,))).state is State.HEALTHY
    heard = view(1, links=(link(2), link(3, answered_age_ms=-1, heard_age_ms=30)))
    assert diagnose(seen([heard, view(2, links=(link(1),))], down=(3,))).state is State.HEALTHY


def test_old_failures_say_nothing_of_now() -> None:
    """S4-36: voters that have no reason to ask one another do not; what failed at the start is over."""
    old = link(3, answered_age_ms=-1, failed_age_ms=60_000, failing_for_ms=60_500, failure="REFUSED")
    assert diagnose(seen([view(1), view(2, links=(link(1), old)), view(3)])).state is State.HEALTHY


@pytest.mark.parametrize("failure", ["REFUSED", "TIMED_OUT", "DISCONNECTED"])
def test_a_failure_from_before_a_node_came_up_is_no_cut(failure: str) -> None:
    """S4-36: an observer asks the voters in turn until one leads; those that came up later than itself it asks no more."""
    refused = tuple(
        link(peer, answered_age_ms=-1, failed_age_ms=900, failing_for_ms=1_900, failure=failure) for peer in (2, 3)
    )
    observer = view(101, process_roles="broker", links=(link(1), *refused))
    just_up = [view(2, uptime_ms=1_800), view(3, uptime_ms=1_000)]
    assert diagnose(seen([view(1), *just_up, observer])).state is State.HEALTHY
    found = diagnose(seen([view(1), view(2, uptime_ms=1_900), just_up[1], observer]))
    assert first(found) == (State.DEGRADED, CauseKind.ONE_WAY_CUT, (101, 2))


def test_a_link_cut_one_way() -> None:
    """fault:S26: 2 cannot reach 1, 1 reaches 2."""
    found = diagnose(seen([view(1), view(2, links=(failing(1), link(3))), view(3)]))
    assert first(found) == (State.DEGRADED, CauseKind.ONE_WAY_CUT, (2, 1))
    assert found.causes[0].headline == "the link is cut one way only: node 2 cannot reach node 1"
    assert "node 1 -> node 2: answered 100 ms ago" in found.causes[0].evidence


def test_the_way_back_of_a_cut_is_not_guessed() -> None:
    """fault:S26: followers ask the leader and nobody else, so that a cut between two of them shows on one side."""
    silent = view(2, links=(link(1), link(3, answered_age_ms=-1)))
    found = diagnose(seen([view(1), silent, view(3, links=(link(1), failing(2)))]))
    assert first(found) == (State.DEGRADED, CauseKind.ONE_WAY_CUT, (3, 2))
    assert found.causes[0].headline == "node 3 cannot reach node 2"
    assert any("not known whether that way works" in line for line in found.causes[0].evidence)
    assert found.causes[0].advice[0].endswith(", and back.")


def test_a_link_cut_both_ways_is_told_once() -> None:
    """fault:S20."""
    found = diagnose(seen([view(1, links=(failing(2), link(3))), view(2, links=(failing(1), link(3))), view(3)]))
    assert [(each.kind, each.nodes) for each in found.causes] == [(CauseKind.CUT_LINK, (1, 2))]


def test_two_clusters() -> None:
    """S1-28: the stranger is named, with what it was told."""
    refused = link(1, refusal_code=ErrorCode.INCONSISTENT_CLUSTER_ID, refused_age_ms=10)
    stranger = view(3, cluster_id="other", role="Unattached", links=(refused,))
    found = diagnose(seen([view(1), view(2), stranger]))
    assert first(found) == (State.DEGRADED, CauseKind.WRONG_CLUSTER_ID, (3,))
    assert "node 3 was refused by node 1: INCONSISTENT_CLUSTER_ID" in found.causes[0].evidence


def test_without_a_leader_the_cluster_of_the_majority_is_the_right_one() -> None:
    """S1-28: and what keeps the quorum from a majority is blocking."""
    views = [leaderless(1), leaderless(2, cluster_id="x"), leaderless(3, cluster_id="x")]
    found = diagnose(seen(views))
    assert first(found) == (State.LEADERLESS, CauseKind.WRONG_CLUSTER_ID, (1,))
    two = diagnose(seen([leaderless(1), leaderless(2, cluster_id="x")], down=(3,)))
    assert (two.state, two.causes[0].kind, two.causes[0].is_blocking) == (
        State.LEADERLESS,
        CauseKind.WRONG_CLUSTER_ID,
        True,
    )


def test_a_new_directory_under_an_old_id() -> None:
    """B-R24: the key in the voter set is not that of the node that runs."""
    dynamic = {"voters": voters(1, 2, 3, is_dynamic=True), "kraft_version": 1, "voter_set_offset": 2}
    renewed = view(3, **{**dynamic, "directory_id": Uuid(b"new directory 16")})
    found = diagnose(seen([view(1, **dynamic), view(2, **dynamic), renewed]))
    assert first(found) == (State.DEGRADED, CauseKind.EXPIRED_VOTER_KEY, (3,))
    assert f"remove-controller -i 3 -d {directory(3)}" in found.causes[0].advice[0]


def test_a_static_list_that_differs() -> None:
    """S4-12: whoever leads is right; else the list that most nodes have."""
    found = diagnose(
        seen([view(1), view(2), view(3, voters=voters(3, 4, 5), role="Unattached", leader_id=-1)], down=(4, 5))
    )
    assert first(found) == (State.DEGRADED, CauseKind.STALE_VOTER_SET, (3,))
    nobody = diagnose(seen([leaderless(1), leaderless(2), leaderless(3, voters=voters(3, 4, 5))], down=(4, 5)))
    assert first(nobody) == (State.LEADERLESS, CauseKind.STALE_VOTER_SET, (3,))


def test_an_older_voter_set_of_the_log_is_stale_unless_its_node_follows() -> None:
    """B-R25: the newest record counts; a follower of the leader is about to read it."""
    new = {"voters": voters(1, 2, is_dynamic=True), "kraft_version": 1, "voter_set_offset": 80}
    old = {"voters": voters(1, 2, 3, is_dynamic=True), "kraft_version": 1, "voter_set_offset": 2}
    apart = view(3, **{**old, "role": "Prospective", "leader_id": -1, "epoch": 9})
    newest_epoch = [view(1, **{**new, "epoch": 9}), view(2, **{**new, "epoch": 9}), apart]
    found = diagnose(seen(newest_epoch))
    assert first(found) == (State.DEGRADED, CauseKind.STALE_VOTER_SET, (3,))
    assert diagnose(seen([view(1, **new), view(2, **new), view(3, **old)])).state is State.HEALTHY


def test_an_address_that_is_for_clients() -> None:
    """S4-13: seen in the voter set of the one that has it wrong, and in what it was answered."""
    wrong = tuple(
        replace(each, end_points=(replace(each.end_points[0], port=9092),)) if each.voter_id == 1 else each
        for each in voters(1, 2, 3)
    )
    at_client_port = NodeLink(peer_id=1, host="h1", port=9092, failed_age_ms=20, failure="UNSUPPORTED_VERSION")
    found = diagnose(seen([view(1), view(2), view(3, voters=wrong, links=(at_client_port, link(2)))]))
    assert first(found) == (State.DEGRADED, CauseKind.WRONG_LISTENER, (1, 3))
    assert "node 1 has its controller listener at h1:9093" in found.causes[0].evidence


def test_a_port_where_nobody_listens() -> None:
    """S4-13."""
    nowhere = NodeLink(peer_id=1, host="h1", port=7, failed_age_ms=20, failure="REFUSED")
    found = diagnose(seen([view(1), view(2), view(3, links=(nowhere, link(2)))]))
    assert first(found) == (State.DEGRADED, CauseKind.WRONG_LISTENER, (1, 3))
    assert found.causes[0].evidence[0] == "h1:7: node 1 does not listen on port 7 (REFUSED)"


@pytest.mark.parametrize(
    "facts",
    [{"disk_free_bytes": 4_096}, {"disk_failure": "write: No space left on device", "disk_failure_age_ms": 10}],
    ids=["no room", "a failed write"],
)
def test_a_full_disk(facts: dict[str, Any]) -> None:
    """fault:S59."""
    found = diagnose(seen([view(1), view(2, **facts), view(3)]))
    assert first(found) == (State.DEGRADED, CauseKind.FULL_DISK, (2,))


def test_last_words_tell_why_a_node_is_down() -> None:
    """fault:S59: the disk is the root; that the node is down follows."""
    words = link(
        2,
        answered_age_ms=-1,
        failed_age_ms=9,
        failure="REFUSED",
        last_words="log: No space left on device",
        last_words_age_ms=4_000,
    )
    found = diagnose(seen([view(1, links=(words, link(3))), view(3, links=(link(1),))], down=(2,)))
    assert [(each.kind, each.nodes) for each in found.causes] == [(CauseKind.FULL_DISK, (2,))]
    assert found.causes[0].evidence == (
        "4.0 s ago node 2 told node 1, before it stopped: log: No space left on device",
    )


def test_a_disk_that_failed_otherwise() -> None:
    """fault:S57."""
    words = link(
        2,
        answered_age_ms=-1,
        failed_age_ms=9,
        failure="REFUSED",
        last_words="the disk failed: Input/output error",
        last_words_age_ms=4_000,
    )
    found = diagnose(seen([view(1, links=(words, link(3))), view(3, links=(link(1),))], down=(2,)))
    assert first(found) == (State.DEGRADED, CauseKind.FAILED_DISK, (2,))


def test_slow_syncs_explain_a_high_watermark_that_stands() -> None:
    """B-R14: the leader's records wait, and its syncs are slow."""
    stuck = view(
        1,
        high_watermark=95,
        uncommitted_for_ms=9_000,
        flush_average_ms=2_000,
        flush_in_flight_ms=8_000,
        durable_end_offset=95,
    )
    found = diagnose(seen([stuck, view(2, high_watermark=95), view(3, high_watermark=95)]))
    assert first(found) == (State.STALLED, CauseKind.SLOW_FSYNC, (1,))
    assert "the high watermark stands at 95 for 9.0 s" in found.summary
    assert "its log goes to offset 100, but only 95 is on disk" in found.causes[0].evidence


def test_followers_that_are_behind_explain_a_high_watermark_that_stands() -> None:
    """B-R14: a majority does not have the records."""
    stuck = view(1, log_end_offset=900, high_watermark=100, uncommitted_for_ms=9_000)
    found = diagnose(seen([stuck, view(2), view(3)]))
    assert found.state is State.STALLED
    assert {(each.kind, each.nodes) for each in found.causes} == {(CauseKind.LAGGING, (2,)), (CauseKind.LAGGING, (3,))}


def test_a_clock_that_jumped_or_is_off() -> None:
    """fault:S40: by its own account, or against the two others."""
    jumped = view(2, clock_jump_ms=-3_600_000, clock_jump_age_ms=5_000)
    found = diagnose(seen([view(1), jumped, view(3)]))
    assert first(found) == (State.DEGRADED, CauseKind.CLOCK_JUMP, (2,))
    assert "its wall clock jumped 60 min back, 5.0 s ago" in found.causes[0].evidence
    off = diagnose(seen([view(1), view(2), view(3)], clock_ms={1: 40, 2: 60, 3: 90_000}))
    assert first(off) == (State.DEGRADED, CauseKind.CLOCK_JUMP, (3,))


def test_the_same_offset_with_other_records() -> None:
    """inv:R1: two against one; of two the one that does not lead."""
    other = tuple(replace(each, crc=1) if each.base_offset == 95 else each for each in view(1).batches)
    found = diagnose(seen([view(1), view(2), view(3, batches=other)]))
    assert first(found) == (State.DEGRADED, CauseKind.DIVERGED_LOG, (3,))
    assert "different records at offset 95" in found.causes[0].evidence[0]
    two = diagnose(seen([view(1, links=(link(3),)), view(3, batches=other)]))
    assert two.causes[0].nodes == (3,)


def test_what_is_not_committed_may_differ() -> None:
    """inv:R1: a tail that will be cut is no divergence."""
    tail = (*view(1).batches, BatchDigest(base_offset=100, last_offset=104, epoch=6, crc=9))
    mine = (*view(1).batches, BatchDigest(base_offset=100, last_offset=104, epoch=7, crc=8))
    found = diagnose(
        seen([view(1, batches=mine, log_end_offset=105), view(2), view(3, batches=tail, log_end_offset=105)])
    )
    assert found.state is State.HEALTHY


def test_another_history_of_epochs() -> None:
    """inv:R1: an offset began another epoch."""
    other = (EpochStart(epoch=4, start_offset=0), EpochStart(epoch=6, start_offset=60))
    found = diagnose(seen([view(1), view(2), view(3, epoch_history=other, batches=())]))
    assert first(found) == (State.DEGRADED, CauseKind.DIVERGED_LOG, (3,))
    assert "offset 60 began epoch 7 on one and 6 on the other" in found.causes[0].evidence[0]


def test_two_processes_with_one_id() -> None:
    """S1-10: told apart by their directories."""
    twin = Seen(address="elsewhere:9093", view=view(2, directory_id=Uuid(b"another one 16 b")))
    found = diagnose([*seen([view(1), view(2), view(3)]), twin])
    assert CauseKind.TWO_NODES_ONE_ID in [each.kind for each in found.causes]


def test_a_quorum_that_nobody_founded() -> None:
    """S4-19: all were formatted to join."""
    views = [leaderless(number, voters=(), role="Unattached", epoch=0) for number in (1, 2)]
    assert first(diagnose(seen(views))) == (State.LEADERLESS, CauseKind.NOT_FOUNDED, (1, 2))


def test_elections_that_nobody_wins_name_who_could() -> None:
    """B-R06: only when nothing else explains it."""
    views = [leaderless(1, log_end_offset=90), leaderless(2, log_end_offset=95), leaderless(3)]
    found = diagnose(seen(views))
    assert first(found) == (State.LEADERLESS, CauseKind.ELECTIONS_FAIL, (1, 2, 3))
    assert "node 3 can" in found.causes[0].advice[0]


def test_a_kafka_that_leads_is_a_leader() -> None:
    """S4-51: it gives no view, but its describing the quorum says that it leads."""
    kafka = Seen(address="h1:9093", expected_id=1, leader_id=1, epoch=7, high_watermark=100)
    found = diagnose([kafka, *seen([view(2), view(3)])])
    assert found.state is State.HEALTHY
    assert found.summary.startswith("Node 1 leads epoch 7")
    assert found.story[-1] == "node 1 answers at h1:9093 and tells no more (not a Headrace node)"


def test_the_story_tells_who_voted_for_whom() -> None:
    """B-R05: candidates with their votes, voters with theirs."""
    views = [
        leaderless(1, role="Candidate", votes=(NodeVote(voter_id=1, is_granted=True), NodeVote(voter_id=3, is_granted=False))),
        leaderless(2, role="Unattached", voted_id=2),
        leaderless(3, role="Unattached", voted_id=1),
    ]  # fmt: skip
    story = diagnose(seen(views)).story
    assert "is Candidate in epoch 7, has the vote of node 1, was refused by node 3" in story[0]
    assert "voted for node 1" in story[2]


def test_words_for_readers() -> None:
    """S4-54: spans, sizes and lists."""
    assert [span(ms) for ms in (80, 3_200, 300_000, 7_200_000, -3_600_000)] == [
        "80 ms",
        "3.2 s",
        "5 min",
        "2 h",
        "60 min",
    ]
    assert [size_of(count) for count in (12, 2048, 3 << 20, 5 << 30)] == ["12 bytes", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [names(ids) for ids in ((), (4,), (3, 1), (1, 2, 3))] == [
        "no node",
        "node 4",
        "nodes 1 and 3",
        "nodes 1, 2 and 3",
    ]


def test_a_leader_that_only_the_voters_reach_leads() -> None:
    """S4-36: two of three are served by it; nothing is down but our way to it."""
    found = diagnose(seen([view(2), view(3)], down=(1,)))
    assert found.state is State.HEALTHY
    assert found.summary == "Node 1, which does not answer us, leads epoch 7. The quorum is healthy."


def test_voters_that_hang_are_not_said_to_be_down() -> None:
    """fault:S8: they take connections and say nothing."""
    silent = [Seen(address=f"h{number}:9093", expected_id=number, failure="timed out") for number in (1, 3)]
    alone = leaderless(2, links=(failing(1), failing(3)))
    found = diagnose([*seen([alone]), *silent])
    assert first(found) == (State.LEADERLESS, CauseKind.MAJORITY_DOWN, (1, 3))
    assert found.causes[0].headline == "2 of 3 voters do not answer (nodes 1 and 3); 2 are needed"
    assert "hang" in found.causes[0].advice[0]


def test_one_port_on_two_interfaces_is_no_wrong_listener() -> None:
    """S4-13: clients and controllers may share a port number on different addresses."""
    shared = (
        OwnEndPoint(name="CONTROLLER", host="inside", port=9093, is_for_controllers=True),
        OwnEndPoint(name="PLAINTEXT", host="outside", port=9093),
    )
    assert diagnose(seen([view(1, own_end_points=shared), view(2), view(3)])).state is State.HEALTHY


def test_a_candidate_of_a_higher_epoch_does_not_hide_the_leader() -> None:
    """B-R27: one node that raised its epoch alone; the others go on."""
    found = diagnose(seen([view(1), view(2), view(3, role="Candidate", epoch=12, leader_id=-1)]))
    assert "Node 1 leads epoch 7" in found.summary


def test_one_voter_is_spoken_of_as_one() -> None:
    """S4-36: the only voter hangs, or one of three is down."""
    observer = leaderless(2, links=(failing(1),), voters=voters(1))
    silent = diagnose([*seen([observer]), Seen(address="h1:9093", expected_id=1, failure="timed out")])
    assert silent.causes[0].headline == "1 of 1 voters does not answer (node 1); 1 is needed"
    assert silent.causes[0].advice[0].startswith("Look whether node 1 hangs, is paused or unplugged:")
    found = diagnose(seen([view(1, links=(link(2), failing(3, "REFUSED"))), view(2, links=(link(1),))], down=(3,)))
    assert found.causes[0].headline == "node 3 is down; the quorum goes on with 2 of 3"
    assert found.causes[0].advice[0] == "Start node 3, with the directory that it had; until then none more may fail."
