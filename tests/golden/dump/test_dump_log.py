"""Does `headrace dump-log` print what kafka-dump-log prints for Kafka's own files?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "kafka-4.3.1.json").read_text())
# Records that a decoder cannot read are explained in our own words.
OWN_WORDS = "Error at"
# The tool dies with an exception; ours names what does not fit.
DIES = "index-0/00000000000000000000.index"


@pytest.mark.parametrize("case", CASES, ids=[case["arguments"] for case in CASES])
def test_kafka_prints_the_same(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B-T09: batches, records, decoders, indexes, snapshots, damaged files: the same lines and the same exit code."""
    monkeypatch.chdir(HERE / "data")
    code = run(["dump-log", *case["arguments"].split()])
    printed = capsys.readouterr()
    if case["arguments"].endswith(DIES):
        assert code == 0
        assert "Index offset: 5, log offset: -1" in printed.err
        return
    assert code == case["exit_code"]
    ours, kafkas = printed.out.splitlines(), case["stdout"].splitlines()
    assert [line.partition(OWN_WORDS)[0] for line in ours] == [line.partition(OWN_WORDS)[0] for line in kafkas]


def test_every_batch_and_record_is_there_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """B-T09: `--json` is one document a file."""
    monkeypatch.chdir(HERE / "data")
    files = "plain-0/00000000000000000000.log,plain-0/00000000000000000000.index,txn-0/00000000000000000003.txnindex"
    assert run(["dump-log", "--json", "--print-data-log", "--files", files]) == 0
    log, index, transactions = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [batch["count"] for batch in log["batches"]] == [10, 10, 10]
    assert log["batches"][0]["records"][1]["key"] == "k1"
    assert index["entries"] == [{"offset": 19, "position": 250}, {"offset": 29, "position": 508}]
    assert len(transactions["entries"]) == 1


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        pytest.param((8, b"\0\0\0\1"), {"position": 508, "batches": [10, 10], "invalid": 267}, id="length"),
        pytest.param((16, b"\7"), {"position": 508, "batches": [10, 10], "invalid": 267}, id="magic"),
        pytest.param(
            (61, b"\xff\xff\xff\xff"), {"position": 508, "batches": [10, 10, 0], "invalid": None}, id="record"
        ),
    ],
)
def test_what_is_before_the_damage_is_shown(
    damage: tuple[int, bytes], left: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B-T09: and where the damage is: as lines, and in JSON, which was nothing at all."""
    data = bytearray((HERE / "data/plain-0/00000000000000000000.log").read_bytes())
    at, spoilt = damage
    data[508 + at : 508 + at + len(spoilt)] = spoilt
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    assert run(["dump-log", "--json", "--deep-iteration", "--files", str(path)]) == 1
    printed = capsys.readouterr()
    shown = json.loads(printed.out)
    assert [len(batch["records"]) for batch in shown["batches"]] == left["batches"]
    assert (shown["error"]["position"], shown.get("invalidBytes")) == (left["position"], left["invalid"])
    assert printed.err == f"{path} is damaged at position 508: {shown['error']['message']}\n"
    assert run(["dump-log", "--deep-iteration", "--files", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"Error at position 508: {shown['error']['message']}" in lines
    assert sum(line.startswith("baseOffset") for line in lines) == len(shown["batches"])


def test_bytes_behind_the_last_batch_are_told_in_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a crash: no damage, as for Kafka's tool."""
    monkeypatch.chdir(HERE / "data")
    assert run(["dump-log", "--json", "--files", "torn-0/00000000000000000000.log"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["invalidBytes"], len(shown["batches"]), "error" in shown) == (192, 2, False)
