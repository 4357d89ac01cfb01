"""The response of each API that says that the whole request was refused.

One function for all that the controller answers; the broker uses it too when the controller cannot be reached. Where the error goes
follows from the response's fields; only three APIs say it in a way of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.wire.messages import create_topics, delete_topics, elect_leaders
from headrace.wire.schema import FieldSpec, Struct, fields_of
from headrace.wire.versions import response_class

if TYPE_CHECKING:
    from headrace.core.errors import PeerError
    from headrace.wire.schema import Message


def refused(request: Any, error: PeerError, *, api_version: int) -> Message:
    """The response of the request's API with the same error for everything asked."""
    match request:
        case elect_leaders.ElectLeadersRequest():
            return _refused_elections(request, error.code, error.message, has_error_of_all=api_version >= 1)
        case create_topics.CreateTopicsRequest():
            return _refused_creations(request, error)
        case delete_topics.DeleteTopicsRequest():
            return _refused_deletions(request, error.code)
    response = response_class(request.SCHEMA.api_key)
    whole = _error_fields(response, error)
    return response(**whole) if whole else response(**_refused_items(request, response, error))


def _error_fields(cls: type[Struct], error: PeerError) -> dict[str, Any]:
    """The error as fields of `cls`; none when it has no place for one."""
    names = {spec.name for spec in fields_of(cls)}
    if "error_code" not in names:
        return {}
    return {"error_code": error.code} | ({"error_message": error.message} if "error_message" in names else {})


def _refused_items(request: Struct, response: type[Message], error: PeerError) -> dict[str, Any]:
    """An error for each item: in the response's list of outcomes, one for each entry of the request's lists, with the fields that both have."""
    outcomes = next(spec for spec in fields_of(response) if _is_list(spec))
    outcome = outcomes.struct
    assert outcome is not None, "a list of structs has one"
    items = [item for spec in fields_of(type(request)) if _is_list(spec) for item in getattr(request, spec.name) or ()]
    return {outcomes.name: tuple(_alike(item, outcome, _error_fields(outcome, error)) for item in items)}


def _is_list(spec: FieldSpec) -> bool:
    return spec.is_array and spec.struct is not None


def _alike(item: Struct, cls: type[Struct], others: dict[str, Any]) -> Struct:
    """A `cls` with the fields that it has in common with `item`."""
    known = type(item).__facts__
    fields: dict[str, Any] = {}
    for spec in fields_of(cls):
        if spec.name in known:
            value = getattr(item, spec.name)
            struct = spec.struct
            if struct is not None:
                value = (
                    tuple(_alike(each, struct, {}) for each in value) if spec.is_array else _alike(value, struct, {})
                )
            fields[spec.name] = value
    return cls(**fields, **others)


def _refused_creations(request: create_topics.CreateTopicsRequest, error: PeerError) -> Message:
    """Each name once."""
    topics = {
        topic.name: create_topics.CreatableTopicResult(
            name=topic.name, error_code=error.code, error_message=error.message
        )
        for topic in request.topics
    }
    return create_topics.CreateTopicsResponse(topics=tuple(topics.values()))


def _refused_elections(
    request: elect_leaders.ElectLeadersRequest, code: ErrorCode, message: str, *, has_error_of_all: bool
) -> Message:
    """The error of the whole, which version 0 does not have, and again for each partition that is named, as Kafka does."""
    results = tuple(
        elect_leaders.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                elect_leaders.PartitionResult(partition_id=each, error_code=code, error_message=message)
                for each in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return elect_leaders.ElectLeadersResponse(
        error_code=code if has_error_of_all else 0, replica_election_results=results
    )


def _refused_deletions(request: delete_topics.DeleteTopicsRequest, code: ErrorCode) -> Message:
    """Without a message, as Kafka does."""
    results = [
        delete_topics.DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code)
        for each in request.topics
    ]
    results += [delete_topics.DeletableTopicResult(name=name, error_code=code) for name in request.topic_names]
    return delete_topics.DeleteTopicsResponse(responses=tuple(results))
