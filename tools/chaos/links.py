"""Slow and lossy links between network namespaces: the kernel's netem does it better, but many kernels are built without.

A namespace gets a TUN device, the other end of which is a file here. While a link is slow, the route to the other namespace goes there: a thread takes
each packet, drops some, and hands the others to the target's own device a while later, in their order. TCP sees what it would on such a line.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from tests.support.namespaces import Network

TUN: Final = "/dev/net/tun"
DEVICE: Final = "slow0"
_SET_INTERFACE = 0x400454CA
_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
_LARGEST_PACKET = 65_536
_MOST_WAITING = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How bad one direction of a link is."""

    delay_ms: float
    jitter_ms: float
    loss: float

    def __str__(self) -> str:
        return f"{self.delay_ms:.0f}+{self.jitter_ms:.0f} ms, {self.loss:.0%} lost"


class SlowLinks:
    """The devices and the thread. Packets are matched by their target's address; as a context manager it is removed at the end."""

    def __init__(self, network: Network, numbers: tuple[int, ...], rng: random.Random) -> None:
        self._network = network
        self._rng = rng
        self._files: dict[int, int] = {}
        self._numbers = numbers
        self._by_address = {bytes(map(int, network.address(each).split("."))): each for each in numbers}
        self._qualities: dict[tuple[int, int], Quality] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._latest: dict[tuple[int, int], float] = {}
        self._count = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def slow(self, source: int, target: int, quality: Quality) -> None:
        """From now on what `source` sends to `target` goes this way."""
        self._qualities[source, target] = quality
        route = ("route", "replace", f"{self._network.address(target)}/32", "dev", DEVICE)
        self._network.run(source, *route, "src", self._network.address(source))

    def heal(self) -> None:
        """All links are as they were."""
        for source, target in list(self._qualities):
            self._network.run(source, "route", "del", f"{self._network.address(target)}/32", "dev", DEVICE)
            del self._qualities[source, target]

    def __enter__(self) -> Self:
        """Make the devices."""
        for number in self._numbers:
            device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
            self._files[number] = device
            outer = f"hr{os.getpid() % 100_000}s{number}"
            fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH14x", outer.encode(), _TUN_WITHOUT_HEADER))
            subprocess.run(["ip", "link", "set", outer, "netns", self._network.name(number)], check=True)
            self._network.run(number, "link", "set", outer, "name", DEVICE)
            self._network.run(number, "link", "set", DEVICE, "up")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A device goes with its file."""
        self._stopped.set()
        self._thread.join(10)
        for device in self._files.values():
            os.close(device)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for number, device in self._files.items():
                selector.register(device, selectors.EVENT_READ, number)
            while not self._stopped.is_set():
                now = time.monotonic()
                due = self._waiting[0][0] - now if self._waiting else 0.1
                for key, _ in selector.select(min(max(due, 0), 0.1)):
                    self._take(key.data, key.fd)
                self._deliver()

    def _take(self, source: int, device: int) -> None:
        for _ in range(64):
            try:
                packet = os.read(device, _LARGEST_PACKET)
            except OSError:
                return
            target = self._by_address.get(packet[16:20])
            quality = self._qualities.get((source, -1 if target is None else target))
            if target is None or quality is None or len(self._waiting) > _MOST_WAITING:
                continue  # not IPv4, or the link has just been healed: lost, as packets are
            if not self._network.is_cut(source, target) and self._rng.random() >= quality.loss:
                delay_ms = quality.delay_ms + self._rng.uniform(0, quality.jitter_ms)
                at = max(time.monotonic() + delay_ms / 1_000, self._latest.get((source, target), 0.0))
                self._latest[source, target] = at
                self._count += 1
                heapq.heappush(self._waiting, (at, self._count, target, packet))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(self._waiting)
            try:
                os.write(self._files[target], packet)
            except OSError:
                continue  # its queue is full: lost, as packets are
