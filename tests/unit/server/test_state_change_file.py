"""The file of state changes: bounded, written off the loop, and no harm to the node."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from headrace.broker.state_changes import StateChange
from headrace.cli.main import run
from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.server import state_change_file
from headrace.server.state_change_file import StateChangeFile


def change(number: int, **changes: object) -> StateChange:
    one = StateChange(
        number, "received", "leader", 1, "become-leader", "t", Uuid(bytes(16)), number, 1, 2, 5, 7, 99,
    )  # fmt: skip
    return one._replace(**changes)  # type: ignore[arg-type]


async def written(path: Path, count: int, *, max_bytes: int = 65_536, parts: int = 1) -> None:
    file = StateChangeFile(str(path), max_bytes)
    for part in range(parts):
        for number in range(count):
            file.take(change(part * count + number))
        await asyncio.sleep(0)
    await file.close()


def test_each_phase_is_a_line_and_nothing_is_lost_at_the_end(tmp_path: Path) -> None:
    """S3-08: what waits when the node stops is written; a file that is there goes on."""
    path = tmp_path / "changes"
    asyncio.run(written(path, 3))
    asyncio.run(written(path, 2))
    lines = [json.loads(each) for each in path.read_text().splitlines()]
    assert [each["partition"] for each in lines] == [0, 1, 2, 0, 1]
    assert lines[0] == {
        "ts": 0, "phase": "received", "role": "leader", "node": 1, "action": "become-leader", "topic": "t",
        "topicId": "AAAAAAAAAAAAAAAAAAAAAA", "partition": 0, "target": 1, "source": 2,
        "leaderEpoch": 5, "partitionEpoch": 7, "metadataOffset": 99,
    }  # fmt: skip


def test_the_files_are_bounded_and_read_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """inv:D10: two files of a set size, the older one with `.1`; the command reads it first."""
    monkeypatch.setattr(state_change_file, "_PART", 100)
    path = tmp_path / "changes"
    asyncio.run(written(path, 2_000))
    former = tmp_path / "changes.1"
    assert former.exists()
    assert path.stat().st_size + former.stat().st_size <= 2 * 65_536
    assert run(["state-changes", str(path), "--json"]) == 0
    numbers = [json.loads(each)["partition"] for each in capsys.readouterr().out.splitlines()]
    assert numbers == list(range(numbers[0], 2_000))
    assert (
        run(["state-changes", str(former), str(path), str(path), "--json"]) == 0
    )  # as a pattern says it: each line once
    assert [json.loads(each)["partition"] for each in capsys.readouterr().out.splitlines()] == numbers
    assert run(["state-changes", str(path), "--topic", "nowhere"]) == 0
    assert capsys.readouterr() == ("", "no change in these files fits the options\n")


def test_what_a_slow_disk_cannot_take_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """inv:M1: memory is bounded; who reads the file is told."""
    monkeypatch.setattr(state_change_file, "MOST_WAITING", 10)
    path = tmp_path / "changes"
    asyncio.run(written(path, 25))
    assert run(["state-changes", str(path), "--json"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 10
    assert "15 lines were left out" in captured.err


def test_a_disk_that_fails_ends_the_file_and_not_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It never harms the node: one warning, and no more lines. A path that cannot be opened stops the start with one line."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.server.state_change_file.os.write", full)
    with caplog.at_level(logging.WARNING, "headrace.server"):
        asyncio.run(written(tmp_path / "changes", 3, parts=2))
    assert ["No space left on device" in each.message for each in caplog.records] == [True]
    with pytest.raises(OperatorError, match=r"headrace\.state\.change\.file: .*No such file"):
        StateChangeFile(str(tmp_path / "missing" / "changes"), 65_536)


def test_the_backlog_is_what_is_not_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S3-10, B-T13: a line that is being written is none; a later decision about a replica takes the place of an earlier one."""
    phases = [
        change(1, phase="requested", node=9),
        change(1, phase="received", ts=2),
        change(1, phase="completed", ts=3),
        change(2, phase="requested", node=9),
        change(3, phase="received"),
        change(3, phase="failed", ts=5, cause="no room"),
        change(4, phase="received", partition_epoch=3),
        change(4, phase="completed", ts=5, partition_epoch=4),
    ]
    path = tmp_path / "changes"
    lines = [json.dumps(state_change_file.line_of(each)) for each in sorted(phases, key=lambda each: each.ts)]
    path.write_text("\n".join(lines) + '\n{"ts": 9, "pha')
    assert run(["state-changes", str(path), "--backlog", "--json"]) == 0
    found = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [(each["partition"], each["phase"]) for each in found] == [(2, "requested"), (3, "failed")]
