"""The rare states that runs reached, and those that they must.

A run that never reaches a state proves nothing about it. Each marker is counted where it is seen (by a checker or by the simulation
itself); a CI run fails when one of `REQUIRED` stayed below its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REQUIRED: Final[dict[str, int]] = {
    # Raft
    "follower truncated: longer log": 20,
    "follower truncated: shorter log": 20,
    "follower truncated: other epoch at the same length": 20,
    "follower truncated: several epochs apart": 20,
    "follower truncated: an empty epoch in between": 20,
    "voter change cut short by a leader change": 20,
    "leader removed itself": 20,
    "voter added": 20,
    "voter removed": 20,
    "voter replaced its disk": 20,
    "snapshot installed over a longer stale log": 20,
    "snapshot fetched": 20,
    "snapshot removed": 500,
    "torn batch cut": 20,
    "leader resigned: check quorum": 20,
    "pre-vote refused": 20,
    "vote on disk, answer lost in a crash": 20,
    "crash between two effects of one step": 20,
    "all controllers lost power at once": 20,
    "new leader with a lagging high watermark": 20,
    "late fetch answer of an older epoch dropped": 20,
    "pre-vote refused: served by a leader": 20,
    "voter moved to another address": 10,
    "rotten quorum-state": 2,
    # Metadata above the log
    "snapshot loaded over older metadata": 100,
    "snapshot loaded over topics that are gone": 5,
    "broker that serves compared with its metadata": 100,
    "feature level changed": 20,
    "metadata.version updated": 20,
    "kraft.version updated": 5,
    "broker asked to stop": 20,
    "broker unregistered": 20,
    "broker decommissioned": 10,
    "broker decommissioned by force": 10,
    "broker kept: it was needed": 20,
    "replica gone with its broker": 10,
    "broker lost a log directory": 20,
    "broker cordoned a log directory": 20,
    # Controller
    "controller failover": 20,
    "controller failover between records of one operation": 20,
    "answer withheld: leadership lost before commit": 20,
    "broker fenced by time": 20,
    "broker fenced after controller failover": 20,
    "broker unfenced": 20,
    "unclean registration left an isr": 20,
    "request refused: older broker epoch": 20,
    "decision told with the request that led to it": 500,
    "broker's change told with its cause": 100,
    "leader's change told with its cause": 100,
    # What is asked of partitions
    "reassignment begun": 100,
    "reassignment changed": 50,
    "reassignment completed": 50,
    "reassignment completed at once": 20,
    "reassignment cancelled": 50,
    "preferred election on request": 20,
    "unclean election on request": 5,
    "unclean leader election": 50,
    "partition recovered after an unclean election": 50,
    "eligible leader replica elected": 20,
    "last known leader elected": 20,
    "read of a broker": 100,
    "read of a controller": 200,
    "read after an acknowledged change": 200,
    # Records of clients
    "records acknowledged": 50_000,
    "record read": 50_000,
    "acknowledged records outlive a power cut": 20,
    "unsynced records at stake in a power cut": 5,
    "copy compared with what clients know": 300,
    # Records with several copies
    "copied records acknowledged": 20_000,
    "copied record read": 20_000,
    "batches read from any copy": 100,
    "follower cut its log": 15,
    "acknowledged records outlive the loss of a copy": 20,
    "wounded copy came into sync": 20,
    "copies compared with each other": 500,
    "replica joined an isr": 100,
    "history judged": 200,
    "topic made anew under its name": 20,
    "whole life of a topic": 1,
    "log moved to another directory while it was in use": 50,
    "log directory failed, and its broker went on": 3,
    # Groups
    "group assignment handed out": 200,
    "group position acknowledged": 2_000,
    "group position read": 1_000,
    "group coordinator moved": 20,
    "group commit refused": 10,
    "static member fenced": 2,
    "group at rest": 100,
}
"""Marker -> how often a CI run (`make sim`) must reach it."""


class Markers:
    """Counts by name."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def hit(self, name: str, times: int = 1) -> None:
        """The state `name` was reached."""
        self.counts[name] = self.counts.get(name, 0) + times

    def add(self, counts: Mapping[str, int]) -> None:
        """The counts of another run."""
        for name in sorted(counts):
            self.hit(name, counts[name])

    def missing(self) -> dict[str, int]:
        """The required markers that were reached too seldom, and how often they were."""
        return {
            name: self.counts.get(name, 0) for name, wanted in REQUIRED.items() if self.counts.get(name, 0) < wanted
        }
