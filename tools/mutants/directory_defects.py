"""Mistakes of brokers with several log directories: when a copy takes the place of a log, and what is known of that."""

from __future__ import annotations

from typing import Any

from headrace.broker import replica_moves
from headrace.broker.replica_moves import MoveState, ReplicaMoves
from headrace.sim.faults import FaultKind
from tools.mutants.planting import Defect, Planting

MOVES = frozenset({FaultKind.MOVE_LOG})


def controller_not_told(planting: Planting) -> None:
    """Z9: a copy takes the place of the log as soon as it has caught up; the controller hears of it with the next metadata."""

    def tell(self: Any, move: Any) -> None:
        move.state = MoveState.KNOWN

    planting.replace(ReplicaMoves, "_tell", tell)


def tail_left_out(planting: Planting) -> None:
    """Z10: what is written while the copy is made durable is not copied any more."""
    honest = vars(replica_moves)["_next_step"]

    def next_step(move: Any) -> Any:
        return None if move.state is MoveState.ENDING else honest(move)

    planting.replace(replica_moves, "_next_step", next_step)


DEFECTS = (
    Defect(id="Z9", what="moved before it is known", plant=controller_not_told, level="records", faults=MOVES),
    Defect(id="Z10", what="the tail of a copy left out", plant=tail_left_out, level="records", faults=MOVES),
)
