"""Are directories formatted as kafka-storage does it, and is every wrong directory refused with what to change?"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError, StorageFault
from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.node.directories import are_unformatted, check_directories
from headrace.raft.snapshots import BOOTSTRAP_ID, build_snapshot, read_snapshot
from headrace.raft.voters import VoterEndPoint
from headrace.server.formatting import (
    FormatOrder,
    finalised_levels,
    format_directories,
    parse_initial_controllers,
    random_cluster_id,
)
from headrace.storage.os_files import OsFiles
from headrace.storage.snapshot_files import SnapshotFiles, write_bootstrap_checkpoint
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
OTHER = "AWGKR8QPSjWFKZeEo4mP3A"
DATE = "Sat Nov 21 13:25:21 UTC 2026"
FILES = OsFiles()


def node(tmp_path: Path, *directories: str, **changes: str) -> NodeConfig:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": ",".join(str(tmp_path / one) for one in directories or ("data",)),
        **{name.replace("__", "."): text for name, text in changes.items()},
    }
    return parse_node_config({name: text for name, text in settings.items() if text != "-"})


def dynamic(tmp_path: Path, **changes: str) -> NodeConfig:
    return node(
        tmp_path, controller__quorum__voters="-", controller__quorum__bootstrap__servers="127.0.0.1:9093", **changes
    )


def do_format(config: NodeConfig, order: FormatOrder | None = None) -> list[str]:
    told = order or FormatOrder(cluster_id=CLUSTER)
    return format_directories(config, told, files=FILES, rng=random.Random(7), date=DATE)


def test_every_directory_gets_the_identity_and_the_first_records(tmp_path: Path) -> None:
    """S1-01, B-T03, B-S10: meta.properties and bootstrap.checkpoint in each; metadata.version 30 and the features that are built, at Kafka's defaults."""
    config = node(tmp_path, "a", "b")
    assert are_unformatted(config, FILES)
    lines = do_format(config)
    assert lines[0].startswith(
        "Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(FeatureLevelRecord("
    )
    assert lines[1:] == [
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0.",
    ]
    assert not are_unformatted(config, FILES)
    found = check_directories(config, FILES)
    assert found.cluster_id == CLUSTER
    assert len(set(found.directory_ids.values())) == 2
    for name in ("a", "b"):
        text = (tmp_path / name / "meta.properties").read_text().splitlines()
        assert text[:3] == ["#", f"#{DATE}", "node.id=1"]
        assert text[3].startswith("directory.id=")
        assert text[4:] == ["version=1", f"cluster.id={CLUSTER}"]
        snapshot = read_snapshot((tmp_path / name / "bootstrap.checkpoint").read_bytes(), name="b")
        assert [each.record for each in read_bootstrap_records(snapshot.records)] == [
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        ]


@pytest.mark.parametrize(
    ("order", "level"),
    [
        (FormatOrder(cluster_id=CLUSTER), 1),
        (FormatOrder(cluster_id=CLUSTER, features={"eligible.leader.replicas.version": 0}), 0),
        (FormatOrder(cluster_id=CLUSTER, metadata_version=25), 0),
        (FormatOrder(cluster_id=CLUSTER, metadata_version=25, features={"eligible.leader.replicas.version": 1}), 1),
        (FormatOrder(cluster_id=CLUSTER, metadata_version=26), 1),
    ],
)
def test_eligible_leader_replicas_are_on_unless_told_or_too_new(tmp_path: Path, order: FormatOrder, level: int) -> None:
    """B-T03, B-C31: as in Kafka 4.3.1, by default from 4.1-IV0 on, and possible from 4.0-IV1 on."""
    assert finalised_levels(node(tmp_path), order)["eligible.leader.replicas.version"] == level
    too_old = FormatOrder(cluster_id=CLUSTER, metadata_version=22, features={"eligible.leader.replicas.version": 1})
    with pytest.raises(OperatorError, match=r"requires metadata\.version=23"):
        finalised_levels(node(tmp_path), too_old)


