"""Promises that a node checks for itself before it acts, and stops rather than breaks.

They cost a comparison each: epochs never fall (R3, in `roles`), a leader never cuts its log (R5), nobody cuts below the high watermark or
the newest snapshot (R11), nobody loads a snapshot while it leads (R16).
"""

from __future__ import annotations


class RaftInvariantBroken(AssertionError):
    """The node is about to break a promise of the quorum: it stops, loudly, and changes nothing."""


def check_may_cut(to: int, *, high_watermark: int, snapshot_end: int, is_leader: bool) -> None:
    """A log may be cut to `to` (exclusive end) (R5, R11). Raises RaftInvariantBroken."""
    if is_leader:
        raise RaftInvariantBroken(f"a leader never truncates its log, here to {to} (R5)")
    if to < high_watermark:
        raise RaftInvariantBroken(f"truncation to {to} is below the high watermark {high_watermark} (R11)")
    if to < snapshot_end:
        raise RaftInvariantBroken(f"truncation to {to} is below the end of the newest snapshot {snapshot_end} (R11)")


def check_may_load(*, is_leader: bool) -> None:
    """A fetched snapshot replaces the log only of a node that does not lead (R16). Raises RaftInvariantBroken."""
    if is_leader:
        raise RaftInvariantBroken("a leader never loads a snapshot (R16)")
