"""Does `headrace start` start one node, say so in a line, and stop cleanly; and does it refuse with one line and exit code 1?"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.node import free_ports

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
TIMEOUT_S = 30
READY = re.compile(
    r"headrace node 1 ready in \d+\.\d\d s on PLAINTEXT://127\.0\.0\.1:(\d+), CONTROLLER://127\.0\.0\.1:\d+, data in (.*)"
)


def headrace(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


class Started:
    """`headrace start` in the foreground, ready."""

    def __init__(self, *arguments: str, cwd: Path) -> None:
        command = [sys.executable, "-m", "headrace", "start", *arguments]
        self.process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        self.before: list[str] = []
        self.line = self.process.stdout.readline().strip()
        while self.line and " ready in " not in self.line:
            self.before.append(self.line)
            self.line = self.process.stdout.readline().strip()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        try:
            return self.process.wait(TIMEOUT_S)
        finally:
            self.process.kill()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture
def ports() -> list[str]:
    client, controller = free_ports(2)
    return [
        "--override",
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "--override",
        f"controller.quorum.voters=1@127.0.0.1:{controller}",
    ]


@pytest.fixture
def server_properties(tmp_path: Path) -> Path:
    client, controller = free_ports(2)
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\nlog.dirs={tmp_path}/data\n"
    )
    return file


def test_without_a_file_it_formats_starts_and_stops(tmp_path: Path, ports: list[str]) -> None:
    """B-T01: one ready line with place, time and data; SIGTERM is a clean stop with exit code 0."""
    for _ in range(2):
        node = Started(*ports, cwd=tmp_path)
        assert node.before == []
        found = READY.fullmatch(node.line)
        assert found, node.line
        assert found[2] == str(tmp_path / "headrace-data")
        socket.create_connection(("127.0.0.1", int(found[1])), timeout=5).close()
        assert node.stop() == 0
        assert (tmp_path / "headrace-data/.kafka_cleanshutdown").exists()
        assert "cluster.id=" in (tmp_path / "headrace-data/meta.properties").read_text()


def test_a_second_process_on_one_directory_is_refused(tmp_path: Path, ports: list[str]) -> None:
    """B-K06, fault:D9: two running processes never hold one directory; the first is not disturbed."""
    node = Started(*ports, cwd=tmp_path)
    second = headrace("start", *ports, cwd=tmp_path)
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert "headrace-data" in line
    assert "another" in line
    assert node.stop() == 0


def test_with_a_file_an_unformatted_directory_is_refused(server_properties: Path) -> None:
    """B-K06, B-T01: as in Kafka; `--bootstrap` formats it (S4-19)."""
    where = server_properties.parent
    refused = headrace("start", str(server_properties), cwd=where)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert f"{where}/data does not exist: run `headrace storage format" in line
    assert not (where / "data").exists()
    node = Started(str(server_properties), "--bootstrap", cwd=where)
    assert any(f"Formatting metadata directory {where}/data" in line for line in node.before), node.before
    assert READY.fullmatch(node.line), node.line
    assert node.stop(signal.SIGINT) == 0


def test_a_port_in_use_is_said_in_one_line(server_properties: Path) -> None:
    """B75: which address, and exit code 1."""
    where = server_properties.parent
    assert headrace("storage", "format", "-t", CLUSTER, "-c", str(server_properties), cwd=where).returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{free_ports(1)[0]}"
        refused = headrace("start", str(server_properties), "--override", settings, cwd=where)
    assert refused.returncode == 1
    assert len(refused.stderr.splitlines()) == 1, refused.stderr
    assert f"127.0.0.1:{port}" in refused.stderr
    assert "stop what listens there, or give listeners another port" in refused.stderr


def test_files_of_somebody_else_are_left_alone(tmp_path: Path, ports: list[str]) -> None:
    """B75, B-T01: without a file there is nothing to run `storage format` with: the advice is another directory."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"meow")
    refused = headrace("start", "--data", "photos", *ports, cwd=tmp_path)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line == "headrace: photos holds files, but none of a node: give --data a new or an empty directory"
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.png"]