def test_formatted_directories_are_refused_unless_told_to_ignore_them(tmp_path: Path) -> None:
    """B-T03: without -g nothing is written; with -g only the new ones are."""
    do_format(node(tmp_path, "a"))
    both = node(tmp_path, "a", "b")
    with pytest.raises(OperatorError, match=r"Log directory .*/a is already formatted\. Use --ignore-formatted"):
        do_format(both)
    assert not (tmp_path / "b").exists()
    before = (tmp_path / "a/meta.properties").read_bytes()
    assert do_format(both, FormatOrder(cluster_id=CLUSTER, ignores_formatted=True))[1:] == [
        f"Formatting data directory {tmp_path}/b with metadata.version 4.3-IV0."
    ]
    assert (tmp_path / "a/meta.properties").read_bytes() == before
    again = do_format(both, FormatOrder(cluster_id=CLUSTER, ignores_formatted=True))
    assert again == ["All of the log directories are already formatted."]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (FormatOrder(cluster_id=OTHER, ignores_formatted=True), "Invalid cluster.id in: .*Expected .*, but read"),
        (
            FormatOrder(cluster_id=CLUSTER, features={"group.version": 1}),
            r"group\.version=1 is not supported here: use -f",
        ),
        (
            FormatOrder(cluster_id=CLUSTER, features={"group.version": 2}),
            "No feature:group.version with feature level 2",
        ),
        (FormatOrder(cluster_id=CLUSTER, features={"foo": 1}), "Unsupported feature: foo. Supported features are: "),
        (FormatOrder(cluster_id=CLUSTER, features={"metadata.version": 31}), "--release-version instead of --feature"),
        (FormatOrder(cluster_id=CLUSTER, is_standalone=True), "You cannot specify controller.quorum.voters"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    tmp_path: Path, order: FormatOrder, said: str
) -> None:
    """B-T03: a feature whose behaviour is not built is level 0 only."""
    do_format(node(tmp_path, "a"))
    with pytest.raises(OperatorError, match=said):
        do_format(node(tmp_path, "a", "b"), order)
    assert not (tmp_path / "b").exists()


def test_a_dynamic_controller_must_say_who_founds_the_quorum(tmp_path: Path) -> None:
    """B-T03: one of -s, -N, -I."""
    with pytest.raises(OperatorError, match="you must specify one of the following: --standalone"):
        do_format(dynamic(tmp_path))
    with pytest.raises(OperatorError, match=r"Cannot set kraft\.version to 0"):
        do_format(dynamic(tmp_path), FormatOrder(cluster_id=CLUSTER, is_standalone=True, features={"kraft.version": 0}))


def test_standalone_founds_a_quorum_of_one(tmp_path: Path) -> None:
    """B-T03, B-S10, KIP-853: the 0-0 snapshot names this directory as the only voter."""
    config = dynamic(tmp_path)
    lines = do_format(config, FormatOrder(cluster_id=CLUSTER, is_standalone=True))
    assert lines[1] == f"Formatting dynamic metadata voter directory {tmp_path}/data with metadata.version 4.3-IV0."
    data = SnapshotFiles(FILES, f"{tmp_path}/data/__cluster_metadata-0").read(OffsetAndEpoch(0, 0))
    assert data is not None
    voters = read_snapshot(data, name="0-0").voters
    assert voters is not None
    (voter,) = voters.voters
    assert voter.directory_id == check_directories(config, FILES).directory_ids[f"{tmp_path}/data"]
    assert voter.end_points == (VoterEndPoint("CONTROLLER", "127.0.0.1", 9093),)


def test_initial_controllers_give_the_directory_its_id(tmp_path: Path) -> None:
    """B-T03: the id of the own entry becomes directory.id; -N writes no voters."""
    text = "1@127.0.0.1:9093:13TEXF-NLW1mJ6i7eFcrTA,2@[::1]:9094:cOL135abTuiJ-uRbXSxFKA"
    config = dynamic(tmp_path)
    do_format(config, FormatOrder(cluster_id=CLUSTER, initial_controllers=parse_initial_controllers(text)))
    ids = check_directories(config, FILES).directory_ids
    assert ids == {f"{tmp_path}/data": Uuid.parse("13TEXF-NLW1mJ6i7eFcrTA")}
    other = dynamic(tmp_path, log__dirs=str(tmp_path / "n"))
    do_format(other, FormatOrder(cluster_id=CLUSTER, has_no_initial_controllers=True))
    assert not (tmp_path / "n/__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    "text",
    ["1@h:1", "1@h:x:13TEXF-NLW1mJ6i7eFcrTA", "h:1:13TEXF-NLW1mJ6i7eFcrTA", "1@h:1:short", "x@h:1:13TEXF-NLW1mJ6i7eFcrTA",
     "1@h:1:13TEXF-NLW1mJ6i7eFcrTA,1@g:1:cOL135abTuiJ-uRbXSxFKA", "1@h:1:13TEXF-NLW1mJ6i7eFcrTA,2@g:1:13TEXF-NLW1mJ6i7eFcrTA"],
)  # fmt: skip
def test_bad_initial_controllers(text: str) -> None:
    """B-T03: one line that says how to write it."""
    with pytest.raises(OperatorError, match="--initial-controllers"):
        parse_initial_controllers(text)


