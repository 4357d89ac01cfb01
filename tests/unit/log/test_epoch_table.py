"""Where did each leader epoch begin and end?"""

from __future__ import annotations

import pytest

from headrace.core.offsets import OffsetAndEpoch
from headrace.log.epochs import EpochTable


def table(*entries: tuple[int, int]) -> EpochTable:
    """A table of (epoch, start offset)."""
    return EpochTable(OffsetAndEpoch(start, epoch) for epoch, start in entries)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (0, (0, 10)),
        (2, (2, 10)),
        (3, (2, 10)),
        (5, (5, 25)),
        (6, (5, 25)),
        (9, (9, 40)),
        (10, None),
        (-1, None),
    ],
)
def test_end_offset_for_epoch(asked: int, answer: tuple[int, int] | None) -> None:
    """KIP-101, KIP-279: the largest known epoch at or below the asked one, and where it ended; none above the last."""
    known = table((2, 5), (5, 10), (9, 25))
    expected = None if answer is None else OffsetAndEpoch(answer[1], answer[0])
    if asked == 0:
        expected = OffsetAndEpoch(5, 0)
    assert known.end_offset_for(asked, log_end_offset=40) == expected


def test_entries_rise_in_both() -> None:
    """inv:P11: an entry that contradicts a new one was an abandoned history."""
    known = table((1, 0), (3, 10), (4, 20))
    assert known.assign(5, 20)
    assert known.entries() == [OffsetAndEpoch(0, 1), OffsetAndEpoch(10, 3), OffsetAndEpoch(20, 5)]
    assert not known.assign(5, 30)
    assert known.assign(2, 10)
    assert known.entries() == [OffsetAndEpoch(0, 1), OffsetAndEpoch(10, 2)]


def test_a_cut_to_the_log_end_drops_the_empty_epoch() -> None:
    """defect:K13, inv:P11: an epoch that began at the new end goes, also when no record was cut."""
    known = table((1, 0), (2, 10))
    known.truncate_from_end(10)
    assert known.entries() == [OffsetAndEpoch(0, 1)]


def test_a_later_start_keeps_the_epoch_in_force() -> None:
    """B-P03: after deletion the epoch that covers the log's start begins there."""
    known = table((1, 0), (2, 10), (3, 20))
    known.truncate_from_start(15)
    assert known.entries() == [OffsetAndEpoch(15, 2), OffsetAndEpoch(20, 3)]
    before = known.version
    known.truncate_from_start(12)
    assert (known.entries()[0], known.version) == (OffsetAndEpoch(15, 2), before)


def test_epoch_at() -> None:
    """KIP-320: the epoch of a record, none before the first entry."""
    known = table((1, 5), (4, 10))
    assert [known.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [None, 1, 1, 4, 4]


def test_an_epoch_without_records_is_not_worth_storing() -> None:
    """Each start of a node begins one at the end of every log; ten thousand files would say nothing of the records."""
    epochs = table((1, 0))
    stored = epochs.version
    assert not epochs.is_worth_storing(stored, 10)
    epochs.assign(2, 10)
    assert not epochs.is_worth_storing(stored, 10)
    epochs.assign(3, 10)
    assert not epochs.is_worth_storing(stored, 10)
    assert epochs.is_worth_storing(stored, 11), "it has a record now"
    assert epochs.is_worth_storing(-1, 10), "nothing is stored"


def test_what_changes_below_the_end_is_worth_storing() -> None:
    """Whatever begins at the end of the log beside it."""
    epochs = table((1, 0), (2, 5))
    stored = epochs.version
    epochs.assign(3, 10)
    epochs.truncate_from_start(3)
    assert epochs.is_worth_storing(stored, 10)
    epochs = table((1, 0), (2, 5))
    epochs.assign(4, 3)
    assert epochs.is_worth_storing(stored, 3)
    epochs = table((1, 0), (2, 5))
    epochs.truncate_from_end(5)
    epochs.assign(3, 5)
    assert epochs.is_worth_storing(stored, 5)
