"""What does a checkpoint say, and what is read out of it?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.stored_offsets import StoredOffsets, parse_stored

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_positions_have_the_form_of_sparks_source() -> None:
    """Without ids and start nothing else is there; what is stored is read again."""
    plain = StoredOffsets(positions={A1: 5, A0: 3, B0: 0})
    assert plain.as_json() == {"a": {"0": 3, "1": 5}, "b": {"0": 0}}
    assert parse_stored(plain.as_json()) == plain
    full = StoredOffsets(positions={A0: 3}, topic_ids={"a": "i"}, start={A0: 1})
    assert full.as_json() == {"a": {"0": 3}, "headrace:topics": {"a": "i"}, "headrace:start": {"a": {"0": 1}}}
    assert parse_stored(full.as_json()) == full


def test_ids_are_those_of_topics_with_positions() -> None:
    """A pattern may match topics that have no offsets yet."""
    assert "headrace:topics" not in StoredOffsets(positions={A0: 3}, topic_ids={"b": "i"}).as_json()


def test_a_topic_with_another_id_was_made_again() -> None:
    """One that is gone was not, nor one whose id was not stored."""
    stored = StoredOffsets(positions={A0: 3, B0: 1}, topic_ids={"a": "1", "c": "2"})
    assert stored.remade({"a": "9", "b": "8"}) == {"a"}


@pytest.mark.parametrize(
    "spoilt", [{"a": 5}, {"a": {"x": 1}}, {"a": {"0": None}}, {"headrace:topics": 3}, {"headrace:start": 3}]
)
def test_something_else_is_refused(spoilt: dict[str, Any]) -> None:
    """In one line with the remedy."""
    with pytest.raises(OperatorError, match="restore it, or begin anew with another checkpointLocation"):
        parse_stored(spoilt)
