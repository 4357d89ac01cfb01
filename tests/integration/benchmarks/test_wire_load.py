"""The load generator's modes run, and say what they measured."""

from __future__ import annotations

import json

import pytest

from benchmarks import wire_load
from headrace.testing import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.raw import RawConnection

SHORT = ["--seconds", "0.5", "--warm-up", "0.1", "--record-size", "100"]


@pytest.mark.parametrize(
    ("arguments", "figures"),
    [
        (["produce", "--records", "10"], {"requests/s", "MB/s", "ms"}),
        (["produce", "--records", "10", "--connections", "3"], {"requests/s", "MB/s", "ms"}),
        (["produce", "--records", "10", "--neighbour"], {"requests/s", "MB/s", "ms"}),
        (["paced", "--records", "1", "--connections", "20", "--rate", "200"], {"requests/s", "ms"}),
    ],
)  # fmt: skip
def test_a_load_runs_and_is_counted(
    arguments: list[str], figures: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One connection, several, beside a neighbour, and paced: how fast is for a quiet machine."""
    with Node(in_process=True) as node:
        with RawConnection(node.port) as admin:
            topic = CreatableTopic(name="load", num_partitions=1, replication_factor=1)
            assert admin.ask(CreateTopicsRequest(topics=(topic,)), 5).topics[0].error_code == 0
        mode, *options = arguments
        wire_load.main([mode, "--bootstrap", node.bootstrap_servers, "--topic", "load", *SHORT, *options])
    found = json.loads(capsys.readouterr().out)
    assert found["mode"] == mode
    assert figures <= set(found)
    assert found["requests/s"] > 0
