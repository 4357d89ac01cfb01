"""The journal of a real node, fed to a fresh one (`headrace debug replay`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.core.errors import OperatorError
from headrace.node.journal import read_journal
from headrace.sim.replay import replay
from headrace.testing.node import Node
from headrace.wire.messages import create_topics
from tests.support.raw import RawConnection


def create(node: Node, names: list[str]) -> None:
    """Topics, one after the other."""
    with RawConnection(node.port) as connection:
        for name in names:
            topic = create_topics.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            response = connection.ask(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7)
            assert response.topics[0].error_code == 0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of a node that made topics, was restarted, and made more; snapshots are small."""
    path = tmp_path / "journal"
    properties = {"headrace.journal.file": str(path), "metadata.log.max.record.bytes.between.snapshots": "2000"}
    with Node(directory=tmp_path / "data", properties=properties, in_process=True) as node:
        create(node, [f"before-{number}" for number in range(5)])
    with Node(directory=tmp_path / "data", properties=properties, in_process=True) as node:
        create(node, [f"after-{number}" for number in range(20)])
    return path


def test_a_journal_gives_the_same_effects_again(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S4-01 B-R01: what a node did can be done again from its journal, on another machine."""
    assert run(["debug", "replay", str(journal), "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    assert "every event had the same effects as in the journal" in shown
    assert "resigned of epoch 2" in shown  # the node was stopped cleanly


def test_a_changed_event_is_told(journal: Path, tmp_path: Path) -> None:
    """The replay says at which event the node does something else."""
    lines = journal.read_text().splitlines()
    changed = next(
        number for number, line in enumerate(lines) if '"RecordsOffered' not in line and "LogFlushed" in line
    )
    other = json.loads(lines[changed])
    other["effects"] += 1
    lines[changed] = json.dumps(other)
    again = replay(read_journal(lines, path="journal"), path="journal")
    assert again.events == changed
    assert "other effects" in again.difference


def test_a_journal_that_was_cut_off_is_replayed_as_far_as_it_goes(journal: Path) -> None:
    """A crash may leave half a line at the end."""
    text = journal.read_text()[:-20]
    assert replay(read_journal(text.splitlines(keepends=True), path="journal"), path="journal").difference == ""


@pytest.mark.parametrize(
    "text", ["", "{}\n", "no json\n", '{"format":1,"start":{"object":"os:system","of":{}},"files":{}}\n']
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """B78: a file that is no journal is refused in one line, and makes nothing but values of ours."""
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(OperatorError):
        run(["debug", "replay", str(path)])
