"""The file `quorum-state`: who leads, and who got this node's vote.

JSON with `data_version` 0 (kraft.version 0: with the voters) or 1 (KIP-853: with the directory voted for). Source: B-R03.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.raft.events import QuorumState


def encode_quorum_state(state: QuorumState, *, kraft_version: int, voter_ids: Sequence[int]) -> bytes:
    """The file's bytes."""
    content: dict[str, Any]
    if kraft_version == 0:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
            "data_version": 0,
        }
    else:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": str(state.voted_directory_id or ZERO_UUID),
            "data_version": 1,
        }
    return json.dumps(content, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes, *, path: str, directory: str = "") -> QuorumState:
    """What the file of a log directory says. Raises StorageFault: damaged, or of a newer version (B76); a vote is never guessed."""
    try:
        content = json.loads(data)
    except ValueError as error:
        raise StorageFault(f"{path} is damaged: {error}", directory=directory) from None
    if not isinstance(content, dict):
        raise StorageFault(f"{path} is damaged: it is not a JSON object", directory=directory)
    version = content.get("data_version")
    if version not in (0, 1):
        raise StorageFault(f"{path} has data_version {version!r}; this node knows 0 and 1", directory=directory)
    directory_id: Uuid | None = None
    if version == 1:
        try:
            found = Uuid.parse(str(content.get("votedDirectoryId", str(ZERO_UUID))))
        except ValueError as error:
            raise StorageFault(f"{path} is damaged: votedDirectoryId: {error}", directory=directory) from None
        directory_id = found if found != ZERO_UUID else None
    number = partial(_number, content, path, directory)
    return QuorumState(
        leader_epoch=number("leaderEpoch"),
        leader_id=number("leaderId"),
        voted_id=number("votedId"),
        voted_directory_id=directory_id,
    )


def _number(content: dict[str, Any], path: str, directory: str, key: str) -> int:
    value = content.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**31:
        raise StorageFault(f"{path} is damaged: {key} is {value!r}", directory=directory)
    return value
