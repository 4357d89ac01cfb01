"""How do processes on one machine get a network that can be cut: a namespace each, joined by a bridge?

Linux, root and iproute2 are needed; `missing()` says what is not there. A cut is one way and silent: the sender is given a
hardware address that nobody has, so its packets go nowhere and nothing tells it so. Frames the other way arrive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from headrace.testing.member import Place

_NOWHERE: Final = "02:00:00:00:00:fe"
_LARGEST = 200


def missing() -> str:
    """What this machine lacks for namespaces; empty when nothing."""
    if shutil.which("ip") is None:
        return "the program ip (package iproute2)"
    if os.geteuid() != 0:
        return "root (network namespaces are made with ip netns)"
    name = f"hr{os.getpid()}probe"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"the right to make network namespaces: {tried.stderr.strip()}"
    bridge = f"hrp{os.getpid()}"
    linked = _try("ip", "link", "add", bridge, "type", "bridge")
    _try("ip", "link", "del", bridge)
    _try("ip", "netns", "del", name)
    return "" if linked == "" else f"bridges in the kernel: {linked}"


class Network:
    """Namespaces with the numbers 1, 2, ..., each with an address that the test's own process reaches too.

    As a context manager it is removed at the end, with what still runs inside.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        assert 0 < len(numbers) <= _LARGEST
        self._numbers = tuple(numbers)
        self._tag = f"hr{os.getpid() % 100_000}"
        self._cuts: set[tuple[int, int]] = set()
        self._net = f"10.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}"

    def place(self, number: int) -> Place:
        """Where to run a node: its address, and what stands before its command."""
        return Place(host=self.address(number), prefix=("ip", "netns", "exec", self.name(number)))

    def address(self, number: int) -> str:
        """The address of a namespace."""
        return f"{self._net}.{number}"

    def cut(self, source: int, target: int) -> None:
        """From now on nothing that `source` sends reaches `target`. What `target` sends still arrives."""
        self._neighbour(source, target, _NOWHERE)
        self._cuts.add((source, target))

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing that `source` sends reaches `target`."""
        return (source, target) in self._cuts

    def join(self, source: int, target: int) -> None:
        """Undo a cut."""
        self._neighbour(source, target, self._hardware(target))
        self._cuts.discard((source, target))

    def cut_both(self, number: int, other: int) -> None:
        """Nothing passes between two namespaces."""
        self.cut(number, other)
        self.cut(other, number)

    def isolate(self, number: int) -> None:
        """Cut a namespace from all the others, both ways; this process still reaches it."""
        for other in self._numbers:
            if other != number:
                self.cut_both(number, other)

    def refuse_port(self, source: int, target: int, port: int) -> None:
        """From now on what `source` sends to that TCP port of `target` is lost, as behind a firewall; all else passes, both ways."""
        name, nowhere = self.name(source), f"{self._net}.253"
        _run("ip", "-n", name, "neigh", "replace", nowhere, "lladdr", _NOWHERE, "dev", "eth0", "nud", "permanent")
        _run("ip", "-n", name, "route", "replace", "default", "via", nowhere, "dev", "eth0", "table", "100")
        match = ("to", self.address(target), "ipproto", "tcp", "dport", str(port))
        _run("ip", "-n", name, "rule", "add", *match, "lookup", "100", "priority", "100")

    def heal(self) -> None:
        """Undo every cut."""
        self._cuts.clear()
        for source in self._numbers:
            for target in self._numbers:
                if source != target:
                    self._neighbour(source, target, self._hardware(target))

    def unplug(self, number: int) -> None:
        """Take the link of a namespace down: it is cut from everybody, this process too."""
        _run("ip", "link", "set", f"{self._tag}v{number}", "down")

    def plug(self, number: int) -> None:
        """Take it up again."""
        _run("ip", "link", "set", f"{self._tag}v{number}", "up")

    def run(self, number: int, *command: str) -> None:
        """``ip`` with these arguments, inside."""
        _run("ip", "-n", self.name(number), *command)

    def __enter__(self) -> Self:
        """Build it."""
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove it."""
        self._remove()

    def _build(self) -> None:
        bridge = f"{self._tag}br"
        _run("ip", "link", "add", bridge, "type", "bridge")
        _run("ip", "addr", "add", f"{self._net}.254/24", "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
        for number in self._numbers:
            name, outer, inner = self.name(number), f"{self._tag}v{number}", f"{self._tag}i{number}"
            _run("ip", "netns", "add", name)
            _run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
            _run("ip", "link", "set", inner, "netns", name, "address", self._hardware(number))
            _run("ip", "link", "set", outer, "master", bridge, "up")
            inside = ("ip", "-n", name)
            _run(*inside, "link", "set", inner, "name", "eth0")
            _run(*inside, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _run(*inside, "link", "set", "eth0", "up")
            _run(*inside, "link", "set", "lo", "up")
        self.heal()

    def _remove(self) -> None:
        for number in self._numbers:
            inside = _output("ip", "netns", "pids", self.name(number)).split()
            for pid in inside:
                _try("kill", "-9", pid)
            _try("ip", "link", "del", f"{self._tag}v{number}")
            _try("ip", "netns", "del", self.name(number))
        _try("ip", "link", "del", f"{self._tag}br")

    def _neighbour(self, source: int, target: int, hardware: str) -> None:
        entry = ("neigh", "replace", self.address(target), "lladdr", hardware, "dev", "eth0", "nud", "permanent")
        _run("ip", "-n", self.name(source), *entry)

    def name(self, number: int) -> str:
        """The name of a namespace, as `ip netns` has it."""
        return f"{self._tag}n{number}"

    @staticmethod
    def _hardware(number: int) -> str:
        return f"02:00:00:00:00:{number:02x}"


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def _try(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
