"""What did two programs that speak Kafka's protocol say to each other? A proxy between them that keeps the frames."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader
from headrace.wire.headers import peek_request

LARGEST_FRAME = 100 << 20


@dataclass(frozen=True)
class Frame:
    """One message on its way, without its length. `api_version` of a response is that of its request."""

    direction: str
    api_key: int
    api_version: int
    body: bytes
    connection: int = 0


class RecordingProxy:
    """Listens on a port of 127.0.0.1, passes everything on to another, and gives each frame to `keep`.

    Runs in a thread of its own; used as a context manager.
    """

    def __init__(self, *, port: int, target: int, keep: Callable[[Frame], None]) -> None:
        self._port, self._target, self._keep = port, target, keep
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0

    def __enter__(self) -> RecordingProxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self._port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        number = self._connections
        waiting: dict[int, deque[tuple[int, int]]] = {}
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return

        def request(body: bytes) -> None:
            start = peek_request(body)
            waiting.setdefault(start.correlation_id, deque()).append((start.api_key, start.api_version))
            self._keep(Frame("request", start.api_key, start.api_version, body, number))

        def response(body: bytes) -> None:
            asked = waiting.get(int.from_bytes(body[:4], "big", signed=True))
            if asked:
                self._keep(Frame("response", *asked.popleft(), body, number))

        await asyncio.gather(
            self._pass_on(reader, back, FrameReader(largest=LARGEST_FRAME), request),
            self._pass_on(there, writer, FrameReader(largest=LARGEST_FRAME, smallest=SMALLEST_RESPONSE), response),
        )
        self._tasks.discard(task)

    @staticmethod
    async def _pass_on(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: FrameReader, keep: Callable[[bytes], None]
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                for frame in frames.feed(data):
                    keep(bytes(frame))
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
