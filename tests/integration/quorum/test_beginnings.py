"""When does a quorum of real processes begin, when not, and is it never begun twice?"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from headrace.records.record import read_all_records
from headrace.testing.member import Member
from headrace.wire.metadata_records.frame import decode_record_with_version
from tests.integration.quorum.conftest import NewCluster
from tests.support.metadata_disk import MetadataDisk
from tests.support.metadata_load import Changer, wait_until
from tests.support.quorum_judge import judge

FEW_ELECTIONS = 30
BEGIN_TRANSACTION = 23


def epoch_on_disk(member: Member) -> int:
    """The epoch in `quorum-state`; 0 before there is one."""
    path: Path = member.metadata_log / "quorum-state"
    return int(json.loads(path.read_text())["leaderEpoch"]) if path.exists() else 0


def beginnings(disk: MetadataDisk) -> int:
    """How often the first records of a cluster were written."""
    return sum(
        decode_record_with_version(record.value or b"")[0].SCHEMA.api_key == BEGIN_TRANSACTION
        for data in disk.batches.values()
        for header, records in read_all_records(data)
        if not header.is_control
        for record in records
    )


def assert_nobody_leads(cluster_members: list[Member], attempts: Changer) -> None:
    """For some seconds no change is taken, and no epoch grows but by a few."""
    before = [epoch_on_disk(each) for each in cluster_members]
    assert [attempts.attempt(timeout_s=0.3) for _ in range(12)] == [None] * 12
    after = [epoch_on_disk(each) for each in cluster_members]
    assert all(late - early <= FEW_ELECTIONS for early, late in zip(before, after, strict=True))
    assert all(each.is_running for each in cluster_members)


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_of_three_waits_and_two_begin(new_cluster: NewCluster, dynamic: bool) -> None:
    """S4-35 S4-24 S4-36: a minority stays up without a leader, whatever it cannot reach, and a majority begins."""
    cluster = new_cluster(controllers=3, dynamic=dynamic)
    cluster.launch(1)
    with closing(Changer(cluster)) as changer:
        wait_until(cluster[1].is_listening)
        assert_nobody_leads([cluster[1]], changer)
        cluster.launch(2)
        changer.change()
        cluster.launch(3)
        judge(cluster, changer.acknowledged)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_cluster_is_founded_once(new_cluster: NewCluster, dynamic: bool) -> None:
    """S4-40 S4-11: starting again with the same list goes on with the log that is there."""
    cluster = new_cluster(controllers=3, dynamic=dynamic).start()
    with closing(Changer(cluster)) as changer:
        epochs = []
        for _ in range(3):
            changer.change()
            view = cluster.quorum()
            epochs.append((view.leader_epoch, view.high_watermark))
            cluster.stop()
            cluster.start()
        changer.change()
        disks = judge(cluster, changer.acknowledged)
    assert epochs == sorted(set(epochs))
    assert {beginnings(disk) for disk in disks.values()} == {1}


def test_a_joiner_without_a_quorum_keeps_asking(new_cluster: NewCluster) -> None:
    """S4-24 S4-30 S4-34: none of its bootstrap addresses answers; once one does, it follows."""
    cluster = new_cluster(controllers=1, dynamic=True)
    cluster.add(2)
    cluster.format()
    cluster.launch(2)
    with closing(Changer(cluster)) as changer:
        wait_until(cluster[2].is_listening)
        assert_nobody_leads([cluster[2]], changer)
        cluster.launch(1)
        changer.change()
        wait_until(lambda: 2 in {each.replica_id for each in cluster.quorum().observers})
        judge(cluster, changer.acknowledged)
