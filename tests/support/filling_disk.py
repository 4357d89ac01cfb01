"""A disk that can be full."""

from __future__ import annotations

from headrace.core.ports import DiskFull
from headrace.sim.disk import LossyFiles, Op


class FillingDisk(LossyFiles):
    """Takes no byte more while it is full."""

    is_full = False

    def note(self, op: Op, path: str) -> None:
        """As the disk's."""
        if self.is_full and op.kind == "write":
            raise DiskFull("no room", directory="/data")
        super().note(op, path)
