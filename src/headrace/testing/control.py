"""The parent's side of a node that can be cut off: what it was told last, and whether it has done it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.core.errors import OperatorError
from headrace.testing.cuts import BOTH, IN, OUT

CHILD: Final = "headrace.cli.dev_node"
"""The module that such a node runs."""
CUT_TIMEOUT_S: Final = 30.0
_ANSWER_BYTES = 4096


class Control:
    """A socket to one process, and how that process is begun: `arguments`, after the interpreter's, and the descriptor that it inherits.

    With `dies_with_me` the kernel ends the process when this one dies, even one that is stopped; the thread that starts it must then be the last one to end.
    """

    def __init__(self, *, dies_with_me: bool) -> None:
        self._ours, self._its = socket.socketpair()
        self._parent = os.getpid() if dies_with_me else 0
        self._number = 0
        self._answers = bytearray()

    @property
    def descriptor(self) -> int:
        """What the process inherits."""
        return self._its.fileno()

    @property
    def arguments(self) -> list[str]:
        """What stands before its properties file."""
        return ["-m", CHILD, str(self.descriptor), str(self._parent)]

    def started(self) -> None:
        """The process has its end: from now on its death can be seen."""
        self._its.close()

    def tell(self, cut: Mapping[str, str]) -> int:
        """Order these cuts, by address, and no others; the number to wait for. A process that has ended is told nothing."""
        self._number += 1
        try:
            self._ours.sendall(json.dumps({"number": self._number, "cut": cut}).encode() + b"\n")
        except OSError:
            return 0
        return self._number

    def wait(self, number: int) -> None:
        """Wait until an order was followed, or the process has ended. Raises OperatorError: it does not answer."""
        ends_at = time.monotonic() + CUT_TIMEOUT_S
        while not any(int(each) >= number for each in self._answers.splitlines()):
            self._ours.settimeout(max(ends_at - time.monotonic(), 0.001))
            try:
                data = self._ours.recv(_ANSWER_BYTES)
            except TimeoutError:
                raise OperatorError(f"a node did not say within {CUT_TIMEOUT_S:.0f} s that it is cut off") from None
            except OSError:
                return
            if not data:
                return
            self._answers += data

    def close(self) -> None:
        """The process has ended, or is to end."""
        self._ours.close()
        self._its.close()


class Partitions:
    """Which node does not reach which other one."""

    def __init__(self) -> None:
        self._cut: dict[tuple[int, int], None] = {}

    def cut(self, these: Iterable[int], those: Iterable[int], *, one_way: bool) -> None:
        """What one of `these` sends reaches none of `those` any more, nor the other way round unless `one_way`. Raises OperatorError: one is in both."""
        those = tuple(those)
        for one in these:
            for other in those:
                if one == other:
                    raise OperatorError(f"node {one} cannot be cut off from itself: name two sides")
                self._cut[one, other] = None
                if not one_way:
                    self._cut[other, one] = None

    def heal(self) -> None:
        """All reach all."""
        self._cut.clear()

    def unheard(self, node_id: int) -> tuple[int, ...]:
        """Whom a node sends to in vain."""
        return tuple(sorted(other for one, other in self._cut if one == node_id))

    def seen_from(self, node_id: int, addresses: Mapping[int, Iterable[str]]) -> dict[str, str]:
        """The cuts that a node is to make, by the addresses of the others."""
        found: dict[str, str] = {}
        for other, listening in addresses.items():
            ways = [way for way, pair in ((OUT, (node_id, other)), (IN, (other, node_id))) if pair in self._cut]
            if ways:
                found |= dict.fromkeys(listening, BOTH if len(ways) == 2 else ways[0])
        return found
