"""Do the brokers of `headrace start FILE --processes N` serve as one machine: one port, one page, one rack, restarted alone, stopped together?"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.cli.main import run
from headrace.cli.start_many import ManyOptions, run_many
from headrace.config.many_processes import Restarts
from headrace.core.errors import OperatorError
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import lasting_ports
from headrace.testing.metrics import scrape
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.roles import until

ELSEWHERE = 101
STATE = "kafka_server_kafkaserver_brokerstate"


def lines_of(directory: Path, voters: str, port: int, metrics: int) -> dict[str, str]:
    """The settings of a broker 5 in a directory."""
    return {
        "process.roles": "broker",
        "node.id": "5",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": str(directory / "data"),
        "headrace.metrics.listener": f"127.0.0.1:{metrics}",
        "broker.rack": "here",
    }


def write(directory: Path, settings: dict[str, str]) -> Path:
    """The properties file."""
    file = directory / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file


class Many:
    """The parent as a process, and what it and the brokers say."""

    def __init__(self, file: Path, count: int) -> None:
        command = [sys.executable, "-m", "headrace", "start", str(file), "--processes", str(count)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)

    def ready_line(self) -> str:
        """What it says when all are ready."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def children(self) -> dict[int, int]:
        """Process ids by node ids."""
        found: dict[int, int] = {}
        for each in Path("/proc").iterdir():
            try:
                words = (each / "cmdline").read_bytes().split(b"\0")
                parent = int((each / "stat").read_bytes().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == self.process.pid and b"headrace.cli.one_of_many" in words:
                [path] = [word for word in words if word.endswith(b".properties")]
                found[int(re.findall(rb"broker\.(\d+)\.", path)[0])] = int(each.name)
        return found

    def end(self) -> None:
        """Whatever it was about, and its brokers with it."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


@contextmanager
def many(file: Path, count: int) -> Iterator[Many]:
    """Brokers of a file."""
    made = Many(file, count)
    try:
        yield made
    finally:
        made.end()


def described(port: int) -> Any:
    """The cluster and the topic `t`, as who answers there has it."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=False)
    return ask("127.0.0.1", port, request, 12)


def test_brokers_of_one_file_are_one_machine(tmp_path: Path) -> None:
    """S1-49, S3-65: replicas are never two in one rack; any broker answers the file's port and tells the brokers' own; one that died comes back alone; all stop in the controlled way."""
    with Cluster(controllers=1, brokers=1, properties={"broker.rack": "elsewhere"}) as cluster:
        port, metrics = lasting_ports(2)
        file = write(tmp_path, lines_of(tmp_path, cluster.quorum_settings()["controller.quorum.voters"], port, metrics))
        assert run(["storage", "format", "-t", cluster.cluster_id, "-c", str(file)]) == 0
        with many(file, 2) as made:
            line = made.ready_line()
            assert re.match(
                rf"headrace: 2 brokers \(5 to 6\) ready in [\d.]+ s, all of them on PLAINTEXT://127.0.0.1:{port}, metrics on ",
                line,
            )
            answer = until(lambda: found if len((found := described(port)).brokers) == 3 else None)
            assert {each.node_id: (each.port, each.rack) for each in answer.brokers} == {
                5: (port + 100, "here"),
                6: (port + 200, "here"),
                ELSEWHERE: (cluster[ELSEWHERE].port, "elsewhere"),
            }
            topic = CreatableTopic(name="t", num_partitions=8, replication_factor=2)
            ask("127.0.0.1", port, CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7, timeout_s=65)
            placed = until(lambda: found if len(found := described(port).topics[0].partitions) == 8 else None)
            assert all(ELSEWHERE in each.replica_nodes for each in placed)
            assert {number for each in placed for number in each.replica_nodes} == {5, 6, ELSEWHERE}
            _write_all(port, 8)

            before = made.children()
            assert set(before) == {5, 6}
            os.kill(before[5], signal.SIGKILL)
            until(lambda: scrape("127.0.0.1", metrics).get('headrace_process_starts_total{process="5"}') == 2)
            described(port)  # the other one answers, or the new one
            until(lambda: scrape("127.0.0.1", metrics).get(f'{STATE}{{process="5"}}') == 3)
            after = made.children()
            assert (after[6], after[5] != before[5]) == (before[6], True)
            shown = scrape("127.0.0.1", metrics)
            assert [shown[f'headrace_process_up{{process="{each}"}}'] for each in (5, 6)] == [1, 1]
            assert {each for each in shown if each.startswith(STATE)} == {
                f'{STATE}{{process="{each}"}}' for each in (5, 6)
            }
            _write_all(port, 8)
            assert run(["stop", str(file)]) == 0  # SIGTERM to the parent
            assert made.process.wait(120) == 0
            assert not made.children()
        said = "".join(made.said)
        assert "broker 5 was ended by signal 9" in said
        for number in (5, 6):
            assert re.search(rf"\[{number}\] .*PENDING_CONTROLLED_SHUTDOWN", said)
        with many(file, 1) as made:  # fewer than before: the others' directories stay as they are
            made.ready_line()
            [pid] = made.children().values()
            made.process.kill()
            made.process.wait()
            ends_at = time.monotonic() + 60
            while _lives(pid):
                assert time.monotonic() < ends_at, "it has outlived its parent"
                time.sleep(0.02)


def _write_all(port: int, partitions: int) -> None:
    """A record to each partition, by a client that knows the shared port only."""
    failed: list[Any] = []
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": "all", "log_level": 0})
    for number in range(partitions):
        producer.produce(
            "t", b"x", partition=number, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert (producer.flush(120), failed) == (0, [])


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


def test_a_broker_that_cannot_run_is_given_up_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Somebody has its port: after some tries it is left, and the exit code says so."""
    monkeypatch.setattr(Restarts, "FIRST_S", 0.01)
    monkeypatch.setattr(Restarts, "QUICK_DEATHS", 2)
    port, metrics = lasting_ports(2)
    settings = lines_of(tmp_path, "1@127.0.0.1:9", port, metrics)
    with pytest.raises(OperatorError, match="is not formatted: run `headrace storage format` with this file first"):
        run_many(settings, ManyOptions(count=1))
    file = write(tmp_path, settings)
    assert run(["storage", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(file)]) == 0
    with socket.create_server(("127.0.0.1", port + 100)):
        assert run_many(settings, ManyOptions(count=1)) == 1
    said = capfd.readouterr().err
    assert f"PLAINTEXT://127.0.0.1:{port + 100} cannot be opened: " in said
    assert "broker 5 ended with exit code 1 after" in said
    assert "broker 5 ended with exit code 1 2 times in a row: GIVEN UP" in said
    (tmp_path / "data" / "orders-0").mkdir()
    with pytest.raises(OperatorError, match=r"holds partitions of a single broker \(orders-0\)"):
        run_many(settings, ManyOptions(count=1))
