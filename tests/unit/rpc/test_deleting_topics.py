"""Requests that delete many topics are cut, and answered as if they were not."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.rpc.splitting import answer_in_parts
from headrace.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

MANY = 30
DELETE_TOPICS = 20
ID = Uuid(b"a topic's own id")


def answered(request: DeleteTopicsRequest) -> tuple[dict[tuple[str | None, Uuid], tuple[int, str | None]], int]:
    """Error and words by name and id, and the most topics that were deleted at once."""
    most = 0

    def handle(part: DeleteTopicsRequest, _context: RequestContext, _target: object) -> Reply:
        nonlocal most
        asked = [(each.name, each.topic_id) for each in part.topics] or [(each, ZERO_UUID) for each in part.topic_names]
        most = max(most, len(asked))
        results = tuple(DeletableTopicResult(name=name, topic_id=each, error_message=None) for name, each in asked)
        return Reply(DeleteTopicsResponse(responses=results))

    steps = answer_in_parts(DELETE_TOPICS, request, RequestContext(api_key=DELETE_TOPICS, api_version=6), handle, None)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        responses = end.value.message.responses
        return {(each.name, each.topic_id): (each.error_code, each.error_message) for each in responses}, most


@pytest.mark.parametrize("by_state", [True, False])
def test_a_topic_that_is_named_twice_is_not_deleted_however_far_apart(*, by_state: bool) -> None:
    """PR8, Kafka behaviour (deleteTopics): ten are deleted at a time, with all their partitions; a name that comes twice is refused as in one request."""
    names = ["again", *(f"n{number}" for number in range(MANY)), "again"]
    request = (
        DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=each) for each in names))
        if by_state
        else DeleteTopicsRequest(topic_names=tuple(names))
    )
    found, most = answered(request)
    assert found.pop(("again", ZERO_UUID)) == (ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    assert found == {(f"n{number}", ZERO_UUID): (0, None) for number in range(MANY)}
    assert most == 10


def test_an_id_that_is_named_twice_is_refused_too() -> None:
    """Kafka behaviour (deleteTopics)."""
    states = [DeleteTopicState(topic_id=ID), *(DeleteTopicState(name=f"n{number}") for number in range(MANY))]
    found, _ = answered(DeleteTopicsRequest(topics=(*states, DeleteTopicState(topic_id=ID))))
    assert found[None, ID] == (ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
