"""How fast does a broker answer at the protocol's level? One load, one line of JSON; any Kafka-compatible broker.

Frames are built once and sent as they are, so that the broker is measured and not a client library::

    python -m benchmarks.wire_load produce --bootstrap H:P --topic T [--records 900] [--record-size 1000] [--in-flight 5] [--connections 1]
    python -m benchmarks.wire_load fetch   --bootstrap H:P --topic T [--partition-bytes 1048576]
    python -m benchmarks.wire_load session --bootstrap H:P --topic T [--partition-bytes 1048576]
    python -m benchmarks.wire_load e2e     --bootstrap H:P --topic T [--rate 1000] [--record-size 100]
    python -m benchmarks.wire_load paced   --bootstrap H:P --topic T [--connections 200] [--rate 2000] [--records 1] [--record-size 100]

With ``--neighbour`` another process copies memory all the time meanwhile.

The generator's own sockets are not paced: under BBR, many machines' default, a connection between two local processes settles by chance on a
fraction of what the broker takes (6 to 25 Gbit/s from run to run), and the load would measure that. Other generators leave it to the machine.

Latencies are milliseconds; in e2e and paced they count from when a request was due to be sent, so that a stall is not hidden.
"""

from __future__ import annotations

import argparse
import collections
import json
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import crc32c

RECEIVE_BYTES = 8 << 20
SMALL_RECEIVE_BYTES = 64 << 10


def zigzag(value: int) -> bytes:
    """A signed varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append((value & 127) | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_batch(count: int, size: int, now_ms: int) -> bytes:
    """One uncompressed batch of ``count`` records with values of ``size`` bytes and no keys."""
    records = bytearray()
    for index in range(count):
        value = bytes((index * 7 + at) & 255 for at in range(size))
        body = b"\0" + zigzag(0) + zigzag(index) + zigzag(-1) + zigzag(size) + value + zigzag(0)
        records += zigzag(len(body)) + body
    tail = struct.pack(">hiqqqhii", 0, count - 1, now_ms, now_ms, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, crc32c.crc32c(tail)) + tail


def text(value: str) -> bytes:
    """A string with a two-byte length."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """A request with header version 1 and its length in front."""
    head = struct.pack(">hhi", api_key, version, 1) + text("headrace-bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_frame(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    """Produce version 7 of one batch."""
    body = (
        struct.pack(">hhii", -1, acks, 30_000, 1) + text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
    )
    return frame(0, 7, body)


def fetch_frame(
    topic: str, partition: int, offset: int, partition_bytes: int, wait_ms: int, session: tuple[int, int] = (0, -1)
) -> bytes:
    """Fetch version 11 of one partition; `session` is (id, epoch), or the one that means none."""
    body = struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, *session) + struct.pack(">i", 1) + text(topic)
    return frame(
        1,
        11,
        body + struct.pack(">iiiqqi", 1, partition, -1, offset, -1, partition_bytes) + struct.pack(">i", 0) + text(""),
    )


class Connection:
    """One connection that hands out whole answers without copying them."""

    def __init__(self, bootstrap: str, *, receive_bytes: int = RECEIVE_BYTES) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 10)
        self.socket.settimeout(30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_bytes == RECEIVE_BYTES:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        if hasattr(socket, "TCP_CONGESTION"):
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        self._buffer = bytearray(receive_bytes)
        self._view = memoryview(self._buffer)
        self._low = self._high = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive(self) -> memoryview:
        """The next answer without its length; valid until the next call. Raises SystemExit when the peer closes."""
        while True:
            have = self._high - self._low
            if have >= 4:
                size: int = struct.unpack_from(">i", self._buffer, self._low)[0]
                if have >= size + 4:
                    start = self._low + 4
                    self._low = start + size
                    return self._view[start : start + size]
            if self._low and (have == 0 or len(self._buffer) - self._high < 1 << 20):
                self._buffer[:have] = bytes(self._view[self._low : self._high])
                self._low, self._high = 0, have
            count = self.socket.recv_into(self._view[self._high :])
            if not count:
                raise SystemExit("the broker closed the connection")
            self._high += count

    def answers(self) -> int:
        """How many whole answers one read brings; for a socket that has something to read and answers that are small."""
        count = self.socket.recv_into(self._view[self._high :])
        if not count:
            raise SystemExit("the broker closed the connection")
        self._high += count
        found = 0
        while self._high - self._low >= 4:
            size: int = struct.unpack_from(">i", self._buffer, self._low)[0]
            if self._high - self._low < size + 4:
                break
            self._low += size + 4
            found += 1
        left = bytes(self._view[self._low : self._high])
        self._buffer[: len(left)] = left
        self._low, self._high = 0, len(left)
        return found


def quantiles_ms(seconds: Sequence[float]) -> dict[str, float | None]:
    """p50, p99, p99.9 and the largest, in milliseconds."""
    ordered = sorted(seconds)

    def at(share: float) -> float | None:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3) if ordered else None

    return {"p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999), "max": at(1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What to send; sizes in bytes, times in seconds."""

    bootstrap: str
    topic: str
    records: int = 900
    record_size: int = 1000
    in_flight: int = 5
    acks: int = 1
    partition_bytes: int = 1 << 20
    rate: int = 1000
    connections: int = 1
    seconds: float = 8.0
    warm_up: float = 1.0


