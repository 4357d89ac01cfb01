"""Is what Python tells of a JSON text that does not fit what Arrow's reader makes of it, and are many of them found quickly?"""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.arrow.json_misfits import misfits
from headrace.arrow.value_schema import parse_value_schema
from headrace.arrow.values import decode_values

WIDE = parse_value_schema(
    "i int, l bigint, b boolean, d double, s string, t timestamp, m decimal(6,2), a array<int>, r struct<x:double,y:array<string>>"
)
NARROW = parse_value_schema("a bigint, s string")
MANY = 4_000

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["2026-01-02T03:04:05Z", "1.5", "12", "\ud800", "\0"]),
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_documents = st.one_of(_values, st.dictionaries(st.sampled_from([*WIDE.names, "other"]), _values, max_size=4))


def text_of(document: Any, tail: str, *, is_escaped: bool) -> bytes:
    return (json.dumps(document, ensure_ascii=is_escaped) + tail).encode(errors="surrogatepass")


@given(_documents, st.sampled_from(["", "", "", " ", "\n", "x", "{}", ",", "\0", "null"]), st.booleans())
def test_what_is_told_does_not_fit_alone(document: Any, tail: str, is_escaped: bool) -> None:
    """Arrow's reader has the last word: nothing that it takes is told."""
    value = text_of(document, tail, is_escaped=is_escaped)
    column = pa.array([value], pa.binary())
    if misfits(column, WIDE)[0]:
        assert decode_values(column, WIDE, value_format="json").is_bad[0].as_py()


@pytest.mark.parametrize(("kind", "most"), [(pa.uint8(), 2**8 - 1), (pa.uint64(), 2**64 - 1)])
def test_numbers_without_a_sign_fit_among_others_too(kind: pa.DataType, most: int) -> None:
    """The largest of its type was told for a misfit, though only beside a value that is one."""
    column = pa.array([b'{"n":%d}' % most, b"x"], pa.binary())
    found = decode_values(column, pa.schema([("n", kind)]), value_format="json")
    assert found.is_bad.to_pylist() == [False, True]
    assert found.rows[0].as_py() == {"n": most}


@given(st.lists(_documents, max_size=12))
def test_values_among_others_are_what_they_are_alone(documents: list[Any]) -> None:
    """However often one comes, and whoever stands beside it."""
    texts = [text_of(each, "", is_escaped=True) for each in documents] * 2
    alone = [decode_values(pa.array([each], pa.binary()), WIDE, value_format="json") for each in texts]
    found = decode_values(pa.array(texts, pa.binary()), WIDE, value_format="json")
    assert found.is_bad.to_pylist() == [each.is_bad[0].as_py() for each in alone]
    assert str(found.rows.to_pylist()) == str([each.rows[0].as_py() for each in alone])


def seconds(values: list[bytes], value_format: str) -> float:
    """CPU time to decode, the least of three."""
    column, taken = pa.array(values, pa.binary()), []
    for _ in range(3):
        began = time.process_time()
        decode_values(column, NARROW, value_format=value_format)
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize(
    ("value_format", "values"),
    [
        ("json", [b"x%d" % number for number in range(MANY)]),
        ("json", [b'{"a":"%d"}' % number for number in range(MANY)]),
        ("csv", [b"x,1,2"] * MANY),
    ],
    ids=["no JSON", "of another type", "the same again and again"],
)
def test_values_that_do_not_fit_cost_no_hundreds_of_times_as_much(value_format: str, values: list[bytes]) -> None:
    """Each was read alone, 300 us where one that fits takes 0.5: a producer of a megabyte a second kept thirty cores of readers busy."""
    good = [b'{"a":%d}' % number for number in range(50 * MANY)]
    assert seconds(values, value_format) < 4 * seconds(good, "json")