def test_a_node_that_lost_its_properties_is_not_told_to_be_no_node(tmp_path: Path, ports: list[str]) -> None:
    """B75, B-T01: its log is there, and a new directory would leave it behind."""
    (tmp_path / "mine" / "__cluster_metadata-0").mkdir(parents=True)
    refused = headrace("start", "--data", "mine", *ports, cwd=tmp_path)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line == (
        "headrace: mine holds the data of a node, but its meta.properties is gone: "
        "put that file back, or give --data another directory"
    )


def test_a_directory_that_cannot_be_made_is_said_in_one_line(tmp_path: Path, ports: list[str]) -> None:
    """B75: not writable, or a file stands in the way."""
    (tmp_path / "headrace-data").write_text("a file")
    refused = headrace("start", *ports, cwd=tmp_path)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "headrace-data" in line


def test_in_the_background_and_stopped_by_command(tmp_path: Path, ports: list[str]) -> None:
    """B-T01: -daemon returns when the node is ready; `headrace stop` waits until it is gone, and finds nothing twice."""
    environment = {**os.environ, "LOG_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "headrace", "start", "-daemon", *ports]
    started = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment
    )
    assert started.returncode == 0, started.stderr
    assert READY.fullmatch(started.stdout.strip())
    assert "ready in" in (tmp_path / "headrace-server.out").read_text()
    stopped = headrace("stop", *ports, cwd=tmp_path)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (0, "", "")
    assert (tmp_path / "headrace-data/.kafka_cleanshutdown").exists()
    again = headrace("stop", *ports, cwd=tmp_path)
    assert again.returncode == 1
    assert "no node to stop" in again.stderr


def test_a_daemon_that_fails_says_where_to_look(tmp_path: Path, ports: list[str]) -> None:
    """B-T01: exit code 1, and the reason in its output."""
    (tmp_path / "headrace-data").write_text("a file")
    failed = headrace("start", "-daemon", *ports, cwd=tmp_path)
    assert failed.returncode == 1
    assert "headrace-server.out says why" in failed.stderr
    assert "headrace-data" in (tmp_path / "headrace-server.out").read_text()


def test_optimised_python_is_refused(tmp_path: Path) -> None:
    """The node relies on its assertions."""
    command = [sys.executable, "-O", "-m", "headrace", "start"]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert refused.returncode == 1
    assert "without -O" in refused.stderr


def test_a_broker_without_controllers_gives_up(tmp_path: Path) -> None:
    """S1-13: after initial.broker.registration.timeout.ms the process exits, not with 0, and says why."""
    client, nobody = free_ports(2)
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker\nnode.id=5\nlisteners=PLAINTEXT://127.0.0.1:{client}\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{nobody}\nlog.dirs={tmp_path}/data\n"
        "initial.broker.registration.timeout.ms=1000\n"
    )
    assert headrace("storage", "format", "-t", CLUSTER, "-c", str(file), cwd=tmp_path).returncode == 0
    gave_up = headrace("start", str(file), cwd=tmp_path)
    assert gave_up.returncode == 1
    (line,) = [each for each in gave_up.stderr.splitlines() if "initial.broker.registration.timeout.ms" in each]
    assert "no controller accepted the registration" in line
    assert "Traceback" not in gave_up.stderr


def test_a_broker_that_still_looks_for_its_controller_stops_when_it_is_told_to(tmp_path: Path) -> None:
    """B-K12, B-K03: SIGTERM in the state STARTING ends the process at once and well; it was never ready."""
    client, nobody = free_ports(2)
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker\nnode.id=5\nlisteners=PLAINTEXT://127.0.0.1:{client}\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{nobody}\nlog.dirs={tmp_path}/data\n"
    )
    assert headrace("storage", "format", "-t", CLUSTER, "-c", str(file), cwd=tmp_path).returncode == 0
    command = [sys.executable, "-m", "headrace", "start", "--log-level", "info", str(file)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while "broker state: STARTING" not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said + rest
        assert " ready in " not in said + rest
        assert "Traceback" not in rest
    finally:
        process.kill()
        process.communicate()
