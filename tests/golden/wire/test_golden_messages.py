"""Do we write and read every message as Apache Kafka 4.3.1's own classes do? Where the bytes come from: README.md."""

from __future__ import annotations

import json
import lzma
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from headrace.core.error_code import ErrorCode
from headrace.wire import headers
from headrace.wire.codec import decode, encode
from headrace.wire.json_view import from_json, to_json
from headrace.wire.schema import Message
from headrace.wire.versions import APIS
from tests.support.messages import all_messages, all_versions

HERE = Path(__file__).parent


@cache
def _classes() -> dict[str, type[Message]]:
    return {cls.__name__: cls for cls in all_messages()}


def _lines(name: str) -> Iterator[tuple[type[Message], int, bytes, object]]:
    for line in lzma.decompress((HERE / name).read_bytes()).decode().splitlines():
        cls, version, data, shown = line.split("\t")
        yield _classes()[cls], int(version), b64decode(data), json.loads(shown)


def _facts(kind: str) -> list[list[str]]:
    rows = (line.split("\t") for line in (HERE / "facts.tsv").read_text().splitlines())
    return [row[1:] for row in rows if row[0] == kind]


def test_every_message_decodes_from_kafkas_bytes_and_encodes_to_the_same() -> None:
    """B-W01, B-C00..B-C18, S1-42..S1-51, S1-54, S1-59, S0-29, S0-30, S0-34, S0-35, S0-49: bytes of every message and version, with arbitrary content, as Kafka's classes write them."""
    seen = set()
    for cls, version, data, shown in _lines("messages.tsv.xz"):
        message = decode(cls, data, version)
        assert encode(message, version) == data, (cls.__name__, version)
        assert to_json(message, version) == shown, (cls.__name__, version)
        seen.add((cls, version))
    assert seen == set(all_versions())


def test_kafkas_json_is_read_back_to_the_same_message() -> None:
    """Kafka's JSON converters: what they show is read, but for record batches, which they leave out."""
    for cls, version, data, shown in _lines("messages.tsv.xz"):
        if "ecords" not in json.dumps(shown):
            assert encode(from_json(cls, shown, version), version) == data, (cls.__name__, version)


def test_defaults_are_kafkas() -> None:
    """Every message with nothing set has Kafka's bytes and Kafka's JSON."""
    seen = set()
    for cls, version, data, shown in _lines("defaults.tsv.xz"):
        assert encode(cls(), version) == data, (cls.__name__, version)
        assert decode(cls, data, version) == cls(), (cls.__name__, version)
        assert to_json(cls(), version) == shown, (cls.__name__, version)
        seen.add((cls, version))
    assert seen == set(all_versions())


def test_error_numbers_are_kafkas() -> None:
    """B-W05: every error of Kafka's list has its number and is retriable as there; the project's own start at 10000."""
    kafkas = {int(number): (name, retriable == "true") for number, name, retriable in _facts("error")}
    assert {code.value: (code.name, code.is_retriable) for code in ErrorCode if code < 10_000} == kafkas
    assert [code.value for code in ErrorCode if code >= 10_000] == [10_001]


def test_every_number_of_the_ledger_is_there() -> None:
    """B-W05: the numbers that this product answers with."""
    used = (
        "1 3 5 6 7 8 9 17 19 20 21 35 36 37 38 39 40 41 42 44 45 46 47 55 70 71 73 74 75 77 78 80 83 84 85 95 96 98 99 "
        "100 101 102 103 104 107 108 114 115 119 125 126 127 10001"
    )
    assert {int(number) for number in used.split()} <= {code.value for code in ErrorCode}


def test_versions_and_headers_are_kafkas() -> None:
    """B-W01: of every api and version the request and response header version, and whether it is advertised."""
    rows = _facts("api")
    for key_text, name, version_text, request_header, response_header, is_stable in rows:
        key, version = int(key_text), int(version_text)
        assert APIS[key].name == name
        assert headers.request_header_version(key, version) == int(request_header)
        assert headers.response_header_version(key, version) == int(response_header)
        assert APIS[key].covers(version) == (is_stable == "true")
    ours = {(key, version) for key, api in APIS.items() for version in range(api.first, api.last + 1)}
    assert {(int(row[0]), int(row[2])) for row in rows} == {pair for pair in ours if APIS[pair[0]].listeners}


@pytest.mark.parametrize("name", ["messages.tsv.xz", "defaults.tsv.xz", "facts.tsv"])
def test_golden_files_are_small(name: str) -> None:
    """The golden bytes stay small enough to be read by a person who unpacks them."""
    assert (HERE / name).stat().st_size < 100_000
