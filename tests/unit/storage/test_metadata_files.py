"""meta.properties, snapshots and quorum-state on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import OperatorError, StorageFault
from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.storage.meta_properties import (
    MetaProperties,
    parse_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from headrace.storage.os_files import OsFiles
from headrace.storage.snapshot_files import (
    SnapshotFiles,
    parse_snapshot_name,
    read_bootstrap_checkpoint,
    read_quorum_state,
    read_synced_offset,
    snapshot_file_name,
    write_bootstrap_checkpoint,
    write_quorum_state,
    write_synced_offset,
    write_zero_checkpoint,
)

SEED = """#
#Tue Oct 01 18:19:31 UTC 2019
version=1
cluster.id=vPeOCWypqUOSepEvx0cbog
broker.id=0
"""


def test_the_seeds_sample_is_read() -> None:
    """S1-01, S1-02: `broker.id` is the node's id; the cluster id is a uuid of 22 characters."""
    found = parse_meta_properties(SEED, path="p")
    assert found == MetaProperties(cluster_id="vPeOCWypqUOSepEvx0cbog", node_id=0)
    assert str(Uuid.parse("vPeOCWypqUOSepEvx0cbog")) == found.cluster_id


def test_properties_survive(tmp_path: Path) -> None:
    """S1-01: written, read back, replaced; no file means not formatted."""
    files = OsFiles()
    assert read_meta_properties(files, str(tmp_path)) is None
    for node_id in (1, 2):
        properties = MetaProperties(cluster_id="c", node_id=node_id, directory_id=Uuid(b"d" * 16))
        write_meta_properties(files, str(tmp_path), properties, date="today")
        assert read_meta_properties(files, str(tmp_path)) == properties
    assert sorted(each.name for each in tmp_path.iterdir()) == ["meta.properties"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "version is missing"),
        ("version=2\nnode.id=1\n", "version '2' is not known"),
        ("version=x\n", "not a number"),
        ("version=1\nnode.id=one\n", "node.id is 'one', not a number"),
        ("version=1\nnode.id=1\nbroker.id=2\n", "differ"),
        ("version=1\nnonsense\n", "expected key=value"),
        ("version=1\ndirectory.id=xyz\n", "directory.id"),
    ],
)
def test_damaged_properties_are_refused(text: str, reason: str) -> None:
    """B76: one clear line that names the file."""
    with pytest.raises(OperatorError, match="/d/meta") as refusal:
        parse_meta_properties(text, path="/d/meta.properties")
    assert reason in str(refusal.value)


def test_properties_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """B76."""
    (tmp_path / "meta.properties").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OperatorError, match="is not text"):
        read_meta_properties(OsFiles(), str(tmp_path))


def test_snapshot_names() -> None:
    """B-S02: 20 digits, dash, 10 digits; `.part` while written, `.deleted` when going."""
    name = "00000000000000000051-0000000001.checkpoint"
    assert snapshot_file_name(OffsetAndEpoch(51, 1)) == name
    assert parse_snapshot_name(name) == (OffsetAndEpoch(51, 1), "")
    assert parse_snapshot_name(name + ".part") == (OffsetAndEpoch(51, 1), ".part")
    assert parse_snapshot_name(name + ".deleted") == (OffsetAndEpoch(51, 1), ".deleted")
    for other in ("51-1.checkpoint", name + "x", "00000000000000000051.log", "bootstrap.checkpoint", ""):
        assert parse_snapshot_name(other) is None


def test_snapshots_are_written_whole_read_in_pieces_and_deleted(tmp_path: Path) -> None:
    """B-S02: what a crash left half is no snapshot and goes at the next start; the newest one is never deleted."""
    snapshots = SnapshotFiles(OsFiles(), str(tmp_path))
    assert snapshots.latest() is None
    ids = [OffsetAndEpoch(10, 1), OffsetAndEpoch(20, 1), OffsetAndEpoch(30, 2)]
    for each in ids:
        assert snapshots.write(each, [b"abc", b"defg"]) == 7
    assert snapshots.write(ids[0], [b"other"]) == 7
    assert (snapshots.ids(), snapshots.latest()) == (ids, ids[2])
    assert snapshots.size(ids[0]) == 7
    assert snapshots.size(OffsetAndEpoch(11, 1)) is None
    assert snapshots.read(ids[0]) == b"abcdefg"
    assert snapshots.read(ids[0], 2, 3) == b"cde"
    assert snapshots.read(OffsetAndEpoch(11, 1), 2, 3) is None
    (tmp_path / "00000000000000000040-0000000002.checkpoint.part").write_bytes(b"half")
    (tmp_path / "00000000000000000005-0000000001.checkpoint.deleted").write_bytes(b"half")
    assert snapshots.ids() == ids
    snapshots.delete_leftovers()
    assert len(list(tmp_path.iterdir())) == 3
    assert snapshots.delete_below(30) == 2
    assert snapshots.delete_below(99) == 0
    assert snapshots.ids() == [ids[2]]


def test_a_directory_that_is_not_there_has_no_snapshots(tmp_path: Path) -> None:
    """B-S02: before the first start."""
    snapshots = SnapshotFiles(OsFiles(), str(tmp_path / "none"))
    assert snapshots.ids() == []
    snapshots.delete_leftovers()


def test_bootstrap_and_zero_snapshots(tmp_path: Path) -> None:
    """B-S10: where formatting puts them."""
    files = OsFiles()
    assert read_bootstrap_checkpoint(files, str(tmp_path)) is None
    write_bootstrap_checkpoint(files, str(tmp_path), [b"a", bytearray(b"b")])
    assert read_bootstrap_checkpoint(files, str(tmp_path)) == b"ab"
    write_zero_checkpoint(files, str(tmp_path), [b"zero"])
    name = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert (tmp_path / name).read_bytes() == b"zero"


def test_quorum_state_is_replaced(tmp_path: Path) -> None:
    """B-R03, B76: the last one counts; an emptied file is no fresh start."""
    files = OsFiles()
    assert read_quorum_state(files, str(tmp_path)) is None
    write_quorum_state(files, str(tmp_path), b"one")
    write_quorum_state(files, str(tmp_path), b"two")
    assert read_quorum_state(files, str(tmp_path)) == b"two"
    (tmp_path / "quorum-state").write_bytes(b"")
    with pytest.raises(StorageFault, match="is empty"):
        read_quorum_state(files, str(tmp_path))


def test_how_far_a_log_was_synced_is_remembered(tmp_path: Path) -> None:
    """B-S11: after a clean stop; no file, or one that says nothing, means nothing is known."""
    files = OsFiles()
    assert read_synced_offset(files, str(tmp_path)) == 0
    write_synced_offset(files, str(tmp_path), 150)
    write_synced_offset(files, str(tmp_path), 207)
    assert read_synced_offset(files, str(tmp_path)) == 207
    for damaged in (b"", b"x", b"-1", b"9" * 30):
        (tmp_path / "headrace-synced-offset").write_bytes(damaged)
        assert read_synced_offset(files, str(tmp_path)) == 0
