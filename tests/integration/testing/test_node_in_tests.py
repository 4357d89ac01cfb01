"""Is a node for tests real, quick to have, and gone without a trace?"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer

from headrace.core.errors import OperatorError
from headrace.testing import Node

pytest_plugins = ["pytester"]


def round_trip(bootstrap: str) -> bytes:
    """One record in and out of a topic made by its first use."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("greetings", b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "log_level": 0}
    )
    try:
        consumer.subscribe(["greetings"])
        (message,) = consumer.consume(1, 20)
        assert message.error() is None
        value: bytes = message.value()
        return value
    finally:
        consumer.close()


@pytest.mark.parametrize("in_process", [True, False])
def test_a_node_serves_a_real_client_and_leaves_nothing_behind(in_process: bool) -> None:
    """The node answers, and after the block its port, files, thread and process are gone."""
    with Node(in_process=in_process) as node:
        directory, port, pid = node.directory, node.port, node.pid
        assert round_trip(node.bootstrap_servers) == b"hello"
        assert (node.data / "greetings-0").is_dir()
    assert not directory.exists()
    assert in_process or not psutil.pid_exists(pid)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("headrace")] == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_data_in_a_directory_of_ones_own_outlives_the_node(tmp_path: Path) -> None:
    """A kill and a clean stop both keep what was acknowledged."""
    first = Node(directory=tmp_path / "node").start()
    assert round_trip(first.bootstrap_servers) == b"hello"
    first.kill()
    with Node(directory=tmp_path / "node", in_process=True) as second:
        consumer = Consumer(
            {"bootstrap.servers": second.bootstrap_servers, "group.id": "other", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["greetings"])
        assert [message.value() for message in consumer.consume(1, 20)] == [b"hello"]
        consumer.close()


def test_two_nodes_run_side_by_side_in_one_process() -> None:
    """No state is shared between nodes."""
    with Node(in_process=True) as one, Node(in_process=True) as other:
        assert round_trip(one.bootstrap_servers) == round_trip(other.bootstrap_servers) == b"hello"


def test_settings_reach_the_node_and_bad_ones_are_refused() -> None:
    """S1-08, B75: the refusal says what to change."""
    with pytest.raises(OperatorError, match=r"log\.retention\.ms"):
        Node(properties={"log.retention.ms": "soon"}).start()


@pytest.mark.parametrize("in_process", [True, False])
def test_a_start_that_fails_leaves_nothing_behind(in_process: bool) -> None:
    """B75: somebody else has the port; the refusal names it, and the temporary directory goes."""
    node = Node(in_process=in_process)
    with (
        socket.create_server(("127.0.0.1", node.port)),
        pytest.raises(OperatorError, match=str(node.port)),
        node,
    ):
        pass
    assert not node.directory.exists()


def test_a_node_in_ones_own_process_cannot_be_killed() -> None:
    """The test's process would go with it."""
    with Node(in_process=True) as node:
        with pytest.raises(OperatorError, match="in_process=False"):
            node.kill()
        assert node.stop() == 0


def test_the_fixture_is_found_by_pytest(pytester: pytest.Pytester) -> None:
    """A user's test asks for ``headrace_node`` and gets one, without any import."""
    pytester.makepyfile(
        """
        import socket

        def test_it(headrace_node):
            host, port = headrace_node.bootstrap_servers.split(":")
            socket.create_connection((host, int(port)), 5).close()
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)
