"""Does a tool of Kafka's that shares a JVM end and print as in a process of its own?"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.peers import kafka, shared_jvm

pytestmark = pytest.mark.java


@pytest.fixture
def tools() -> Iterator[shared_jvm.SharedTools]:
    """A JVM of this test's own."""
    with closing(shared_jvm.SharedTools()) as made:
        yield made


ENDS = {
    "an exit after a stack trace of the tool's": ["kafka-topics", "--nope"],
    "an exception that nobody catches": ["kafka-storage", "info", "-c", "/nowhere"],
    "the end of the JVM": ["kafka-cluster"],
    "an exit with 0": ["kafka-features", "version-mapping", "--release-version", "3.9"],
}


def test_a_tool_ends_and_prints_as_in_a_process_of_its_own(tools: shared_jvm.SharedTools) -> None:
    """Status, standard output and standard error, byte for byte, whichever way it ends and whatever ran before."""
    for way, (tool, *arguments) in ENDS.items():
        alone = kafka.run_main(kafka.TOOLS[tool], arguments, None, 120)
        shared = tools.run(kafka.TOOLS[tool], arguments, None, 120)
        found, wanted = ((each.returncode, each.stdout, each.stderr) for each in (shared, alone))
        assert found == wanted, way


def test_lines_of_standard_input_are_produced(tools: shared_jvm.SharedTools, shared_kafka: kafka.Kafka) -> None:
    """The console producer sends what it has when it is shut down, so its hooks have run when it has ended."""
    server = ["--bootstrap-server", shared_kafka.bootstrap]
    for lines in ("one\n", "zwölf\ndrei\n"):
        done = tools.run(kafka.TOOLS["kafka-console-producer"], [*server, "--topic", "shared-jvm"], lines, 120)
        assert done.returncode == 0, done.stderr
    read = kafka.run_tool(
        "kafka-console-consumer", *server, "--topic", "shared-jvm", "--from-beginning", "--max-messages", "3"
    )
    assert read.stdout == "one\nzwölf\ndrei\n"


def test_a_tool_that_hangs_costs_nobody_else_anything(tools: shared_jvm.SharedTools) -> None:
    """It is a `TimeoutExpired`, as of a process; the next tool has a new JVM."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = ["--bootstrap-server", f"127.0.0.1:{silent.getsockname()[1]}", "--list"]
        with pytest.raises(subprocess.TimeoutExpired):
            tools.run(kafka.TOOLS["kafka-topics"], asked, None, 1)
    done = tools.run(kafka.TOOLS["kafka-storage"], ["random-uuid"], None, 120)
    assert (done.returncode, len(done.stdout)) == (0, len("5L6g3nShT-eMCtK--X86sw\n"))
