"""The same requests about groups, answered by Headrace and by Apache Kafka 4.3.1 alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.testing import Node
from tests.integration.groups.scenarios import PROPERTIES, play
from tests.peers import kafka

GOLDEN = Path(__file__).parents[2] / "golden" / "groups" / "transcript.txt"


def answers(bootstrap: str) -> list[str]:
    """Every answer of a broker, one a line."""
    host, port = bootstrap.split(":")
    return play(host, int(port))


def test_headrace_answers_as_kafka_did() -> None:
    """B-P06: every group API, every version, right and wrong requests; G3, B23, B24, B27, B28."""
    with Node(properties=PROPERTIES) as node:
        assert answers(node.bootstrap_servers) == GOLDEN.read_text().splitlines()


@pytest.mark.java
def test_kafka_still_answers_so(tmp_path: Path) -> None:
    """B-P06: what the golden answers rest on."""
    with kafka.Kafka(tmp_path, properties=PROPERTIES, format_arguments=kafka.plain_features()) as running:
        assert answers(running.bootstrap) == GOLDEN.read_text().splitlines()