def produce(load: Load) -> dict[str, object]:
    """Keep ``in_flight`` requests on each connection; partition 0."""
    request = produce_frame(
        load.topic, 0, build_batch(load.records, load.record_size, int(time.time() * 1000)), load.acks
    )
    latencies: list[float] = []
    with ExitStack() as stack:
        connections = [stack.enter_context(Connection(load.bootstrap)) for _ in range(load.connections)]
        begin = time.perf_counter() + load.warm_up
        jobs = [partial(_keep_in_flight, load, each, request, (begin, latencies)) for each in connections]
        if len(jobs) == 1:
            jobs[0]()
        else:
            _together(jobs)
    per_second = len(latencies) / load.seconds
    megabytes = per_second * load.records * load.record_size / 1e6
    return {"requests/s": round(per_second), "MB/s": round(megabytes, 1), "ms": quantiles_ms(latencies)}


def _keep_in_flight(load: Load, connection: Connection, request: bytes, counted: tuple[float, list[float]]) -> None:
    begin, latencies = counted
    error_at = 4 + 4 + 2 + len(load.topic) + 4 + 4
    end = begin + load.seconds
    sent: collections.deque[float] = collections.deque()
    send, receive, clock = connection.socket.sendall, connection.receive, time.perf_counter
    for _ in range(load.in_flight):
        send(request)
        sent.append(clock())
    while True:
        answer = receive()
        now = clock()
        (error,) = struct.unpack_from(">h", answer, error_at)
        if error:
            raise SystemExit(f"produce error {error}")
        if now >= end:
            break
        took = now - sent.popleft()
        if now >= begin:
            latencies.append(took)
        send(request)
        sent.append(clock())


