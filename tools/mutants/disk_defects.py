"""Which mistakes can the code that writes files make?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.errors import StorageFault
from headrace.node import disk
from headrace.sim.faults import FaultKind
from headrace.storage import snapshot_files
from headrace.storage.flushing import SegmentFlush
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.core.ports import BytesLike, Files


def name_not_synced(planting: Planting) -> None:
    """K30: quorum-state gets its name by a rename that a power cut may undo."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}.tmp", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        file.close()
        files.rename(f"{directory}/{name}.tmp", f"{directory}/{name}")

    _replace_file(planting, replace_file)


def failed_sync_is_repeated(planting: Planting) -> None:
    """K31: the second fsync succeeds, and the bytes count as durable."""
    honest = SegmentFlush.__dict__["_run"]

    def run(self: Any) -> None:
        try:
            honest(self)
        except StorageFault:
            honest(self)

    planting.replace(SegmentFlush, "_run", run)


def written_in_place(planting: Planting) -> None:
    """K32: quorum-state is written over the old one."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        file.close()
        files.fsync_dir(directory)

    _replace_file(planting, replace_file)


def _replace_file(planting: Planting, instead: Any) -> None:
    for module in (snapshot_files, disk):
        if "replace_file" in vars(module):
            planting.replace(module, "replace_file", instead)


_POWER = frozenset({FaultKind.POWER, FaultKind.BLACKOUT, FaultKind.CRASH_DISK})

DEFECTS = (
    Defect(id="K30", what="a rename is not made durable", plant=name_not_synced, faults=_POWER),
    Defect(
        id="K31",
        what="a failed fsync is repeated and believed",
        plant=failed_sync_is_repeated,
        faults=frozenset({FaultKind.FAIL_SYNC}),
    ),
    Defect(id="K32", what="quorum-state is written in place", plant=written_in_place, faults=_POWER),
)
