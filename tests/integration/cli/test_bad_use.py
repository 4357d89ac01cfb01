"""B78: what does a person see who mistypes, or pipes into a program that stops reading?"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import Node
from headrace.testing.node import free_ports
from tests.support.commands import headrace, refusal


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with Node(in_process=True) as node:
        yield node.bootstrap_servers


NOBODY_NEEDS: dict[str, list[str]] = {
    "topics": ["--list"],
    "configs": ["--describe", "--topic", "t"],
    "console-consumer": ["--topic", "t"],
    "consumer-groups": ["--list"],
    "groups": ["--list"],
    "get-offsets": [],
    "log-dirs": ["--describe"],
    "broker-api-versions": [],
    "features": ["describe"],
    "cluster": ["cluster-id"],
    "producer-perf-test": ["--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"],
    "consumer-perf-test": ["--topic", "t", "--num-records", "1"],
}


@pytest.mark.parametrize("tool", NOBODY_NEEDS)
def test_b78_no_cluster_there_is_one_line(tool: str) -> None:
    """B78: no cluster at the address: one line that names it, exit code 1, at once."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    rest = NOBODY_NEEDS[tool]
    arguments = [*rest[:1], "-b", address] if tool == "cluster" else ["--bootstrap-server", address, *rest]
    done = headrace(tool, *arguments)
    assert done.code == 1
    lines = [line for line in done.err.splitlines() if not line.startswith("Processed a total")]
    assert len(lines) == 1, done
    assert address in lines[0]
    assert "refused" in lines[0]


def test_b78_addresses_that_are_none_are_refused() -> None:
    """B78: hosts without a port, hosts nobody knows, two kinds of address."""
    assert "expected host:port" in refusal("topics", "--list", "--bootstrap-server", "localhost")
    assert "cannot resolve" in refusal("topics", "--list", "--bootstrap-server", "no.such.host.invalid:9092")
    both = ["--bootstrap-server", "h:1", "--bootstrap-controller", "h:2"]
    assert "both" in refusal("features", *both, "describe")


def test_b78_another_protocol_at_the_address_is_told(tmp_path: Path) -> None:
    """B78: a wrong port where something else listens."""
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=200\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        line = refusal("topics", "--list", "--bootstrap-server", address, "--command-config", str(quick))
    assert "300 ms" in line


def test_s1_77_a_file_configures_the_client(server: str, tmp_path: Path) -> None:
    """S1-77, B78: the properties file is read; one that is missing, no text, or asks for what we have not is refused."""
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms=20000\nclient.id=me\n")
    assert headrace("cluster", "cluster-id", "-b", server, "-c", str(file)).code == 0
    file.write_text("request.timeout.ms=soon\n")
    assert "request.timeout.ms=soon" in refusal("cluster", "cluster-id", "-b", server, "-c", str(file))
    file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n")
    assert "PLAIN" in refusal("topics", "--list", "--bootstrap-server", server, "--command-config", str(file))
    assert "No such file" in refusal(
        "topics", "--list", "--bootstrap-server", server, "--command-config", str(file) + "x"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["topics"],
        ["topics", "--nonsense"],
        ["topics", "--list", "--describe"],
        ["topics", "--create", "--partitions", "many"],
        ["configs", "--alter", "--topic", "t"],
        ["configs", "--describe"],
        ["consumer-groups", "--describe"],
        ["consumer-groups", "--reset-offsets", "--group", "g", "--topic", "t"],
        ["console-consumer"],
        ["console-consumer", "--topic", "t", "--include", "u"],
        ["console-consumer", "--topic", "t", "--offset", "5"],
        ["console-producer"],
        ["cluster"],
        ["cluster", "nonsense"],
        ["cluster", "unregister"],
        ["features", "nonsense"],
        ["features", "upgrade"],
        ["delete-records"],
        ["get-offsets", "--time", "soon"],
        ["log-dirs"],
        ["producer-perf-test", "--topic", "t", "--num-records", "1", "--throughput", "-1"],
        ["consumer-perf-test", "--topic", "t"],
        ["completion", "cmd.exe"],
    ],
    ids=" ".join,
)
def test_b78_command_lines_that_make_no_sense_end_with_1_and_no_stack_trace(arguments: list[str]) -> None:
    """B78, S1-74: an unknown word or a missing option: exit code 1, no stack trace."""
    done = headrace(
        *arguments,
        *(["--bootstrap-server", "127.0.0.1:1"] if len(arguments) > 1 and arguments[0] != "completion" else []),
    )
    assert done.code == 1
    assert "Traceback" not in done.err + done.out
    assert done.err or done.out


@pytest.mark.parametrize("name", ["a b", "a;rm -rf", "$(id)", "a/b", "..", "x" * 250, "é", "a\nb", "`id`", ""])
def test_b78_names_with_shell_characters_are_refused_by_the_cluster(server: str, name: str) -> None:
    """B78, B26: names are handed on as they are and refused in one line."""
    done = headrace("topics", "--bootstrap-server", server, "--create", "--topic", name)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1


def test_b78_patterns_that_are_none_are_refused(server: str) -> None:
    """B78: a regular expression that cannot be compiled."""
    assert "invalid regex" in refusal("topics", "--bootstrap-server", server, "--list", "--topic", "(")


