"""A consumer's place: its partitions, where it reads next, and what it has committed.

A machine driven by `BlockingConsumer`: it says which fetches should be in the air, takes their results, and moves positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from headrace.client import offsets
from headrace.client.fetcher import (
    Fetched,
    FetchOptions,
    OffsetOutOfRange,
    fetch_request,
    split_positions,
    turn_to_copy,
    turn_to_leader,
)
from headrace.client.offsets import CommittedOffset, ListedOffset
from headrace.client.session import Session
from headrace.client.talk import Address, Call, Conversation
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

Reset = Literal["earliest", "latest", "none"]
RESET_TIMES = {"earliest": offsets.EARLIEST, "latest": offsets.LATEST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What one partition gave: whole batches, of which records below `start` were read before."""

    where: TopicPartition
    start: int
    fetched: Fetched


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFetch:
    """A fetch that should be sent to `address`; its answer belongs to `positions`."""

    leader: int
    address: Address
    request: Call
    positions: dict[TopicPartition, int]


class Consumption:
    """The positions of one consumer."""

    def __init__(self, session: Session, *, options: FetchOptions, reset: Reset) -> None:
        self._session = session
        self._options = options
        self._reset: Reset = reset
        self.positions: dict[TopicPartition, int] = {}
        self.unplaced: dict[TopicPartition, None] = {}

    def assign(self, parts: Iterable[TopicPartition]) -> None:
        """From now on these partitions and no others; known positions stay, new ones must be placed by `place`."""
        wanted = list(parts)
        self.positions = {where: self.positions[where] for where in wanted if where in self.positions}
        self.unplaced = {where: None for where in wanted if where not in self.positions}

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read `where` from `offset` on."""
        self.unplaced.pop(where, None)
        self.positions[where] = offset

    def place(self, committed: Mapping[TopicPartition, CommittedOffset | PeerError]) -> Conversation[None]:
        """Give each new partition its position: what the group committed, else by the reset policy. Raises OperatorError with policy none."""
        lost: dict[TopicPartition, int] = {}
        for where in list(self.unplaced):
            known = committed.get(where)
            if isinstance(known, PeerError):
                raise known
            if known is not None:
                self.seek(where, known.offset)
            elif self._reset == "none":
                raise OperatorError(
                    f"there is no committed offset for {where.topic}-{where.partition}, and auto.offset.reset=none"
                )
            else:
                lost[where] = RESET_TIMES[self._reset]
        if lost:
            found = yield from offsets.list_offsets(
                self._session, lost, is_read_committed=self._options.is_read_committed
            )
            for where, result in found.items():
                if isinstance(result, ListedOffset):
                    self.seek(where, result.offset)
                elif not result.code.is_retriable:
                    raise result

    def plan(self, *, is_free: Callable[[int], bool]) -> tuple[list[PlannedFetch], list[str]]:
        """The fetches to send now, one a leader that has none in the air, and topics whose leaders must be looked up first."""
        by_leader, unknown = split_positions(self._session, self.positions)
        planned = [
            PlannedFetch(
                leader=leader,
                address=self._session.cluster.nodes[leader].address,
                request=fetch_request(self._session, positions, self._options),
                positions=positions,
            )
            for leader, positions in by_leader.items()
            if is_free(leader)
        ]
        return planned, sorted({where.topic for where in unknown})

    def take(
        self, positions: Mapping[TopicPartition, int], parts: Mapping[TopicPartition, Fetched | PeerError]
    ) -> list[Chunk]:
        """The data in an answer; positions move behind it. Raises PeerError for an error that will not pass."""
        chunks: list[Chunk] = []
        for where, part in parts.items():
            if self.positions.get(where) != positions.get(where):
                continue
            if isinstance(part, Fetched):
                turn_to_copy(self._session, where, part)
                if part.next_offset > positions[where]:
                    self.positions[where] = part.next_offset
                    chunks.append(Chunk(where=where, start=positions[where], fetched=part))
            elif turn_to_leader(self._session, where, part):
                continue
            elif isinstance(part, OffsetOutOfRange):
                if self._reset == "none":
                    raise part
                del self.positions[where]
                self.unplaced[where] = None
            elif part.code.is_retriable:
                self._session.cluster.forget_leader(where)
            else:
                raise part
        # Partitions that had something to say go last next time, so that each gets its turn.
        for chunk in chunks:
            self.positions[chunk.where] = self.positions.pop(chunk.where)
        return chunks
