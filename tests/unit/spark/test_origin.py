"""Does the header that tells a row's origin join a row's own headers, and what do faults of a write say?"""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.arrow.schema import HEADERS_TYPE
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.spark.origin import Origin, add_header
from headrace.spark.write_faults import explained

GIVEN = [
    [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
    None,
    [],
    [{"key": "c", "value": b"2"}],
]


def test_an_origin_counts_the_rows_of_a_task() -> None:
    """The same text for the same row, however the rows come in batches."""
    origin = Origin(run="q", batch=7, partition=3)
    assert origin.column(9, 2).to_pylist() == [b"q/7/3/9", b"q/7/3/10"]
    assert origin.column(0, 0).to_pylist() == []


@pytest.mark.parametrize(("first", "count"), [(0, 4), (1, 3), (3, 1), (1, 1), (0, 0)])
def test_a_header_is_added_behind_the_rows_own(first: int, count: int) -> None:
    """Nulls count as no headers; a slice of a column has the headers of its rows only."""
    column = pa.array(GIVEN, HEADERS_TYPE).slice(first, count)
    values = [b"v%d" % each for each in range(count)]
    found = add_header(column, "o", pa.array(values, pa.binary())).to_pylist()
    own = GIVEN[first : first + count]
    assert found == [[*(each or []), {"key": "o", "value": value}] for each, value in zip(own, values, strict=True)]


def test_a_frame_without_headers_gets_one_a_row() -> None:
    """No column at all."""
    added = add_header(None, "o", pa.array([b"x", b"y"], pa.binary()))
    assert added.to_pylist() == [[{"key": "o", "value": b"x"}], [{"key": "o", "value": b"y"}]]


def test_a_fault_is_one_line_with_its_remedy() -> None:
    """Place, Kafka's name of the error, what the broker said, what to do; what has no remedy here is told without one."""
    told = str(explained(PeerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not\nallowed"), TopicPartition("t", 1)))
    assert told == (
        "the write to t-1 failed with TOPIC_AUTHORIZATION_FAILED: not allowed; allow the user to write to the topic (operation Write). "
        "Rows of this task may have been written"
    )
    plain = str(explained(PeerError(ErrorCode.UNKNOWN_SERVER_ERROR), None))
    assert plain == "the write failed with UNKNOWN_SERVER_ERROR. Rows of this task may have been written"
