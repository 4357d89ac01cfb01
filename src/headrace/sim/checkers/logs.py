"""One disk's metadata log as only an onlooker knows it, and whether two logs are equal up to an offset.

Every batch of a ghost log carries a *chain*: a number made of the chain before it and of the batch's own offset, epoch and CRC. Two logs
whose chains at an offset are equal hold the same batches up to there, so comparing two logs costs one look-up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from headrace.raft.voters import VoterSet, decode_voters
from headrace.records.control import ControlType, control_type
from headrace.records.record import read_records

if TYPE_CHECKING:
    from headrace.sim.observation import LogAppended

EMPTY_CHAIN: Final = 0
UNKNOWN_CHAIN: Final = -1
"""Of a log that begins where the committed prefix has no batch boundary: equal to no other."""


def next_chain(before: int, *, base_offset: int, epoch: int, crc: int) -> int:
    """The chain of a batch behind `before`. Numbers only, so that it is the same in every process."""
    return hash((before, base_offset, epoch, crc))


def voters_in(batch: bytes) -> VoterSet | None:
    """The voters that a control batch sets, None when it sets none."""
    for record in read_records(batch, 0):
        if control_type(record.key) is ControlType.KRAFT_VOTERS and record.value is not None:
            return decode_voters(record.value)
    return None


class GhostLog:
    """The batches of one metadata log: offsets, epochs and chains; the voters they set; and up to where the disk has them."""

    __slots__ = ("_base_voters", "_start_chain", "_voters", "bases", "chains", "durable", "ends", "epochs", "start")

    def __init__(self, *, start: int = 0, start_chain: int = EMPTY_CHAIN, voters: VoterSet | None = None) -> None:
        """`voters` are those in force below the log's first batch."""
        self.bases: list[int] = []
        self.ends: list[int] = []
        self.epochs: list[int] = []
        self.chains: list[int] = []
        self.durable = start
        self.reset(start=start, start_chain=start_chain, voters=voters or VoterSet())

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self.ends[-1] if self.ends else self.start

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch; 0 when there is none."""
        return self.epochs[-1] if self.epochs else 0

    @property
    def voters(self) -> VoterSet:
        """The voters in force: the last that the log sets, committed or not."""
        return self._voters[-1][1] if self._voters else self._base_voters

    @property
    def last_voters_end(self) -> int:
        """The end of the batch that set `voters`; the log's start when none of its batches did."""
        return self._voters[-1][0] if self._voters else self.start

    def voters_before(self, offset: int) -> VoterSet:
        """The voters that the batches that end at or below `offset` set."""
        for end, voters in reversed(self._voters):
            if end <= offset:
                return voters
        return self._base_voters

    def reset(self, *, start: int, start_chain: int, voters: VoterSet) -> None:
        """Empty, with a snapshot that ends at `start` below it."""
        self.bases.clear()
        self.ends.clear()
        self.epochs.clear()
        self.chains.clear()
        self._voters: list[tuple[int, VoterSet]] = []
        self._base_voters = voters
        self.start = start
        self._start_chain = start_chain
        self.durable = start

    def append(self, batch: LogAppended) -> int:
        """One more batch; its chain."""
        before = self.chains[-1] if self.chains else self._start_chain
        chain = next_chain(before, base_offset=batch.base_offset, epoch=batch.epoch, crc=batch.crc)
        self.bases.append(batch.base_offset)
        self.ends.append(batch.next_offset)
        self.epochs.append(batch.epoch)
        self.chains.append(chain)
        if batch.is_control:
            voters = voters_in(batch.data)
            if voters is not None:
                self._voters.append((batch.next_offset, voters))
        return chain

    def truncate(self, to: int) -> None:
        """Remove every batch that ends above `to`."""
        keep = bisect_right(self.ends, to)
        del self.bases[keep:], self.ends[keep:], self.epochs[keep:], self.chains[keep:]
        while self._voters and self._voters[-1][0] > to:
            self._voters.pop()
        self.durable = min(self.durable, self.end)

    def drop_below(self, to: int) -> None:
        """Remove every batch that ends at or below `to`: a snapshot covers them."""
        chain = self.chain_at(to)
        gone = bisect_right(self.ends, to)
        del self.bases[:gone], self.ends[:gone], self.epochs[:gone], self.chains[:gone]
        self._base_voters = self.voters_before(to)
        self._voters = [each for each in self._voters if each[0] > to]
        self.start = to
        self._start_chain = UNKNOWN_CHAIN if chain is None else chain
        self.durable = max(self.durable, to)

    def chain_at(self, end: int) -> int | None:
        """The chain of the batch that ends at `end`, None when none does."""
        index = bisect_left(self.ends, end)
        if index < len(self.ends) and self.ends[index] == end:
            return self.chains[index]
        return self._start_chain if end == self.start else None

    def epoch_below(self, end: int) -> int | None:
        """The epoch of the record below `end`, None when this log does not hold it."""
        index = bisect_left(self.ends, end)
        if index < len(self.ends) and self.bases[index] < end:
            return self.epochs[index]
        return None

    def epochs_between(self, start: int, end: int) -> list[int]:
        """The different epochs of the batches in [start, end), ascending."""
        low, high = bisect_right(self.ends, start), bisect_left(self.bases, end)
        return sorted(set(self.epochs[low:high]))

    def matches(self, other: GhostLog, *, below: int) -> int:
        """The highest batch end at or below `below` up to which this log equals `other`; this log's start when none does."""
        index = bisect_right(self.ends, below) - 1
        while index >= 0:
            if other.chain_at(self.ends[index]) == self.chains[index] or self.ends[index] <= other.start:
                return self.ends[index]
            index -= 1
        return self.start
