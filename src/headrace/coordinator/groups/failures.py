"""What a client hears when the offsets topic refused a record."""

from __future__ import annotations

from typing import Any

from headrace.coordinator.groups.committing import commit_refused
from headrace.coordinator.groups.requests import DeleteGroups, FetchStableOffsets
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.delete_groups import DeletableGroupResult
from headrace.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headrace.wire.messages.offset_commit import OffsetCommitRequest
from headrace.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

_TRY_LATER = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_TRY_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})
_OUR_FAULT = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE})


def seen_by_clients(error: ErrorCode) -> ErrorCode:
    """The error of an append as clients of a group know it: what to do next, not what went wrong in the log."""
    if error in _TRY_LATER:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _TRY_ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR if error in _OUR_FAULT else error


def failure_of(request: Any, error: ErrorCode) -> Any:
    """The answer to a request that waited for a failed append."""
    code = seen_by_clients(error)
    match request:
        case OffsetCommitRequest():
            return commit_refused(request, code)
        case OffsetDeleteRequest():
            return OffsetDeleteResponse(error_code=code)
        case LeaveGroupRequest():
            return LeaveGroupResponse(error_code=code)
        case DeleteGroups():
            return tuple(DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.group_ids)
        case FetchStableOffsets():
            # Consumers before 3.9 know COORDINATOR_NOT_AVAILABLE here as fatal.
            fatal = error in _TRY_LATER
            return ErrorCode.NOT_COORDINATOR if fatal else code
        case other:
            raise AssertionError(f"{type(other).__name__} never waits for an append")