def test_b78_files_of_a_mebibyte_lists_and_repeats_are_refused(server: str, tmp_path: Path) -> None:
    """B78: 1 MiB JSON, JSON that is a list, repeated keys."""
    file = tmp_path / "offsets.json"
    row = {"topic": "t", "partition": 0, "offset": 1}
    for text in (
        "[]",
        json.dumps({"partitions": [row, row]}),
        '{"partitions": "' + "x" * (1 << 20) + '"}',
        "{" * 100_000,
    ):
        file.write_text(text)
        line = refusal("delete-records", "--bootstrap-server", server, "--offset-json-file", str(file))
        assert len(line) < 500


@pytest.mark.parametrize(
    "command",
    [
        ("delete-records", "--offset-json-file"),
        ("reassign-partitions", "--execute", "--reassignment-json-file"),
        ("reassign-partitions", "--generate", "--broker-list", "1", "--topics-to-move-json-file"),
        ("leader-election", "--election-type", "preferred", "--path-to-json-file"),
        ("plan", "--reassignment"),
        ("plan", "apply"),
    ],
    ids=" ".join,
)
def test_b78_a_file_that_is_no_json_is_named_with_the_place(
    server: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """B78: file, line and column; it was said of an input string."""
    file = tmp_path / "moves.json"
    file.write_text('{"version": 1,\n "partitions": [}')
    name, *rest = command
    assert refusal(name, "--bootstrap-server", server, *rest, str(file)) == (
        f"{file} is not a valid JSON: line 2, column 17: Expecting value"
    )


def test_b78_a_move_to_where_nobody_is_says_where_somebody_is(server: str, tmp_path: Path) -> None:
    """B78: a broker that does not run, a directory that is none of the broker's; a proposal says whom it leaves out."""
    tool = ("reassign-partitions", "--bootstrap-server", server)
    assert (
        headrace("topics", "--bootstrap-server", server, "--create", "--topic", "moves", "--wait-ms", "9000").code == 0
    )
    file = tmp_path / "moves.json"
    row = {"topic": "moves", "partition": 0, "replicas": [9]}
    file.write_text(json.dumps({"partitions": [row]}))
    execute = (*tool, "--execute", "--reassignment-json-file", str(file))
    assert refusal(*execute) == "Unknown broker id 9: the brokers that run are 1"
    file.write_text(json.dumps({"partitions": [row | {"replicas": [1], "log_dirs": ["/nowhere"]}]}))
    said = headrace(*execute).err
    assert "LOG_DIR_NOT_FOUND: /nowhere is none of the log.dirs of broker 1, which `headrace log-dirs" in said
    file.write_text(json.dumps({"topics": [{"topic": "moves"}], "version": 1}))
    proposed = headrace(*tool, "--generate", "--topics-to-move-json-file", str(file), "--broker-list", "1,9")
    assert (proposed.code, proposed.err) == (
        0,
        "Not running, so nothing is proposed for them: 9 of --broker-list\n",
    )


def test_b78_output_closed_early_is_no_error_shown(server: str) -> None:
    """B78: `headrace console-consumer ... | head -1`: no stack trace, and the command ends."""
    lines = "".join(f"{number}\n" for number in range(50_000))
    sent = headrace("console-producer", "--bootstrap-server", server, "--topic", "pipe", "--timeout", "0", stdin=lines)
    assert sent.code == 0, sent
    command = f"{sys.executable} -m headrace console-consumer --bootstrap-server {server} --topic pipe --from-beginning | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "0\n"
    assert "Traceback" not in done.stderr
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    for words in (["broker-api-versions"], ["plan", "--broker-gone", "1"]):  # the latter is a table
        listing = [sys.executable, "-m", "headrace", *words, "--bootstrap-server", server]
        reads, writes = os.pipe()
        os.close(reads)
        with os.fdopen(writes, "wb") as nobody_reads:
            listed = subprocess.run(
                listing, stdout=nobody_reads, stderr=subprocess.PIPE, env=buffered, timeout=60, check=False
            )
        assert (words, listed.returncode, listed.stderr) == (words, 141, b"")  # as one that SIGPIPE ended


def test_a_consumer_that_is_stopped_commits_and_leaves(server: str) -> None:
    """SIGTERM ends the console consumer as Ctrl-C does: what was printed is committed, the group is left."""
    sent = headrace(
        "console-producer", "--bootstrap-server", server, "--topic", "stop", "--timeout", "0", stdin="a\nb\n"
    )
    assert sent.code == 0, sent
    command = [
        sys.executable,
        "-m",
        "headrace",
        "console-consumer",
        "--bootstrap-server",
        server,
        "--topic",
        "stop",
        "--group",
        "stopped",
    ]
    with subprocess.Popen(
        [*command, "--from-beginning"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == ["a\n", "b\n"]
        os.kill(process.pid, signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    assert "Processed a total of 2 messages" in err
    assert "Traceback" not in err
    described = headrace("consumer-groups", "--bootstrap-server", server, "--describe", "--group", "stopped", "--json")
    (group,) = json.loads(described.out)
    assert group["state"] == "Empty"
    assert [(row["currentOffset"], row["lag"]) for row in group["offsets"]] == [(2, 0)]
