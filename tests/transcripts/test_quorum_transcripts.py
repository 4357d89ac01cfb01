"""Several raft nodes, as text: who asked whom, who became what, and when.

Commands: `static ID...`, `dynamic ID... [observers=ID,...]`, `run MS`, `offer WORD...` (by whoever leads), `kill ID|leader`, `start ID`,
`leave ID|leader` (a clean stop), `isolate ID|leader`, `heal`, `add ID`, `remove ID|leader`, `state`. Output: each change of role, each vote that is asked for,
each change of voters, and what tools are answered; `at` is virtual ms since the beginning.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.error_code import ErrorCode
from headrace.raft.events import RaftEvent, ShutdownBegan
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Role, Unattached
from tests.support.raft_cluster import RaftCluster, add_voter, dynamic_cluster, remove_voter, static_cluster
from tests.transcripts.runner import play, transcripts, words

BEGAN_MS = 1_000


class ToldCluster(RaftCluster):
    """A cluster that notes what changes."""

    told: list[str]

    def step(self, node_id: int, event: RaftEvent) -> None:
        """One event; a change of role or voters is told."""
        node = self.members[node_id].raft
        role, voters = node.role, node.voters.ids
        super().step(node_id, event)
        if _name(node.role) != _name(role):
            self.tell(f"{node_id} is {_name(node.role)}")
        if node.voters.ids != voters:
            self.tell(f"{node_id} knows the voters {' '.join(map(str, node.voters.ids))}")

    def tell(self, what: str) -> None:
        """One line."""
        self.told.append(f"  {self.now_ms - BEGAN_MS:>6} {what}")


def _name(role: Role) -> str:
    match role:
        case Follower():
            return f"follower of {role.leader_id} in epoch {role.epoch}"
        case Prospective():
            return f"prospective in epoch {role.epoch}"
        case Candidate():
            return f"candidate of epoch {role.epoch}"
        case Leader():
            return f"leader of epoch {role.epoch}{', claimed' if role.is_claimed else ''}"
        case Unattached():
            voted = f", voted for {role.voted_id}" if role.voted_id >= 0 else ""
            return f"unattached in epoch {role.epoch}{voted}"
        case _:
            return f"resigned from epoch {role.epoch}"


class QuorumTranscript:
    """The cluster, driven by commands."""

    def __init__(self) -> None:
        self._cluster: RaftCluster | None = None
        self._told: list[str] = []

    @property
    def cluster(self) -> RaftCluster:
        """The cluster, once it was made."""
        assert self._cluster is not None, "begin with static or dynamic"
        return self._cluster

    def run(self, command: str) -> list[str]:
        """What one command made happen."""
        self._told.clear()
        name, plain, options = words(command)
        getattr(self, f"do_{name}")(*plain, **options)
        return list(self._told)

    def _take(self, cluster: RaftCluster) -> None:
        told = self._told

        class Told(ToldCluster):
            pass

        cluster.__class__ = Told
        Told.told = told
        self._cluster = cluster

    def do_static(self, *node_ids: str) -> None:
        self._take(static_cluster(*map(int, node_ids)))

    def do_dynamic(self, *node_ids: str, observers: str = "") -> None:
        others = tuple(int(each) for each in observers.split(",") if each)
        self._take(dynamic_cluster(*map(int, node_ids), observers=others))

    def do_run(self, ms: str) -> None:
        self.cluster.run_for(int(ms))

    def do_offer(self, *records: str) -> None:
        [leader] = self.cluster.leaders()
        self.cluster.offer(leader, *(record.encode() for record in records))

    def do_kill(self, who: str) -> None:
        self.cluster.stop(self._id(who))

    def do_start(self, who: str) -> None:
        self.cluster.start(self._id(who))

    def do_leave(self, who: str) -> None:
        self.cluster.step(self._id(who), ShutdownBegan(now_ms=self.cluster.now_ms))

    def do_isolate(self, who: str) -> None:
        self.cluster.isolate(self._id(who))

    def do_heal(self) -> None:
        self.cluster.heal()

    def do_add(self, who: str) -> None:
        self._change(add_voter(self.cluster.members[int(who)].config))

    def do_remove(self, who: str) -> None:
        self._change(remove_voter(self._id(who)))

    def do_state(self) -> None:
        for node_id, member in self.cluster.members.items():
            end = f"log end {member.log.log_end_offset}, committed {member.committed}"
            self._told.append(f"  {node_id}: {'down' if member.node is None else _name(member.node.role)}; {end}")

    def _change(self, request: object) -> None:
        [leader] = self.cluster.leaders()
        answer = self.cluster.answer(leader, request)
        self._told.append(f"  answer: {ErrorCode(answer.error_code).name}")

    def _id(self, who: str) -> int:
        return self.cluster.leaders()[0] if who == "leader" else int(who)


@pytest.mark.parametrize("path", transcripts("quorum"), ids=lambda path: path.stem)
def test_quorum_transcript(path: Path) -> None:
    """The file's first line is the rule; B-R02, B-R05, B-R08, B-R16, B-R24, B-R25, B-R27 as stories."""
    play(path, QuorumTranscript().run)
