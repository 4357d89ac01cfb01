"""What is done in several threads at once comes in order, and its first error ends it."""

from __future__ import annotations

import threading

import pytest

from headrace.core.errors import StorageFault
from headrace.server.side_by_side import side_by_side


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 64, 65, 1_000])
def test_results_come_in_the_order_of_the_items(threads: int, count: int) -> None:
    """Whatever thread made them."""
    assert list(side_by_side(threads)(lambda item: item * 2, range(count))) == [2 * each for each in range(count)]


def test_two_threads_work_at_once() -> None:
    """Each waits for the other; few items stay in one thread."""
    meeting = threading.Barrier(2, timeout=60)
    list(side_by_side(2)(lambda item: meeting.wait() if item in (0, 64) else 0, range(128)))
    here = threading.get_ident()
    assert set(side_by_side(2)(lambda _: threading.get_ident(), range(10))) == {here}


def test_an_error_comes_where_its_item_stands_and_no_thread_is_left() -> None:
    """StorageFault of one log: those before it were given, and nothing reads on when the caller goes on."""

    def read(item: int) -> int:
        if item == 100:
            raise StorageFault("broken", directory="/data")
        return item

    taken: list[int] = []
    with pytest.raises(StorageFault, match="broken"):
        taken.extend(side_by_side(3)(read, range(1_000)))
    assert taken == list(range(64))
    assert not [each for each in threading.enumerate() if each.name.startswith("headrace-load")]
