"""Values in a journal, and what is refused there."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.node.journal import as_json, from_json
from headrace.raft.events import LogFlushed, QuorumState, RaftRequestArrived
from headrace.wire.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest

VALUES = [
    None,
    True,
    7,
    1.5,
    "text",
    b"bytes",
    Uuid(b"0123456789abcdef"),
    ErrorCode.NOT_CONTROLLER,
    OffsetAndEpoch(5, 3),
    (1, ("a", b"b")),
    [1, 2],
    {"a": (1,), 2: None},
    QuorumState(leader_epoch=3, voted_id=2, voted_directory_id=Uuid(b"0123456789abcdef")),
    LogFlushed(upto=9, now_ms=8),
    RaftRequestArrived(
        token=1,
        request=VoteRequest(
            topics=(RequestTopicData(topic_name="t", partitions=(RequestPartitionData(replica_id=4),)),)
        ),
        api_version=2,
        listener="CONTROLLER",
        now_ms=5,
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    """Whole, and of the same type."""
    again = from_json(as_json(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "data",
    [
        {"object": "os:system", "of": {}},
        {"object": "headrace.node.journal:Journal", "of": {}},
        {"object": "headrace.raft.events:Missing", "of": {}},
        {"enum": "headrace.raft.events:QuorumState", "name": "x"},
        {"tuple": "headrace.core.offsets:OffsetAndEpoch.__class__", "of": []},
        {"other": 1},
    ],
)
def test_a_journal_makes_nothing_but_values_of_ours(data: object) -> None:
    """inv:A12: a file given to the tool is never used to find other code."""
    with pytest.raises(ValueError, match=r".+"):
        from_json(data)


def test_what_is_no_value_is_not_written() -> None:
    """A bug of ours is told at once."""
    with pytest.raises(TypeError):
        as_json(object())
