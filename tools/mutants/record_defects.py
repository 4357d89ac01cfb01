"""Mistakes of a broker with clients' records: what it says of them, and what it finds of them after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker.handlers import fetch
from headrace.log.producers import ProducerStates
from headrace.sim.faults import FaultKind
from headrace.storage import recovery
from headrace.storage.flush_state import FlushState
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

_LARGEST_SOUND = 600


def acknowledged_before_synced(planting: Planting) -> None:
    """Z1: with flush.messages=1 a produce is answered while the batch is in the page cache only."""

    def must_sync(self: Any, first: int) -> bool:
        return False

    planting.replace(FlushState, "must_sync", must_sync)


def producers_forgotten(planting: Planting) -> None:
    """Z2: after an unclean stop the log is read, but not for what it says of its producers: a batch sent again is taken again."""

    def replay_producers(files: Any, path: str, state: PartitionLog, *more: Any, **options: Any) -> None:
        state.producers = ProducerStates((), end_offset=state.log_end_offset)

    planting.replace(recovery, "replay_producers", replay_producers)


def large_batch_taken_for_torn(planting: Planting) -> None:
    """Z3: recovery takes a batch above a size for torn, and cuts the log there."""
    honest = vars(recovery)["batch_is_sound"]

    def batch_is_sound(buffer: Any, header: Any, position: int = 0) -> bool:
        return bool(header.size < _LARGEST_SOUND and honest(buffer, header, position))

    planting.replace(recovery, "batch_is_sound", batch_is_sound)


def fetch_offset_not_renewed(planting: Planting) -> None:
    """Z4: an incremental fetch goes on where its session began."""
    honest = vars(fetch)["_update"]

    def update(session: Any, request: Any, broker: Any, *, by_id: bool) -> None:
        before = {key: known.fetch_offset for key, known in session.partitions.items()}
        honest(session, request, broker, by_id=by_id)
        for key, offset in before.items():
            if key in session.partitions:
                session.partitions[key].fetch_offset = offset

    planting.replace(fetch, "_update", update)


def sent_again_taken_again(planting: Planting) -> None:
    """Z5: a batch that its producer sends again is appended again: nobody looks at the sequences that are known."""

    def check_client_batch(self: Any, header: Any) -> None:
        return None

    planting.replace(ProducerStates, "check_client_batch", check_client_batch)


_DEATHS = frozenset({FaultKind.KILL, FaultKind.KILL_ALL, FaultKind.CRASH_DISK, FaultKind.CRASH_STEP, FaultKind.LOOP})
_POWER = frozenset({FaultKind.POWER, FaultKind.BLACKOUT, FaultKind.CRASH_DISK})

DEFECTS = (
    Defect(
        id="Z1",
        what="flush.messages=1 acknowledges what is not synced",
        plant=acknowledged_before_synced,
        level="records",
        copies=1,
        faults=_POWER,
    ),
    Defect(
        id="Z2",
        what="producers are forgotten in an unclean stop",
        plant=producers_forgotten,
        level="records",
        copies=1,
        faults=_DEATHS,
    ),
    Defect(
        id="Z3",
        what="recovery takes a large batch for a torn one",
        plant=large_batch_taken_for_torn,
        level="records",
        copies=1,
        faults=_DEATHS | _POWER,
    ),
    Defect(
        id="Z4",
        what="an incremental fetch goes on where its session began",
        plant=fetch_offset_not_renewed,
        level="records",
        copies=1,
    ),
    Defect(
        id="Z5", what="a batch sent again is appended again", plant=sent_again_taken_again, level="records", copies=1
    ),
)
