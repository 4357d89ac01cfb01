"""Do the quick way and the thorough way of an append take and refuse the same batches?"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.ports import Appended, AppendRefused
from headrace.records.batch import set_crc
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, SMALL, append, batch, open_log, open_store

PLAIN = replace(SMALL, segment_bytes=1 << 20)
CHECKED = replace(PLAIN, validate_records=True)
FIELDS = {
    "base offset": (0, ">q", (0, 1, -1)),
    "length": (8, ">i", (0, 48, 49, 60, 2**31 - 1)),
    "magic": (16, ">b", (0, 1, 2, 3)),
    "attributes": (21, ">h", (0, 1, 5, 7, 8, 16, 32, 64, 128, -1)),
    "last offset delta": (23, ">i", (0, 1, -1, 2**31 - 1)),
    "record count": (57, ">i", (0, 1, 2, -1)),
    "base timestamp": (27, ">q", (-1, NOW_MS, NOW_MS + 4_000_000)),
    "producer id": (43, ">q", (-2, -1, 7)),
    "sequence": (53, ">i", (-1, 0, 5)),
}


def outcome(log: StoredLog, field: str, value: int) -> object:
    """The error of a batch with this field, or that it was appended."""
    at, form, _ = FIELDS[field]
    data = bytearray(batch(b"v"))
    struct.pack_into(form, data, at, value)
    set_crc(data, 0, len(data))
    done = log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
    return done.error if isinstance(done, AppendRefused) else type(done)


def opened(directory: Path, config: LogConfig) -> StoredLog:
    """A log that has a batch, so that there is a quick way."""
    log = open_log(open_store(directory, config), config)
    append(log, batch(b"first"))
    return log


@pytest.mark.parametrize("field", FIELDS)
def test_both_ways_agree_on_each_field(tmp_path: Path, field: str) -> None:
    """One checker says what a sound header is."""
    quick, thorough = opened(tmp_path / "quick", PLAIN), opened(tmp_path / "thorough", CHECKED)
    values = FIELDS[field][2]
    given = [value for value in values if not (field == "attributes" and value in (1, 8))]  # opened by one way only
    found = [outcome(quick, field, value) for value in given]
    assert found == [outcome(thorough, field, value) for value in given]
    assert any(isinstance(each, type) and issubclass(each, Appended) for each in found) or field == "length"
