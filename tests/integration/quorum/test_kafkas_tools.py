"""Do Apache Kafka's own tools work on a quorum of ours: every sub-command of those that concern controllers?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.integration.quorum.conftest import NewCluster
from tests.peers import kafka
from tests.support.metadata_load import Changer, name_of, wait_until
from tests.support.quorum_judge import settle

pytestmark = pytest.mark.java

SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "2000"}


def run(tool: str, *arguments: str, code: int = 0) -> str:
    """What the tool prints; it must end with `code`."""
    done = kafka.run_tool(tool, *arguments)
    assert done.returncode == code, f"{tool} {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Iterator[Cluster]:
    """A dynamic quorum of two, an observer that may become a voter, and a broker."""
    made = new_cluster(controllers=2, brokers=1, dynamic=True, properties=SMALL_SNAPSHOTS)
    made.add(3)
    yield made.start()
    made.stop()


def bootstraps(cluster: Cluster) -> list[tuple[str, str]]:
    """Both ways to reach the cluster."""
    return [
        ("--bootstrap-server", cluster.bootstrap_servers),
        ("--bootstrap-controller", cluster.bootstrap_controllers),
    ]


def test_kafka_metadata_quorum(cluster: Cluster) -> None:
    """B-T06 B-T07 S4-54 B-R24 B-R25: describe in every form, add-controller and remove-controller, by broker and by controller."""
    settle(cluster)
    for where in bootstraps(cluster):
        status = run("kafka-metadata-quorum", *where, "describe", "--status")
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        assert fields["ClusterId"].strip() == cluster.cluster_id
        assert int(fields["LeaderId"]) == cluster.leader().node_id
        assert int(fields["LeaderEpoch"]) >= 1
        assert int(fields["HighWatermark"]) > 0
        assert {int(each) for each in re.findall(r'"id": (\d+)', fields["CurrentVoters"])} == {1, 2}
        assert {int(each) for each in re.findall(r'"id": (\d+)', fields["CurrentObservers"])} == {3, 101}
        for form in ((), ("--human-readable",)):
            table = run("kafka-metadata-quorum", *where, "describe", "--replication", *form)
            rows = {int(line.split()[0]): line.split()[-1] for line in table.splitlines()[1:] if line.strip()}
            leader = cluster.leader().node_id
            assert rows == {leader: "Leader", 3 - leader: "Follower", 3: "Observer", 101: "Observer"}
            assert cluster[2].directory_id in table
    where, newcomer = bootstraps(cluster)[1], cluster[3]
    config = ("--command-config", str(newcomer.config))
    for form in (("--dry-run",), ()):
        said = run("kafka-metadata-quorum", *where, *config, "add-controller", *form)
        assert newcomer.directory_id in said
    assert cluster.voter_ids() == {1, 2, 3}
    identity = ("--controller-id", "3", "--controller-directory-id", newcomer.directory_id)
    assert "DuplicateVoterException" in run("kafka-metadata-quorum", *where, *config, "add-controller", code=1)
    for form in (("--dry-run",), ()):
        run("kafka-metadata-quorum", *where, "remove-controller", *identity, *form)
    assert cluster.voter_ids() == {1, 2}
    said = run("kafka-metadata-quorum", *where, "remove-controller", *identity, code=1)
    assert "VoterNotFoundException" in said


def test_kafka_features(cluster: Cluster) -> None:
    """B-T08 B-C11: describe, upgrade, downgrade and disable, tried and done, by broker and by controller."""
    for where in bootstraps(cluster):
        table = run("kafka-features", *where, "describe")
        assert "metadata.version" in table
        assert "kraft.version" in table
        assert "FinalizedVersionLevel: 4.3-IV0" in table
        assert run("kafka-features", *where, "version-mapping", "--release-version", "4.3-IV0")
        assert run("kafka-features", *where, "feature-dependencies", "--feature", "kraft.version=1")
        for form in (("--dry-run",), ()):
            run("kafka-features", *where, "upgrade", "--feature", "metadata.version=30", *form)
            refused = run("kafka-features", *where, "upgrade", "--feature", "metadata.version=99", *form, code=1)
            assert "upgrade metadata.version to 99" in refused
            refused = run("kafka-features", *where, "downgrade", "--feature", "kraft.version=0", *form, code=1)
            assert "downgrade kraft.version to 0" in refused
            refused = run("kafka-features", *where, "downgrade", "--release-version", "4.2-IV1", *form, code=1)
            assert "metadata.version" in refused
            run("kafka-features", *where, "disable", "--feature", "metadata.version", *form, code=1)
    assert "4.3-IV0" in run("kafka-features", *bootstraps(cluster)[1], "describe")


def test_kafkas_tools_for_the_disk(cluster: Cluster, tmp_path: Path) -> None:
    """B-T02 B-T03 B-T04 B-T09 B-T10: kafka-storage, kafka-metadata-shell and kafka-dump-log on what our controllers wrote."""
    with closing(Changer(cluster)) as changer:
        for _ in range(60):
            changer.change()
        number = changer.acknowledged[0]
    leader = cluster.leader()
    wait_until(lambda: newest_snapshot(leader) is not None)
    settle(cluster)
    cluster.stop()
    snapshot = newest_snapshot(leader)
    assert snapshot is not None
    storage_commands(leader, tmp_path)
    shell_commands(str(snapshot), number)
    dump_commands(leader, snapshot)


def newest_snapshot(member: Member) -> Path | None:
    """The newest snapshot but the first one of a dynamic quorum."""
    found = sorted(member.metadata_log.glob("*.checkpoint"))
    return found[-1] if found and not found[-1].name.startswith("0" * 20) else None


def storage_commands(member: Member, tmp_path: Path) -> None:
    """Every sub-command of kafka-storage; a directory that it formats is one of ours from then on."""
    config = str(member.config)
    said = run("kafka-storage", "info", "-c", config)
    assert "Found log directory" in said
    assert member.directory_id in said
    identity = member.data.joinpath("meta.properties").read_text()
    cluster_id = next(line for line in identity.splitlines() if line.startswith("cluster.id=")).partition("=")[2]
    founds = ("--no-initial-controllers",)
    assert "already formatted" in run("kafka-storage", "format", "-t", cluster_id, "-c", config, *founds, code=1)
    assert "already formatted" in run(
        "kafka-storage", "format", "-t", cluster_id, "-c", config, "--ignore-formatted", *founds
    )
    fresh = tmp_path / "fresh.properties"
    fresh.write_text(member.config.read_text().replace(str(member.data), str(tmp_path / "fresh")))
    run("kafka-storage", "format", "-t", cluster_id, "-c", str(fresh), *founds)
    assert len(run("kafka-storage", "random-uuid").strip()) == 22
    assert "metadata.version=30" in run("kafka-storage", "version-mapping", "-r", "4.3-IV0")
    assert run("kafka-storage", "feature-dependencies", "-f", "kraft.version=1")


def shell_commands(snapshot: str, number: int) -> None:
    """Every command of kafka-metadata-shell, in one session; `number` is of a change that the snapshot holds."""
    resource = f"CLIENT_METRICS:{name_of(number)}"
    expected = {
        "ls /": "image",
        "cat /image/features/metadataVersion": "4.3-IV0",
        "find /image/configs": resource,
        "tree /image/configs": resource,
        f"cat /image/configs/{resource}/interval.ms": str(1_000 + number),
        "pwd": "/",
        "help": "",
        "man ls": "ls",
        "history": "tree /image/configs",
        "cd /image": "",
        "exit": "",
    }
    typed = "".join(f"{command}\n" for command in expected)

    def all_is_said() -> bool:
        """The shell sometimes begins before it has read everything."""
        done = kafka.run_tool("kafka-metadata-shell", "--snapshot", snapshot, stdin=typed, check=True)
        _, *said = done.stdout.split(">> ")
        return len(said) == len(expected) and all(
            each in told for each, told in zip(expected.values(), said, strict=True)
        )

    assert any(all_is_said() for _ in range(5))
    one = ("--snapshot", snapshot, "cat", "/image/features/metadataVersion")
    assert any("4.3-IV0" in run("kafka-metadata-shell", *one) for _ in range(5))


def dump_commands(member: Member, snapshot: Path) -> None:
    """kafka-dump-log over log and snapshot, in every form that concerns them."""
    log = sorted(member.metadata_log.glob("*.log"))[0]
    short = run("kafka-dump-log", "--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(log))
    assert '"type":"CONFIG_RECORD"' in short
    decoded = run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log))
    assert "LeaderChange" in decoded
    content = run("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(snapshot))
    for expected in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "REGISTER_CONTROLLER_RECORD", "SnapshotFooter"):
        assert expected in content
    for option in ("--print-data-log", "--deep-iteration"):
        assert "isvalid: true" in run("kafka-dump-log", option, "--files", str(log))
    index = log.with_suffix(".index")
    for option in ("--index-sanity-check", "--verify-index-only"):
        run("kafka-dump-log", option, "--files", str(index))
    assert "isvalid: false" not in decoded + content
