"""Do the tools say which addresses they tried, and what to look at, where no cluster is?"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from headrace.cli import shell
from headrace.cli.main import main
from headrace.testing import Node

SERVER_TOOLS = (
    "topics --list",
    "brokers",
    "broker-api-versions",
    "cluster cluster-id",
    "configs --describe --entity-type brokers",
    "console-consumer --topic t",
    "consumer-groups --list",
    "consumer-perf-test --topic t --num-records 1",
    "features describe",
    "get-offsets --topic t",
    "history",
    "leader-election --election-type preferred --all-topic-partitions",
    "log-dirs --describe",
    "producer-perf-test --topic t --num-records 1 --record-size 1 --throughput -1",
    "quorum describe --status",
    "reassign-partitions --list",
)
CONTROLLER_TOOLS = (
    "brokers",
    "cluster cluster-id",
    "cluster decommission --id 1",
    "configs --describe --entity-type brokers",
    "features describe",
    "history",
    "plan --broker-gone 1",
    "quorum describe --status",
    "reassign-partitions --list",
)
TOOLS = [
    *((f"{tool} --bootstrap-server", "a broker") for tool in SERVER_TOOLS),
    *((f"{tool} --bootstrap-controller", "a controller") for tool in CONTROLLER_TOOLS),
    ("metadata-shell ls --controllers", "a controller"),
]
EVERY_TOOL = pytest.mark.parametrize(("tool", "listener"), TOOLS, ids=[tool for tool, _ in TOOLS])


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nobody listens."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where connections are taken, and never answered."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def other() -> Iterator[str]:
    """An address where somebody speaks another protocol."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=_refuse_all, args=(listening,), daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def _refuse_all(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listening.accept()
            with peer, suppress(OSError):
                peer.recv(1024)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first contact may take half a second."""
    monkeypatch.setattr(shell, "FIRST_CONTACT_MS", 500)


def said(tool: str, address: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The last line on standard error of a tool that fails. Options of a group stand before its commands."""
    words, _, option = tool.rpartition(" ")
    name, *rest = words.split()
    place = 0 if name in ("quorum", "features", "metadata-shell") else len(rest)
    with pytest.raises(SystemExit) as ended:
        main([name, *rest[:place], option, address, *rest[place:]])
    assert ended.value.code == 1
    return capfd.readouterr().err.strip().splitlines()[-1]


@EVERY_TOOL
def test_every_tool_names_an_address_where_nobody_listens(
    tool: str, listener: str, dead: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-77: at once; `history` and `decommission` waited for a minute, and named no address then."""
    assert said(tool, dead, capfd) == (
        f"no node of the cluster can be reached ({dead}: connection refused): check that {listener} listens there"
    )


@pytest.mark.usefixtures("quick")
@EVERY_TOOL
def test_every_tool_names_an_address_that_does_not_answer(
    tool: str, listener: str, silent: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-77: after some seconds; it was a minute."""
    assert said(tool, silent, capfd) == (
        f"no node of the cluster can be reached ({silent}: no answer came in time): check that {listener} listens there, "
        "and that it speaks PLAINTEXT (security.protocol)"
    )


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A broker and a controller, each with its listener."""
    with Node(in_process=True) as running:
        yield running


def test_every_tool_says_that_a_broker_listens_where_a_controller_was_wanted(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-77, KIP-919: at once, and who listens at a controller's address; `history` waited for a minute, and named no address."""
    place = node.bootstrap_servers
    wanted = (
        f"{place} is the listener of a broker: give a controller's, which has the name in controller.listener.names "
        "(controller.quorum.bootstrap.servers says where)"
    )
    tools = [tool for tool, listener in TOOLS if listener == "a controller"]
    assert {tool: said(tool, place, capfd) for tool in tools} == dict.fromkeys(tools, wanted)


def test_every_tool_says_that_a_controller_listens_where_a_broker_was_wanted(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    """S1-77: most said that the node does not support Metadata; `features` went on, where Kafka's refuses."""
    place = f"127.0.0.1:{node.controller_port}"
    wanted = f"{place} is the listener of a controller: give a broker's, whose name is not in controller.listener.names"
    tools = [tool for tool, listener in TOOLS if listener == "a broker"]
    found = {tool: said(tool, place, capfd) for tool in tools}
    assert {tool: told for tool, told in found.items() if not told.endswith(wanted)} == {}


@EVERY_TOOL
def test_an_empty_address_is_refused(tool: str, listener: str, capfd: pytest.CaptureFixture[str]) -> None:
    """S1-77: a variable of the shell that is not set is no wish for the default address."""
    option = tool.rpartition(" ")[2]
    told = said(tool, "", capfd)
    assert option in told
    assert told.endswith(": it is empty: give host:port")


@pytest.mark.parametrize("tool", ["topics --list --command-config", "history --command-config"])
def test_an_empty_address_in_a_file_is_refused(tool: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """S1-77: the default address is for who names none."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=\n")
    assert said(tool, str(file), capfd).startswith("No resolvable bootstrap urls given in bootstrap.servers")


@pytest.mark.usefixtures("quick")
def test_an_address_of_another_protocol_is_told(other: str, capfd: pytest.CaptureFixture[str]) -> None:
    """S1-77: a web server, say, or a listener of TLS."""
    told = said("topics --list --bootstrap-server", other, capfd)
    assert told.startswith(
        f"no node of the cluster can be reached ({other}: the peer does not answer in Kafka's protocol"
    )


@pytest.mark.usefixtures("quick")
def test_every_address_that_was_tried_is_named(dead: str, silent: str, capfd: pytest.CaptureFixture[str]) -> None:
    """S1-77: each with what came of it."""
    told = said("topics --list --bootstrap-server", f"{dead},{silent}", capfd)
    assert f"({dead}: connection refused; {silent}: no answer came in time)" in told


def test_a_request_timeout_that_is_longer_is_the_patience_of_tools() -> None:
    """Who says that a cluster is slow is not told after five seconds that there is none."""
    waits = [
        shell.first_contact_ms(given) for given in ({}, {"request.timeout.ms": "1500"}, {"request.timeout.ms": "60000"})
    ]
    assert waits == [5_000, 5_000, 60_000]
