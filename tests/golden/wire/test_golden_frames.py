"""Do we read what real clients and nodes sent to each other, and write the same bytes? Where they come from: README.md."""

from __future__ import annotations

import lzma
from base64 import b64decode
from functools import cache
from pathlib import Path

import pytest

from headrace.wire import fetch, produce
from headrace.wire.codec import decode, decode_from, encode
from headrace.wire.headers import parse_request_header, parse_response_header, request_header, response_header
from headrace.wire.schema import Message
from headrace.wire.versions import APIS, request_class, response_class

HERE = Path(__file__).parent

Recorded = tuple[str, int, int, bytes]


@cache
def recorded() -> tuple[Recorded, ...]:
    """Direction, api key, version, frame."""
    lines = lzma.decompress((HERE / "frames.tsv.xz").read_bytes()).decode().splitlines()
    rows = (line.split("\t") for line in lines)
    return tuple((row[0], int(row[1]), int(row[2]), b64decode(row[3])) for row in rows)


def test_requests_are_read_and_written_alike() -> None:
    """B-W01: header and body of every recorded request; our own bytes are the client's."""
    for direction, key, version, frame in recorded():
        if direction == "request":
            header = parse_request_header(frame)
            message, end = decode_from(request_class(key), frame, header.body, version)
            assert end == len(frame)
            head = request_header(key, version, correlation_id=header.correlation_id, client_id=header.client_id)
            assert head + encode(message, version) == frame, (key, version, message)


def test_responses_are_read_and_written_alike() -> None:
    """B-W01: header and body of every recorded response; our own bytes are Kafka's."""
    for direction, key, version, frame in recorded():
        if direction == "response":
            correlation_id, start = parse_response_header(frame, api_key=key, api_version=version)
            message = decode(response_class(key), frame[start:], version)
            head = response_header(key, version, correlation_id=correlation_id)
            assert head + encode(message, version) == frame, (key, version, message)


def test_recorded_produce_and_fetch_go_through_their_own_codecs() -> None:
    """B-W01: the hand-made readers give what the compiled ones give."""
    seen = set()
    for direction, key, version, frame in recorded():
        if direction == "request" and key in (0, 1):
            start = parse_request_header(frame).body
            seen.add((key, version))
            if key == 0:
                found = produce.parse_produce(frame, start, version)
                plain = decode(request_class(0), frame[start:], version)
                parts = [part for topic in plain.topic_data for part in topic.partition_data]  # type: ignore[attr-defined]
                assert [(each.partition, each.records) for each in found.batches] == [
                    (p.index, p.records) for p in parts
                ]
            else:
                request = decode(_fetch_request(), frame[start:], version)
                assert fetch.parse_fetch(frame, start, version) == fetch.flatten(request, version)  # type: ignore[arg-type]
    assert len(seen) >= 4


def _fetch_request() -> type[Message]:
    return request_class(1)


@pytest.mark.parametrize("direction", ["request", "response"])
def test_the_recording_is_broad(direction: str) -> None:
    """The clients' apis, the admin's, the brokers' and the controllers': at least 50 apis each way."""
    assert len({APIS[key].name for found, key, _, _ in recorded() if found == direction}) >= 50
