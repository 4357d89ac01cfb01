"""What does it cost to find the aborted transactions of a range?"""

from __future__ import annotations

import pytest

from headrace.log.ports import AbortedTransaction
from headrace.sim.disk import LossyFiles
from headrace.storage.index_file import EntryFile, TransactionIndex


class CountingIndex(TransactionIndex):
    """Counts how many entries are looked at."""

    __slots__ = ("looked_at",)

    def _marker_of(self, number: int) -> int:
        self.looked_at: int = getattr(self, "looked_at", 0) + 1
        return super()._marker_of(number)


def index_of(count: int) -> CountingIndex:
    """Transactions of ten records each, all aborted."""
    files = LossyFiles()
    index = CountingIndex(EntryFile(files, "/x.txnindex"))
    for number in range(count):
        index.append(AbortedTransaction(7, 10 * number, 10 * number + 9, 10 * number))
    return index


@pytest.mark.parametrize("count", [10, 100_000])
def test_those_that_ended_before_the_range_cost_nothing(count: int) -> None:
    """A fetch at the end of a log with 100,000 aborted transactions looks at some tens of them."""
    index = index_of(count)
    start = 10 * (count - 2)
    assert [entry.first_offset for entry in index.entries_from(start)] == [start, start + 10]
    assert index.looked_at <= 20


def test_a_range_begins_inside_a_transaction() -> None:
    """Its marker decides: at the start or behind it, it counts."""
    index = index_of(5)
    assert [entry.last_offset for entry in index.entries_from(19)] == [19, 29, 39, 49]
    assert [entry.last_offset for entry in index.entries_from(20)] == [29, 39, 49]
    assert list(index.entries_from(50)) == []


def test_markers_that_do_not_rise_are_damage() -> None:
    """The search leans on their order, which a file of ours and of Kafka's has."""
    index = index_of(3)
    assert index.is_sane(0)
    index.append(AbortedTransaction(7, 0, 9, 0))
    assert not index.is_sane(0)
