"""Forged packets to three real controllers: none of them ends the quorum, also not after a restart of all (promise PR8)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from headrace.core.ids import Uuid
from headrace.testing.cluster import Cluster
from tests.support.forged_packets import FORGERIES
from tests.support.raw import RawConnection

QUICK = {"controller.quorum.fetch.timeout.ms": "1000", "controller.quorum.election.timeout.ms": "500"}
PATIENCE_S = 60.0
"""Far above what an election takes (a second or two), for a machine that does much else."""

VERSIONS = {"vote": 2, "pre-vote": 2, "begin": 1, "end": 1, "fetch": 17, "fetch snapshot": 1, "add": 1, "update": 0}


@pytest.fixture(scope="module", params=["static", "dynamic"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three controllers as processes of their own."""
    with Cluster(controllers=3, dynamic=request.param == "dynamic", properties=QUICK) as running:
        running.leader()
        yield running


def must_commit(cluster: Cluster) -> int:
    """The quorum has a leader, and what that writes is committed; its epoch."""
    deadline = time.monotonic() + PATIENCE_S
    before: tuple[int, int] | None = None
    while True:
        now = cluster.quorum()
        if before is not None and now.leader_epoch == before[0] and now.high_watermark > before[1] >= 0:
            return int(now.leader_epoch)
        if before is None or now.leader_epoch != before[0] or before[1] < 0:
            before = (now.leader_epoch, now.high_watermark)
        assert time.monotonic() < deadline, now
        time.sleep(0.1)  # a leader writes at least twice a second (metadata.max.idle.interval.ms)


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_packet_that_claims_a_late_epoch_ends_no_quorum(cluster: Cluster, kind: str) -> None:
    """promise:PR8, B-R20: sent to each controller, with the id and directory of a voter, and with those of nobody."""
    before = must_commit(cluster)
    voter = cluster.controllers[0]
    senders = [(voter.node_id, Uuid.parse(voter.directory_id)), (9, Uuid(bytes(15) + b"\x09"))]
    for epoch in (1 << 30, (1 << 31) - 1, before + 1):
        for member in cluster.controllers:
            with RawConnection(member.controller_port) as connection:
                for sender, directory_id in senders:
                    connection.ask(FORGERIES[kind](sender, directory_id, epoch), VERSIONS[kind])
    after = must_commit(cluster)
    assert before <= after < before + 100
    assert all(member.is_running for member in cluster.controllers)


def test_the_quorum_forms_again_after_a_restart_of_all(cluster: Cluster) -> None:
    """promise:PR8: what the packets left on the disks of the controllers is no hindrance."""
    before = must_commit(cluster)
    cluster.stop(*(member.node_id for member in cluster.controllers))
    cluster.start(*(member.node_id for member in cluster.controllers))
    assert before <= must_commit(cluster) < before + 100