def test_random_ids_are_valid_and_differ() -> None:
    """S1-02, S1-04: 22 characters, not reserved, not beginning with a dash."""
    rng = random.Random(3)
    made = [random_cluster_id(rng) for _ in range(500)]
    assert len(set(made)) == 500
    assert all(str(Uuid.parse(one)) == one and not one.startswith("-") for one in made)


META = f"version=1\nnode.id=1\ncluster.id={CLUSTER}\n"
CONTENTS: dict[str, tuple[str, bytes | None]] = {
    "missing": ("meta.properties", None),
    "empty": ("meta.properties", b""),
    "newer version": ("meta.properties", META.replace("version=1", "version=2").encode()),
    "zookeeper": ("meta.properties", b"version=0\nbroker.id=1\n"),
    "half written": ("meta.properties", b"version=1\nnode.id=1\n"),
    "other node": ("meta.properties", META.replace("node.id=1", "node.id=7").encode()),
    "not text": ("meta.properties", b"\xff\xfe\x00\x01"),
    "bad id": ("meta.properties", f"{META}directory.id=xyz\n".encode()),
    "reserved id": ("meta.properties", f"{META}directory.id={'A' * 22}\n".encode()),
    "empty bootstrap": ("bootstrap.checkpoint", b""),
    "torn bootstrap": ("bootstrap.checkpoint", b"\0" * 100),
}
"""Faults of B76: a file, and what it holds; None takes it away."""


def damage(data: Path, kind: str) -> None:
    name, content = CONTENTS[kind]
    if content is None:
        (data / name).unlink()
    else:
        (data / name).write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "is not formatted .*headrace storage format -c .*, or correct log.dirs"),
        ("empty", "meta.properties"),
        ("newer version", "version '2' is not known; expected 0 or 1"),
        ("zookeeper", "is of a ZooKeeper cluster"),
        ("half written", r"is half written \(cluster\.id missing\)"),
        ("other node", r"belongs to node 7, the configuration says node\.id=1"),
        ("not text", "meta.properties"),
        ("bad id", "directory.id"),
        ("reserved id", "is reserved"),
        ("empty bootstrap", "bootstrap.checkpoint is empty"),
        ("torn bootstrap", "bootstrap.checkpoint"),
    ],
)
def test_a_wrong_directory_is_refused_in_one_line(tmp_path: Path, kind: str, said: str) -> None:
    """B-K06, fault:D9, input:B76, input:B77: whose directory it is must be beyond doubt."""
    config = node(tmp_path)
    do_format(config)
    damage(tmp_path / "data", kind)
    with pytest.raises((OperatorError, StorageFault), match=said) as refused:
        check_directories(config, FILES)
    assert "\n" not in str(refused.value)


def test_directories_that_disagree_are_refused(tmp_path: Path) -> None:
    """B-K06, input:B76: a directory beside a formatted one, another cluster's, a copied one, a file, one that is not there."""
    do_format(node(tmp_path, "first"))
    with pytest.raises(OperatorError, match=f"format --ignore-formatted -c .* -t {CLUSTER}`, or"):
        check_directories(node(tmp_path, "first", "second"), FILES)
    do_format(node(tmp_path, "a"))
    do_format(node(tmp_path, "b"), FormatOrder(cluster_id=OTHER))
    with pytest.raises(OperatorError, match="belong to different clusters"):
        check_directories(node(tmp_path, "a", "b"), FILES)
    (tmp_path / "c").mkdir()
    (tmp_path / "c/meta.properties").write_bytes((tmp_path / "a/meta.properties").read_bytes())
    with pytest.raises(OperatorError, match="one is a copy"):
        check_directories(node(tmp_path, "a", "c"), FILES)
    (tmp_path / "f").write_text("")
    with pytest.raises(OperatorError, match="cannot be read as a log directory"):
        check_directories(node(tmp_path, "a", "f"), FILES)
    with pytest.raises(OperatorError, match=rf"none does not exist: .*-t {CLUSTER}`, or correct log.dirs$"):
        check_directories(node(tmp_path, "a", "none"), FILES)


def test_a_directory_of_a_cluster_with_more_features_is_refused(tmp_path: Path) -> None:
    """B-U03: with the command that lowers them."""
    config = node(tmp_path)
    do_format(config)
    records = bootstrap_records(metadata_version=30, features={"group.version": 1, "share.version": 1})
    batches = build_snapshot(records, snapshot_id=BOOTSTRAP_ID, last_contained_log_timestamp=0, now_ms=0)
    write_bootstrap_checkpoint(FILES, str(tmp_path / "data"), batches)
    with pytest.raises(
        OperatorError, match=r"group\.version=1, share\.version=1, .*--feature group\.version=0"
    ) as refused:
        check_directories(config, FILES)
    assert "-f group.version=0 -f share.version=0" in str(refused.value)
