"""Random faults against a small raft cluster, with the promises checked after each step."""

from __future__ import annotations

import random

from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.events import ResignRequested, ShutdownBegan, SnapshotCreated
from headrace.raft.snapshots import build_snapshot
from tests.support.raft_cluster import RaftCluster, add_voter, remove_voter

_KINDS = (
    *("offer",) * 3,
    *("start", "heal") * 2,
    *("crash", "isolate", "cut", "loss", "snapshot", "resign", "leave"),
)


class Chaos:
    """Does one random thing after another to a cluster."""

    def __init__(self, cluster: RaftCluster, seed: int, *, changes_voters: bool = False) -> None:
        self.cluster = cluster
        self._kinds = (*_KINDS, "voters", "voters") if changes_voters else _KINDS
        self.rng = random.Random(seed)
        self.acknowledged: dict[int, bytes] = {}
        self._serial = 0
        self._up: list[int] = []
        self._down: list[int] = []

    def run(self, steps: int) -> None:
        """So many random things, with some time after each."""
        for _ in range(steps):
            self.one()
            self.cluster.run_for(self.rng.choice((0, 5, 20, 100, 500, 3_000)))
            self.note()

    def one(self) -> None:
        """One random thing."""
        members = self.cluster.members
        self._up = [each for each, member in members.items() if member.node is not None]
        self._down = [each for each, member in members.items() if member.node is None]
        getattr(self, f"_{self.rng.choice(self._kinds)}")()

    def _offer(self) -> None:
        for leader in self.cluster.leaders():
            self._serial += 1
            self.cluster.offer(leader, *(b"%d" % self._serial for _ in range(self.rng.randint(1, 3))))

    def _crash(self) -> None:
        if self._up:
            self.cluster.stop(self.rng.choice(self._up), is_lossy=self.rng.random() < 0.6)

    def _start(self) -> None:
        if self._down:
            self.cluster.start(self.rng.choice(self._down))

    def _isolate(self) -> None:
        self.cluster.isolate(self.rng.choice(list(self.cluster.members)))

    def _cut(self) -> None:
        ids = list(self.cluster.members)
        for _ in range(self.rng.randint(1, 3)):
            source, target = self.rng.sample(ids, 2)
            self.cluster.cut.add((source, target))

    def _heal(self) -> None:
        self.cluster.heal()
        self.cluster.loss = 0.0

    def _loss(self) -> None:
        self.cluster.loss = self.rng.choice((0.0, 0.05, 0.3))

    def _snapshot(self) -> None:
        if self._up:
            self.snapshot(self.rng.choice(self._up))

    def _resign(self) -> None:
        for leader in self.cluster.leaders():
            node = self.cluster.members[leader].raft
            self.cluster.step(leader, ResignRequested(epoch=node.epoch, now_ms=self.cluster.now_ms))

    def _leave(self) -> None:
        if self._up and self.rng.random() < 0.5:
            node_id = self.rng.choice(self._up)
            self.cluster.step(node_id, ShutdownBegan(now_ms=self.cluster.now_ms))
            self.cluster.run_for(50)
            self.cluster.stop(node_id)

    def _voters(self) -> None:
        """Somebody wants a voter added or removed."""
        cluster, rng = self.cluster, self.rng
        for leader in cluster.leaders():
            voters = cluster.members[leader].raft.voters
            others = [each for each in cluster.members if voters.find(each) is None]
            if others and rng.random() < 0.6:
                joining = cluster.members[rng.choice(others)].config
                cluster.ask(leader, add_voter(joining, timeout_ms=rng.choice((50, 5_000))))
            elif len(voters.ids) > 1:
                cluster.ask(leader, remove_voter(rng.choice(voters.ids)))

    def snapshot(self, node_id: int) -> None:
        """The node writes a snapshot of what it has committed."""
        cluster = self.cluster
        member = cluster.members[node_id]
        ends = {end: epoch for _, end, epoch, _ in member.log.batches if end <= member.committed}
        if not ends:
            return
        end = max(ends)
        snapshot_id = OffsetAndEpoch(end, ends[end])
        voters = member.raft.voters_at(end)
        batches = build_snapshot(
            (b"image",), snapshot_id=snapshot_id, last_contained_log_timestamp=1, now_ms=cluster.now_ms, voters=voters
        )
        if snapshot_id not in member.snapshots.files:
            member.snapshots.put(snapshot_id, b"".join(bytes(each) for each in batches), mtime_ms=cluster.now_ms)
            cluster.step(node_id, SnapshotCreated(end_offset=end, epoch=ends[end], now_ms=cluster.now_ms))

    def note(self) -> None:
        """R8: what anybody committed once is committed for ever."""
        for member in self.cluster.members.values():
            if member.node is None:
                continue
            for base, end, _, data in member.log.batches:
                if end <= member.committed:
                    known = self.acknowledged.setdefault(base, data)
                    assert known == data, f"two histories at offset {base} (R8): {self.cluster.shown()}"

    def settle(self) -> None:
        """Everything works again: a leader, and everybody has all that was ever committed."""
        cluster = self.cluster
        cluster.heal()
        cluster.loss = 0.0
        for node_id, member in cluster.members.items():
            if member.node is None:
                cluster.start(node_id)
        newest = max(self.acknowledged, default=0)
        for _ in range(10):
            if self._is_settled():
                break
        else:
            raise AssertionError(f"no leader stays: {cluster.shown()}")
        assert all(member.committed > newest for member in cluster.members.values())

    def _is_settled(self) -> bool:
        """One more record reached everybody, with one leader all the while."""
        cluster = self.cluster
        cluster.run_for(1_000)
        leader = cluster.elect(within_ms=60_000)
        end = cluster.offer(leader, b"last")
        cluster.run_until(
            lambda: (
                all(member.committed >= end for member in cluster.members.values()) or cluster.leaders() != [leader]
            ),
            within_ms=60_000,
        )
        self.note()
        return cluster.leaders() == [leader] and all(member.committed >= end for member in cluster.members.values())
