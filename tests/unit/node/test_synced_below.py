"""Which part of the metadata log may a start take for synced?"""

from __future__ import annotations

from headrace.core.offsets import OffsetAndEpoch
from headrace.node.metadata_files import synced_below
from headrace.sim.disk import LossyFiles
from headrace.storage.snapshot_files import SnapshotFiles, write_synced_offset

DIRECTORY = "/d/__cluster_metadata-0"


def _disk() -> tuple[LossyFiles, SnapshotFiles]:
    files = LossyFiles()
    files.mkdir(DIRECTORY)
    snapshots = SnapshotFiles(files, DIRECTORY)
    snapshots.write(OffsetAndEpoch(24, 3), [b"x"])
    return files, snapshots


def test_a_controllers_log_is_synced_below_its_snapshot() -> None:
    """inv:D6: it makes them of synced records only, so damage there is rot."""
    assert synced_below(*_disk()) == 24


def test_a_brokers_snapshot_says_nothing_of_its_log() -> None:
    """inv:D5, inv:D6, fault:S54: a broker does not sync the metadata log; what a power cut tears there is fetched anew."""
    files, snapshots = _disk()
    assert synced_below(files, snapshots, flushes=False) == 0
    write_synced_offset(files, DIRECTORY, 7)
    assert synced_below(files, snapshots, flushes=False) == 7
