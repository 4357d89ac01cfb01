"""Can a node be stopped before it is up, and does it say so when it cannot go on?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.rpc.reply import AnyReply, Deferred
from headrace.server.formatting import FormatOrder, format_directories, random_cluster_id
from headrace.server.node_server import NodeServer
from headrace.server.ready import StoppedEarly
from headrace.server.run import new_event_loop
from headrace.storage.os_files import OsFiles
from headrace.testing.node import free_ports


@pytest.fixture
def config(tmp_path: Path) -> NodeConfig:
    """Of a formatted node."""
    import random

    port, controller_port = free_ports(2)
    found = parse_node_config(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(tmp_path / "data"),
        }
    )
    rng = random.SystemRandom()
    order = FormatOrder(cluster_id=random_cluster_id(rng))
    format_directories(found, order, files=OsFiles(), rng=rng, date="now")
    return found


def run(test: Callable[[], Awaitable[None]]) -> None:
    """On the loop that nodes run on."""

    async def main() -> None:
        await test()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("turns", range(8))
def test_a_stop_in_the_middle_of_the_start_ends_it(config: NodeConfig, turns: int) -> None:
    """B-K12: whatever the start has come to: the addresses are free again, and the directories are not locked."""

    async def test() -> None:
        server = NodeServer(config, started_at=time.monotonic())
        loop = asyncio.get_running_loop()

        def later(left: int) -> None:
            if left:
                loop.call_soon(later, left - 1)
            else:
                server.begin_stop()

        later(turns)
        with pytest.raises(StoppedEarly):
            await server.start()
        again = NodeServer(config, started_at=time.monotonic())
        ready = await again.start()
        assert ready.node_id == 1
        again.begin_stop()
        await again.wait_stopped()
        assert again.failure is None

    run(test)


def test_a_bug_in_what_time_brings_stops_the_node(config: NodeConfig) -> None:
    """A failed assert is a bug of ours: the process ends and says so, it does not go on without a part of itself."""

    async def test() -> None:
        server = NodeServer(config, started_at=time.monotonic())
        await server.start()
        broker = server.machine.broker
        assert broker is not None

        def broken() -> AnyReply:
            raise AssertionError("planted")

        broker.purgatory.watch(Deferred(deadline_ms=0, on_timeout=broken), (), lambda: False)
        await server.wait_stopped()
        assert server.failure is not None
        assert "planted" in server.failure

    run(test)
