"""Are feature levels moved on our quorum as on Kafka's: what may go up and down, what is said, how the commands end?

What Kafka 4.3.1 says of itself is in `tests/golden/features`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.server.formatting import FormatOrder
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.golden.features.record import block
from tests.peers import kafka
from tests.support.commands import headrace

GOLDEN = Path(__file__).parents[2] / "golden" / "features" / "kafka-4.3.1.txt"
ALSO_ASKED_BY_KAFKAS_TOOL = {
    "downgrade --unsafe --feature metadata.version=18",
    "upgrade --metadata 3.8",
    "downgrade --release-version 3.7-IV3",
    "upgrade --release-version 3.8-IV0",
    "downgrade --metadata 3.7-IV1 --dry-run",
    "downgrade --unsafe --metadata 3.7-IV1",
    "disable --feature group.version",
    "upgrade --release-version 3.9",
    "downgrade --release-version 3.8",
}
"""What moves a level, and the refusals that the cluster words. Each is asked once."""


class OlderMember(Member):
    """A node that is formatted as a cluster of release 3.8-IV0: metadata.version 20, every other feature at 0."""

    def format(self, order: FormatOrder, quorum: Mapping[str, str]) -> None:
        """Format the log directory."""
        super().format(replace(order, metadata_version=20), quorum)


class OlderCluster(Cluster):
    """One static voter, which is a broker too, and has the id that Kafka's own answers name."""

    def make(self, node_id: int, roles: frozenset[str], directory: Path) -> Member:
        """The node of an id."""
        return OlderMember(node_id=node_id, roles=roles, directory=directory)


@pytest.fixture
def older() -> Iterator[Cluster]:
    with OlderCluster(controllers=1, combined=True) as cluster:
        yield cluster


def golden() -> dict[str, list[str]]:
    """The blocks of the golden file by command; one that is given twice has two."""
    found: dict[str, list[str]] = {}
    for text in GOLDEN.read_text().split("$ ")[1:]:
        found.setdefault(text.partition("\n")[0], []).append(f"$ {text}")
    return found


def levels(cluster: Cluster) -> dict[str, int]:
    """The finalised levels that are not 0."""
    door = ["--bootstrap-controller", cluster.bootstrap_controllers]
    described = json.loads(headrace("features", *door, "describe", "--json").out)
    return {each["feature"]: each["finalizedVersionLevel"] for each in described if each["finalizedVersionLevel"]}


def test_every_command_does_and_says_what_kafkas_tool_does_to_a_kafka(
    older: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """B-T08, B-U02, B-C11: upgrades and downgrades by level and by release, tried, done and refused, safe and unsafe."""
    said: list[str] = []
    commands = [text.partition("\n")[0] for text in GOLDEN.read_text().split("$ ")[1:]]
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main(["features", "--bootstrap-server", older.bootstrap_servers, *command.split()])
        printed = capsys.readouterr()
        assert isinstance(end.value.code, int)
        said.append(block(command, end.value.code, printed.out, printed.err))
    assert "".join(said) == GOLDEN.read_text()
    assert levels(older) == {"metadata.version": 21, "kraft.version": 1}
    older.restart(1)
    assert levels(older) == {"metadata.version": 21, "kraft.version": 1}


@pytest.mark.java
def test_kafkas_tool_moves_levels_of_ours_and_hears_the_same(older: Cluster) -> None:
    """B-T08, B-U02: a downgrade that loses nothing is done, one that could lose something is refused, safe or unsafe."""
    expected = golden()
    door = ["--bootstrap-server", older.bootstrap_servers]
    for command in (each for each in expected if each in ALSO_ASKED_BY_KAFKAS_TOOL):
        done = kafka.run_tool("kafka-features", *door, *command.split())
        assert block(command, done.returncode, done.stdout, done.stderr) == expected[command][0]
    assert levels(older) == {"metadata.version": 21, "kraft.version": 1}
