"""Do we read what controllers of a real quorum say to each other, and write the same bytes? Where it comes from: README.md."""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.raft.events import QuorumState
from headrace.raft.quorum_state import decode_quorum_state
from headrace.wire.codec import decode, decode_from, encode
from headrace.wire.headers import parse_request_header, parse_response_header, request_header, response_header
from headrace.wire.versions import APIS, request_class, response_class

HERE = Path(__file__).parent
SCENARIOS = ("static", "dynamic")


class Row(NamedTuple):
    """One message of a recording."""

    at_ms: int
    connection: int
    node_id: int
    direction: str
    key: int
    version: int
    frame: bytes


@cache
def lines(scenario: str) -> tuple[str, ...]:
    """All lines of a recording."""
    return tuple(lzma.decompress((HERE / f"{scenario}.tsv.xz").read_bytes()).decode().splitlines())


@cache
def rows(scenario: str) -> tuple[Row, ...]:
    """Its messages."""
    found = []
    for line in lines(scenario):
        if not line.startswith("#"):
            at, connection, node_id, direction, key, version, frame = line.split("\t")
            found.append(
                Row(int(at), int(connection), int(node_id), direction, int(key), int(version), b64decode(frame))
            )
    return tuple(found)


def message_of(row: Row) -> Any:
    """The decoded message."""
    if row.direction == "request":
        return decode_from(request_class(row.key), row.frame, parse_request_header(row.frame).body, row.version)[0]
    _, start = parse_response_header(row.frame, api_key=row.key, api_version=row.version)
    return decode(response_class(row.key), row.frame[start:], row.version)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_message_is_read_and_written_alike(scenario: str) -> None:
    """B-R04 B-R07 B-R08 B-R09 B-R24 B-R25 B-R26 B-R27: our bytes are Kafka's, for all that controllers say."""
    for row in rows(scenario):
        body = encode(message_of(row), row.version)
        if row.direction == "request":
            header = parse_request_header(row.frame)
            head = request_header(
                row.key, row.version, correlation_id=header.correlation_id, client_id=header.client_id
            )
        else:
            correlation_id, _ = parse_response_header(row.frame, api_key=row.key, api_version=row.version)
            head = response_header(row.key, row.version, correlation_id=correlation_id)
        assert head + body == row.frame, row[:6]


def test_the_versions_that_controllers_use() -> None:
    """B-R04 B-R07 B-R08 B-R09: what Apache Kafka 4.3.1 chooses among its own kind."""
    used = {
        (APIS[row.key].name, row.version)
        for scenario in SCENARIOS
        for row in rows(scenario)
        if row.direction == "request"
    }
    assert used >= {
        ("ApiVersions", 4),
        ("Fetch", 18),
        ("FetchSnapshot", 1),
        ("Vote", 2),
        ("BeginQuorumEpoch", 1),
        ("EndQuorumEpoch", 1),
        ("UpdateRaftVoter", 0),
        ("AddRaftVoter", 1),
        ("RemoveRaftVoter", 0),
        ("ControllerRegistration", 0),
    }


def test_a_vote_is_asked_for_in_advance() -> None:
    """B-R27: pre-vote in the present epoch, then the vote in the next."""
    asked: dict[int, list[tuple[int, bool]]] = {}
    for row in rows("static"):
        if APIS[row.key].name == "Vote" and row.direction == "request":
            part = message_of(row).topics[0].partitions[0]
            asked.setdefault(part.replica_id, []).append((part.replica_epoch, part.pre_vote))
    assert asked
    for votes in asked.values():
        granted = [epoch for epoch, is_pre in votes if not is_pre]
        assert all((epoch - 1, True) in votes for epoch in granted)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_quorum_state_is_read(scenario: str) -> None:
    """B-R03: both versions of the file, in every state that was seen."""
    texts = [line.partition(": ")[2] for line in lines(scenario) if "quorum-state of" in line]
    assert texts
    for text in texts:
        found = json.loads(text)
        assert decode_quorum_state(text.encode(), path="quorum-state") == QuorumState(
            leader_epoch=found["leaderEpoch"],
            leader_id=found["leaderId"],
            voted_id=found["votedId"],
            voted_directory_id=_voted_directory(found),
        )


def _voted_directory(found: dict[str, Any]) -> Uuid | None:
    directory_id = Uuid.parse(found.get("votedDirectoryId", str(ZERO_UUID)))
    return None if directory_id == ZERO_UUID else directory_id