def fetched(answer: memoryview, topic: str) -> tuple[int, memoryview]:
    """The high watermark and the batches of a response for one partition. Raises SystemExit if it is an error."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
    error, high_watermark = struct.unpack_from(">hq", answer, at)
    if error:
        raise SystemExit(f"fetch error {error}")
    at += 2 + 8 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + max(aborted, 0) * 16 + 4
    (size,) = struct.unpack_from(">i", answer, at)
    return high_watermark, answer[at + 4 : at + 4 + max(size, 0)]


def end_offset(batches: memoryview) -> int | None:
    """The offset after the last whole batch, or None when there is none."""
    at, following = 0, None
    while at + 61 <= len(batches):
        base, size = struct.unpack_from(">qi", batches, at)
        if at + 12 + size > len(batches):
            break
        following = base + struct.unpack_from(">i", batches, at + 23)[0] + 1
        at += 12 + size
    return following


def fetch(load: Load, *, in_session: bool = False) -> dict[str, object]:
    """Read partition 0 from its start to its end, again and again; in one incremental fetch session as Java consumers and followers do (KIP-227), or without."""
    with Connection(load.bootstrap) as connection:
        return _fetch(load, connection, in_session=in_session)


def _fetch(load: Load, connection: Connection, *, in_session: bool) -> dict[str, object]:
    begin = time.perf_counter() + load.warm_up
    end = begin + load.seconds
    offset = requests = volume = 0
    session = (0, 0 if in_session else -1)
    while True:
        connection.socket.sendall(fetch_frame(load.topic, 0, offset, load.partition_bytes, 0, session))
        answer = connection.receive()
        if in_session:
            error, session_id = struct.unpack_from(">hi", answer, 8)
            if error:
                raise SystemExit(f"fetch session error {error}")
            session = (session_id, session[1] + 1)
        high_watermark, batches = fetched(answer, load.topic)
        following = end_offset(batches)
        now = time.perf_counter()
        if now >= end:
            break
        if now >= begin:
            requests += 1
            volume += len(batches)
        offset = 0 if following is None or following >= high_watermark else following
    return {"requests/s": round(requests / load.seconds), "MB/s": round(volume / load.seconds / 1e6, 1)}


def _log_end(connection: Connection, topic: str) -> int:
    connection.socket.sendall(frame(2, 1, struct.pack(">ii", -1, 1) + text(topic) + struct.pack(">iiq", 1, 0, -1)))
    offset: int = struct.unpack_from(">q", connection.receive(), 4 + 4 + 2 + len(topic) + 4 + 4 + 2 + 8)[0]
    return offset


def _together(jobs: Sequence[Callable[[], None]]) -> None:
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except (OSError, SystemExit, struct.error) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failures:
        time.sleep(0.05)
    if failures:
        raise SystemExit(f"failed: {failures[0]!r}")


def e2e(load: Load) -> dict[str, object]:
    """One producer at a fixed rate, one long-polling fetcher: from due time to arrival."""
    reader, writer = Connection(load.bootstrap), Connection(load.bootstrap)
    first = _log_end(reader, load.topic)
    total = int(load.rate * load.seconds)
    start = time.perf_counter() + 0.5
    latencies: list[float] = []
    request = produce_frame(load.topic, 0, build_batch(1, load.record_size, int(time.time() * 1000)), load.acks)
    error_at = 4 + 4 + 2 + len(load.topic) + 4 + 4

    def consume() -> None:
        offset = first
        while offset < first + total:
            reader.socket.sendall(fetch_frame(load.topic, 0, offset, 1 << 20, 500))
            _, batches = fetched(reader.receive(), load.topic)
            now = time.perf_counter()
            following = end_offset(batches)
            if following:
                latencies.extend(now - (start + (each - first) / load.rate) for each in range(offset, following))
                offset = following

    def acknowledge() -> None:
        for _ in range(total):
            (error,) = struct.unpack_from(">h", writer.receive(), error_at)
            if error:
                raise SystemExit(f"produce error {error}")

    def send() -> None:
        for index in range(total):
            wait = start + index / load.rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            writer.socket.sendall(request)

    _together([consume, acknowledge, send])
    return {"rate": load.rate, "records": total, "ms": quantiles_ms(latencies[len(latencies) // 10 :])}


def paced(load: Load) -> dict[str, object]:
    """``rate`` requests a second in all, each connection at its turn, whatever became of its last one; from due time to answer."""
    request = produce_frame(
        load.topic, 0, build_batch(load.records, load.record_size, int(time.time() * 1000)), load.acks
    )
    with ExitStack() as stack, selectors.DefaultSelector() as poller:
        connections = [
            stack.enter_context(Connection(load.bootstrap, receive_bytes=SMALL_RECEIVE_BYTES))
            for _ in range(load.connections)
        ]
        latencies = _pace(load, connections, request, poller)
    return {"requests/s": round(len(latencies) / load.seconds), "ms": quantiles_ms(latencies)}


def _pace(load: Load, connections: Sequence[Connection], request: bytes, poller: selectors.BaseSelector) -> list[float]:
    """Seconds from when a request was due to its answer, of those that count."""
    due: dict[Connection, collections.deque[float]] = {each: collections.deque() for each in connections}
    for each in connections:
        poller.register(each.socket, selectors.EVENT_READ, each)
    start = time.perf_counter() + 0.2
    begin, end = start + load.warm_up, start + load.warm_up + load.seconds
    total = int((load.warm_up + load.seconds) * load.rate)
    latencies: list[float] = []
    sent = answered = 0
    while answered < total:
        now = time.perf_counter()
        while sent < total and (at := start + sent / load.rate) <= now:
            connection = connections[sent % len(connections)]
            connection.socket.sendall(request)
            due[connection].append(at)
            sent += 1
        wait = start + sent / load.rate - time.perf_counter() if sent < total else 5.0
        ready = poller.select(max(wait, 0.0))
        if not ready and sent == total:
            raise SystemExit("no answer for five seconds")
        for key, _ in ready:
            for _ in range(key.data.answers()):
                at = due[key.data].popleft()
                answered += 1
                if begin <= at < end:
                    latencies.append(time.perf_counter() - at)
    return latencies


MODES: dict[str, Callable[[Load], dict[str, object]]] = {
    "produce": produce,
    "fetch": fetch,
    "session": partial(fetch, in_session=True),
    "e2e": e2e,
    "paced": paced,
}


def _start_neighbour(seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "benchmarks.neighbour", str(seconds)])


def main(arguments: Sequence[str]) -> None:
    """Parse, run one load, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=sorted(MODES))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("records", "record_size", "in_flight", "acks", "partition_bytes", "rate", "connections"):
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, default=getattr(Load(bootstrap="", topic=""), name)
        )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before anything is counted")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that copies memory all the time")
    options = vars(parser.parse_args(arguments))
    mode = options.pop("mode")
    neighbour = (
        _start_neighbour(2 * (options["seconds"] + options["warm_up"]) + 5) if options.pop("neighbour") else None
    )
    try:
        print(json.dumps({"mode": mode, **MODES[mode](Load(**options))}))
    finally:
        if neighbour is not None:
            neighbour.terminate()
            neighbour.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
