"""The reports on their way into the topic, in order and at a steady pace, to the partitions in turn."""

from __future__ import annotations

import threading
import time
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.encode import RowColumns, encode_batches
from headrace.client.blocking import BlockingClient
from headrace.spark.demo.flights import PARTITIONS, Replay

_CHUNK_REPORTS: Final = 2_000


class Replayer(threading.Thread):
    """Writes a replay with an idempotent producer of its own; `sent` counts the reports handed over, `error` says why it stopped early."""

    def __init__(self, replay: Replay, *, servers: str, topic: str, reports_per_s: int) -> None:
        super().__init__(name="replay", daemon=True)
        self._replay = replay
        self._servers = servers
        self._topic = topic
        self._reports_per_s = reports_per_s
        self._should_stop = threading.Event()
        self.sent = 0
        self.is_done = False
        self.error: Exception | None = None

    def stop(self) -> None:
        """End before the next chunk."""
        self._should_stop.set()

    def run(self) -> None:
        """Write everything; the thread's body."""
        try:
            self._write()
            self.is_done = self.sent == len(self._replay.values)
        except Exception as error:  # noqa: BLE001 - the thread's edge: whoever started it raises the error
            self.error = error

    def _write(self) -> None:
        partitions = self._replay.reports["partition"].to_numpy()
        started = time.monotonic()
        with BlockingClient(self._servers, client_id="flights-replay") as client:
            producer = client.producer()
            for first in range(0, len(partitions), _CHUNK_REPORTS):
                if self._should_stop.wait(max(started + first / self._reports_per_s - time.monotonic(), 0.0)):
                    break
                chunk = partitions[first : first + _CHUNK_REPORTS]
                now_ms = time.time_ns() // 1_000_000
                for number in range(PARTITIONS):
                    rows = pa.array(np.flatnonzero(chunk == number) + first)
                    columns = RowColumns(value=self._replay.values.take(rows))
                    for batch in encode_batches(columns, now_ms=now_ms, settings=BatchSettings(codec=4)):
                        producer.send(self._topic, number, batch)
                producer.flush()
                self.sent += len(chunk)
