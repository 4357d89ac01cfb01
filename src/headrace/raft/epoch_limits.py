"""Limits on the epochs that other nodes claim.

A node moves to a later epoch when it hears of one, so a packet that claims the last epoch of all would leave none for another election. An
honest sender of a request is ahead by the elections that this node missed: a few, since who has no leader asks the others and hears in
their responses how far they are. Responses of voters that this node dialled itself may therefore say more, as long as enough epochs are left.
"""

from __future__ import annotations

from typing import Final

LAST_EPOCH: Final = (1 << 31) - 1
"""The last epoch that the protocol can say (int32)."""

MAX_EPOCHS_AHEAD: Final = 32
"""So many elections may this node have missed when a request tells it. One packet uses up no more of the 2^31 epochs than this."""

EPOCHS_KEPT: Final = 1 << 20
"""What one voter says never leaves fewer epochs than these (a million elections)."""

_CEILING: Final = LAST_EPOCH - EPOCHS_KEPT


def furthest_in_request(own_epoch: int) -> int:
    """The latest epoch that a request may move a node of `own_epoch` to; near the end of all epochs the next one only."""
    return min(own_epoch + MAX_EPOCHS_AHEAD, max(_CEILING, own_epoch + 1), LAST_EPOCH)


class EpochsTold:
    """What the voters said of their epochs, in responses to requests that this node sent to where they are known to listen."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def note(self, voter_id: int, epoch: int) -> None:
        """The voter's response is of this epoch."""
        self._told[voter_id] = epoch

    def is_believed(self, epoch: int, *, others: tuple[int, ...], majority: int) -> bool:
        """Whether voters' responses may move this node to `epoch`: one suffices, beyond the ceiling a majority must be there.

        So a voter with a rotten `quorum-state` moves nobody to the end of all epochs, and a quorum that got there goes on while it can.
        """
        if epoch <= _CEILING:
            return True
        return sum(self._told.get(each, -1) >= epoch for each in others) >= majority
