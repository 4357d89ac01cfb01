"""Decisions about very many partitions, made without standing still.

In slices, one a step: a broker that leads a third of a million partitions is fenced in some thirty batches (B-C22), and heartbeats, fetches
and other requests come in between. Each slice is decided on what stands by then. The broker that leaves counts as gone from the
first slice on; the record that says so comes last (B-C24). A failover in the middle leaves a broker that has moved half, and its
session or its next request moves the rest.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.controller.causes import caused
from headrace.controller.decision import Moves, Situation
from headrace.controller.eligibility import NOBODY
from headrace.controller.partitions import leader_and_isr_updates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.controller.events import AppendRecords
    from headrace.controller.term import ActiveTerm, OngoingMoves
    from headrace.metadata.snapshot import VersionedRecord

SLICE: Final = 3_000
"""Partitions that are looked at in one step: 30 ms, and far fewer records than a batch may have."""


def begin_moves(
    active: ActiveTerm, work: OngoingMoves, first: Sequence[VersionedRecord], now_ms: int, *, slice_size: int = SLICE
) -> list[AppendRecords]:
    """The records that come first, and the first slice, in one batch; the slice later while other moves are still going on.

    What only looks at partitions goes on when all others are done: a leader that is gone does not wait for it. Raises as `ActiveTerm.append`.
    """
    before = [other for other in active.moves if work.is_a_look or not other.is_a_look]
    active.moves.insert(len(before), work)
    if not before:
        return continue_moves(active, now_ms, first=first, slice_size=slice_size)
    active.continue_at_ms = now_ms
    records: list[VersionedRecord] = []
    active.replay(caused(first, work.why), records)
    return active.write(records, now_ms)


def continue_moves(
    active: ActiveTerm, now_ms: int, *, first: Sequence[VersionedRecord] = (), slice_size: int = SLICE
) -> list[AppendRecords]:
    """One slice of the oldest moves. They leave the queue of `active` when nothing is left of them. Raises as `ActiveTerm.append`."""
    work = active.moves[0]
    records: list[VersionedRecord] = []
    active.replay(caused(first, work.why), records)
    _slice(active, work, records, now_ms, budget=slice_size)
    effects = active.write(records, now_ms)
    if not work.queue:
        active.moves.popleft()
    active.continue_at_ms = now_ms if active.moves else None
    return effects


def _slice(active: ActiveTerm, work: OngoingMoves, records: list[VersionedRecord], now_ms: int, *, budget: int) -> None:
    """Replay and collect the records of up to `budget` places, and of each end that is reached."""
    while work.queue and budget > 0:
        moves = work.queue[0]
        situation = active.situation(work.cause, now_ms)
        if work.places is None:
            work.places = iter(moves.places)
        places = list(islice(work.places, budget)) if _is_about_the_same(situation, moves) else []
        change = moves.change or partial(leader_and_isr_updates, remove=moves.remove, add=moves.add)
        why = moves.cause or work.why
        active.replay(caused(list(change(situation, places)), why), records)
        if len(places) == budget:
            return
        budget -= len(places)
        if moves.last is not None and _is_about_the_same(situation, moves):
            last, response = moves.last(active.situation(work.cause, now_ms))
            active.replay(caused(last, why), records)
            work.response = response or work.response
        if moves.on_end is not None:
            moves.on_end(active.next_offset - 1)
        work.queue.popleft()
        work.places = None


def _is_about_the_same(situation: Situation, moves: Moves) -> bool:
    """The broker that the moves are about is still registered as the same incarnation."""
    broker_id = moves.remove if moves.remove != NOBODY else moves.add
    if broker_id == NOBODY:
        return True
    broker = situation.image.cluster.brokers.get(broker_id)
    return broker is not None and broker.broker_epoch == moves.broker_epoch
