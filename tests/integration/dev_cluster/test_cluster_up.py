"""Does `headrace cluster up` run a cluster that another terminal breaks and mends, that stays on disk, and of which no process is left?"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import run
from headrace.core.errors import OperatorError
from headrace.testing.asking import ask
from headrace.testing.dev_cluster import DevCluster, Shape, order, read_state
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.roles import until

READY = re.compile(r"headrace cluster of (\d+) nodes? ready in [\d.]+ s, bootstrap servers (\S+)")


@contextmanager
def up(directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace cluster up` in a process of its own."""
    command = [sys.executable, "-m", "headrace", "cluster", "up", *arguments, "--port", "0", "--data", str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def ready(process: subprocess.Popen[str]) -> tuple[int, list[int]]:
    """How many nodes it says that it has, and the ports of its brokers, once it is ready."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if found := READY.search(line):
            ports = [int(each.rpartition(":")[2]) for each in found[2].split(",")]
            return int(found[1]), ports
    raise AssertionError("".join(lines))


def rest_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code, and what it said last."""
    text, _ = process.communicate(timeout=120)
    return process.returncode, text


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says."""
    assert run(["cluster", *arguments]) == 0
    return capsys.readouterr().out


def annoy(directory: Path) -> None:
    """Whoever is on the machine can connect; without the token nothing comes of it, whatever is said."""
    state = read_state(directory)
    assert state is not None
    for line in (
        b"",
        b"\xff\n",
        b"[" * 60_000 + b"\n",
        b"7\n",
        b"{}\n",
        '{"token": "é"}\n'.encode(),
        b'{"token": "\\ud800"}\n',
    ):
        with socket.create_connection(("127.0.0.1", state["port"]), 10) as connection:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""


def ends(pid: int) -> bool:
    """Whether the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return True


def test_a_cluster_is_broken_and_mended_from_another_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command; then the same directory again, with its topics, stopped by Ctrl-C: each node stops once, in the controlled way."""
    where = ("--data", str(tmp_path))

    def states() -> dict[int, tuple[str, list[int]]]:
        nodes = json.loads(told(capsys, "status", *where, "--json"))
        return {each["node"]: (each["state"], each["unheard_by"]) for each in nodes}

    with up(tmp_path, "2", "--override", "num.partitions=4") as process:
        count, [port, _] = ready(process)
        assert count == 2
        annoy(tmp_path)
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=60_000)
        answer = ask("127.0.0.1", port, request, 7, timeout_s=65)
        [made] = answer.topics
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 4, 2)
        assert told(capsys, "partition", "1", "2", "--one-way", *where) == "node 1 is not heard by 2\n"
        assert states() == {1: ("running", [2]), 2: ("running", [])}
        assert told(capsys, "partition", "2", "1", *where) == "node 2 is cut off from 1\n"
        assert states() == {1: ("running", [2]), 2: ("running", [1])}
        assert told(capsys, "heal", *where) == "every node hears every other one\n"
        assert told(capsys, "pause", "1", "2", *where) == "node 1 is paused\nnode 2 is paused\n"
        assert states() == {1: ("paused", []), 2: ("paused", [])}
        assert told(capsys, "resume", "1", "2", *where) == "node 1 goes on\nnode 2 goes on\n"
        assert told(capsys, "kill", "2", *where) == "node 2 is killed\n"
        assert states() == {1: ("running", []), 2: ("killed", [])}
        assert told(capsys, "restart", "2", *where) == "node 2 is ready\n"
        assert "127.0.0.1" in told(capsys, "status", *where)
        with pytest.raises(OperatorError, match="there is no node 3: the nodes are 1, 2"):
            run(["cluster", "kill", "3", *where])
        with pytest.raises(OperatorError, match=rf"a cluster runs in .* already \(process {process.pid}\)"):
            DevCluster(tmp_path, Shape(nodes=2, port=0))
        assert told(capsys, "down", *where) == "stopped\n"
        assert rest_of(process) == (0, "headrace cluster: stopped\n")
    with pytest.raises(OperatorError, match="no cluster runs in"):
        order(tmp_path, "status")
    with up(tmp_path, "2") as process:
        _, [port, _] = ready(process)
        until(
            lambda: (
                [each.name for each in ask("127.0.0.1", port, MetadataRequest(topics=None), 12).topics] == ["orders"]
            )
        )
        pids = [each["pid"] for each in order(tmp_path, "status")["nodes"]]
        process.send_signal(signal.SIGINT)
        assert rest_of(process) == (0, "headrace cluster: stopping\nheadrace cluster: stopped\n")
        assert all(map(ends, pids))
    for node_id in ("1", "2"):
        assert "PENDING_CONTROLLED_SHUTDOWN" in (tmp_path / node_id / "node.log").read_text().rpartition("ready in")[2]


def test_nodes_of_a_killed_parent_end(tmp_path: Path) -> None:
    """SIGKILL of the parent, while a node is paused and another one had ended by itself, which the parent tells."""
    with up(tmp_path, "--controllers", "1", "--brokers", "2") as process:
        count, ports = ready(process)
        assert (count, len(ports)) == (3, 2)
        nodes: dict[int, Any] = {each["node"]: each for each in order(tmp_path, "status")["nodes"]}
        assert {node_id: each["roles"] for node_id, each in nodes.items()} == {
            1: ["controller"],
            101: ["broker"],
            102: ["broker"],
        }
        subprocess.run(["kill", "-9", str(nodes[102]["pid"])], check=True)
        assert process.stdout is not None
        assert process.stdout.readline() == f"headrace cluster: node 102 killed: see {tmp_path}/102/node.log\n"
        order(tmp_path, "pause", nodes=[101])
        process.kill()
        process.wait()
        ends_at = time.monotonic() + 60
        while not all(ends(each["pid"]) for each in nodes.values()):
            assert time.monotonic() < ends_at, "a node has outlived its parent"
            time.sleep(0.02)
    with pytest.raises(OperatorError, match="has a cluster of the nodes 1, 101, 102: bring up the same ones"):
        DevCluster(tmp_path, Shape(nodes=3, port=0))


def test_ports_are_counted_from_the_first(tmp_path: Path) -> None:
    """Brokers from --port on, controllers 100 above, metrics 200; a file that nodes write is each one's own."""
    made = DevCluster(tmp_path / "a", Shape(nodes=2, port=31_000, has_metrics=True))
    assert [(each.port, each.controller_port, each.metrics_port) for each in made.cluster.brokers] == [
        (31_000, 31_100, 31_200),
        (31_001, 31_101, 31_201),
    ]
    overrides = {"headrace.state.change.file": "changes"}
    followed = DevCluster(tmp_path / "c", Shape(nodes=2, port=31_000, overrides=overrides)).cluster
    files = [each.properties["headrace.state.change.file"] for each in followed.brokers]
    assert files == [f"{tmp_path}/c/1/changes", f"{tmp_path}/c/2/changes"]
    apart = DevCluster(tmp_path / "b", Shape(controllers=1, brokers=2, port=31_000))
    members = apart.cluster.members
    assert {each: (members[each].port, members[each].controller_port) for each in members} == {
        1: (0, 31_100),
        101: (31_000, 0),
        102: (31_001, 0),
    }


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("up", "3", "--brokers", "2"), "either N nodes that are both, or --controllers and --brokers"),
        (("up", "--override", "what"), "--override what: write key=value"),
        (("up", "--override", "log.dirs=/d"), "--override log.dirs: each node has its own; --port and --data"),
        (("up", "--override", "headrace.state.change.file=/c"), "each node writes a file of its own: name one without"),
        (("partition", "a", "2"), "a: write ids of nodes, with commas between them"),
        (("partition", "1", "2"), "no cluster runs in headrace-cluster: `headrace cluster up` starts one"),
    ],
)
def test_bad_use_is_refused_in_a_line(
    arguments: tuple[str, ...], refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what to change."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OperatorError, match=refusal):
        run(["cluster", *arguments])
