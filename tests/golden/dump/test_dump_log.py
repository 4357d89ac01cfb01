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
