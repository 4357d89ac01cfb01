"""Which of several checkouts takes less of a node's CPU for a request? For a machine that is not quiet: short bursts go to the nodes in turn.

``python -m benchmarks.side_by_side CHECKOUT CHECKOUT ... [--load session] [--bursts 60] [--requests 200] [--poll off]``. A node of each checkout runs on tmpfs,
and one generator sends a burst to one after the other, so that what else the machine does falls on all alike. Shown are the CPU time of the node's event loop
(``/proc/PID/schedstat``) and the time that passed, in microseconds a request: the least, the tenth percentile, which says most, and the median of
the bursts. With busy polling a waiting node counts as well, so that it is off unless ``--poll`` says otherwise.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.peers import System
from benchmarks.wire_load import Connection, build_batch, end_offset, fetch_frame, fetched, produce_frame
from headrace.testing.node import free_ports

TOPIC = "side-by-side"
READ_BYTES = 64 << 10
_FILLED = 600

Burst = Callable[[int], None]
"""Sends so many requests and receives their answers."""


def start(checkout: Path, directory: Path, poll: str) -> System:
    """A node of that checkout."""
    port, controller_port = free_ports(2)
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
    command = [sys.executable, "-m", "headrace", "start"]
    for setting in (f"listeners={listeners}", f"log.dirs={directory / 'data'}", f"headrace.network.busy.poll={poll}"):
        command += ["--override", setting]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=checkout, env=environment)
    assert process.stdout is not None
    if not any("ready" in line for line in process.stdout):
        raise SystemExit(f"the node of {checkout} ended before it was ready")

    def stop() -> None:
        process.terminate()
        process.communicate(timeout=30)

    return System(checkout.name, f"127.0.0.1:{port}", process.pid, stop, 0.0)


def produce(system: System, records: int, size: int, in_flight: int) -> Burst:
    """Batches, `in_flight` of them at a time."""
    connection = Connection(system.bootstrap)
    frame = produce_frame(TOPIC, 0, build_batch(records, size, int(time.time() * 1000)), 1)

    def burst(requests: int) -> None:
        for number in range(requests + in_flight):
            if number >= in_flight:
                connection.receive()
            if number < requests:
                connection.socket.sendall(frame)

    return burst


def read(system: System, *, in_session: bool) -> Burst:
    """Fetches of 64 KB from the topic's start to its end, again and again."""
    produce(system, 10, 1000, 1)(_FILLED)
    connection = Connection(system.bootstrap)
    offset, session = 0, (0, 0 if in_session else -1)

    def burst(requests: int) -> None:
        nonlocal offset, session
        for _ in range(requests):
            connection.socket.sendall(fetch_frame(TOPIC, 0, offset, READ_BYTES, 0, session))
            answer = connection.receive()
            if in_session:
                session = (struct.unpack_from(">i", answer, 10)[0], session[1] + 1)
            high_watermark, batches = fetched(answer, TOPIC)
            following = end_offset(batches)
            offset = 0 if following is None or following >= high_watermark else following

    return burst


LOADS: dict[str, Callable[[System], Burst]] = {
    "session": partial(read, in_session=True),
    "fetch": partial(read, in_session=False),
    "produce-small": partial(produce, records=1, size=100, in_flight=5),
    "produce-one": partial(produce, records=1, size=100, in_flight=1),
    "produce-ten": partial(produce, records=10, size=1000, in_flight=5),
}


def loop_cpu_us(pid: int) -> float:
    """CPU time of a process's first thread so far."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e3


def spread(values: Sequence[float]) -> str:
    """The least, the tenth percentile, the median."""
    ordered = sorted(values)
    return " / ".join(f"{ordered[int(len(ordered) * share)]:.1f}" for share in (0, 0.1, 0.5))


def main(arguments: Sequence[str]) -> None:
    """Parse, measure, print a line a checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, help="directories with a checkout each")
    parser.add_argument("--load", choices=sorted(LOADS), default="session")
    parser.add_argument("--bursts", type=int, default=60)
    parser.add_argument("--requests", type=int, default=200, help="in each burst")
    parser.add_argument("--poll", choices=["on", "off", "auto"], default="off")
    options = parser.parse_args(arguments)
    base = Path(tempfile.mkdtemp(prefix="headrace-side-", dir="/dev/shm"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        systems: list[System] = []
        for number, checkout in enumerate(options.checkouts):
            systems.append(start(checkout.resolve(), base / str(number), options.poll))
            stack.callback(systems[-1].stop)
            systems[-1].create_topic(TOPIC)
        bursts = [LOADS[options.load](system) for system in systems]
        figures: list[list[tuple[float, float]]] = [[] for _ in systems]
        for number in range(-3, options.bursts):  # the first do not count
            places = range(len(systems))
            for place in places if number % 2 else reversed(places):
                cpu_us, began = loop_cpu_us(systems[place].pid), time.perf_counter()
                bursts[place](options.requests)
                passed_us, cpu_us = (time.perf_counter() - began) * 1e6, loop_cpu_us(systems[place].pid) - cpu_us
                if number >= 0:
                    figures[place].append((cpu_us / options.requests, passed_us / options.requests))
        for system, found in zip(systems, figures, strict=True):
            cpu, passed = zip(*found, strict=True)
            print(f"{options.load}, {system.name}: CPU us {spread(cpu)}, us {spread(passed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
