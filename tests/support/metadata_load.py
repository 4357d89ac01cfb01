"""Which changes of metadata did a quorum acknowledge, and are they all there?

A change is a setting of a client-metrics resource of its own, so that no broker is needed and none overwrites another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from headrace.core.error_code import ErrorCode
from headrace.metadata.image import RESOURCE_CLIENT_METRICS, ConfigResource, MetadataImage
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw import RawConnection

KEY: Final = "interval.ms"
_PAUSE_S = 0.01


def name_of(number: int) -> str:
    """The resource of a change."""
    return f"change-{number}"


def request_of(numbers: Iterable[int]) -> IncrementalAlterConfigsRequest:
    """The request of some changes: one record each."""
    resources = []
    for number in numbers:
        config = AlterableConfig(name=KEY, config_operation=0, value=str(1_000 + number % 1_000_000))
        resources.append(
            AlterConfigsResource(
                resource_type=RESOURCE_CLIENT_METRICS, resource_name=name_of(number), configs=(config,)
            )
        )
    return IncrementalAlterConfigsRequest(resources=tuple(resources))


def numbers_in(image: MetadataImage) -> set[int]:
    """The changes that an image holds."""
    resources: list[ConfigResource] = list(image.configs.by_resource)
    return {
        int(each.resource_name.removeprefix("change-"))
        for each in resources
        if each.resource_type == RESOURCE_CLIENT_METRICS and each.resource_name.startswith("change-")
    }


@dataclass
class Changer:
    """Makes one change after another at the leader of a cluster, and notes which were acknowledged.

    A change that is refused or not answered is not tried again; the next has the next number.
    """

    cluster: Cluster
    acknowledged: list[int] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    next_number: int = 0
    _link: RawConnection | None = None
    _node_id: int = -1

    def change(self, timeout_s: float = 60.0) -> int:
        """Make changes until one is acknowledged; its number. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            number = self.attempt()
            if number is not None:
                return number
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"no change was acknowledged for {timeout_s:.0f} s; refusals: {self.refused}")

    def change_many(self, count: int, *, timeout_s: float = 60.0) -> None:
        """As many changes in one request, tried again with other numbers until acknowledged. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_s
        while self.attempt(count, timeout_s=10.0) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} changes were not acknowledged; refusals: {self.refused}")
            time.sleep(_PAUSE_S)

    def attempt(self, count: int = 1, *, timeout_s: float = 1.0) -> int | None:
        """One request at the node that took the last; its first number when all of it was acknowledged."""
        member = self._present()
        number, self.next_number = self.next_number, self.next_number + count
        try:
            if self._link is None:
                self._link = RawConnection(member.controller_port, host=member.place.host)
            self._link.socket.settimeout(timeout_s)
            answer = self._link.ask(request_of(range(number, number + count)), 1, correlation_id=number + 1)
        except (OSError, EOFError):
            self._next_node()
            return None
        code = max(each.error_code for each in answer.responses)
        if code == ErrorCode.NONE:
            self.acknowledged.extend(range(number, number + count))
            return number
        self.refused[code] = self.refused.get(code, 0) + 1
        self._next_node()
        return None

    def _present(self) -> Member:
        controllers = self.cluster.controllers
        ids = [each.node_id for each in controllers]
        if self._node_id not in ids:
            self._node_id = ids[0]
        return self.cluster[self._node_id]

    def _next_node(self) -> None:
        self.close()
        ids = [each.node_id for each in self.cluster.controllers]
        self._node_id = ids[(ids.index(self._node_id) + 1) % len(ids)]

    def close(self) -> None:
        """Close its connection."""
        if self._link is not None:
            self._link.socket.close()
            self._link = None


class MetadataLoad:
    """A thread that makes changes without pause inside a `with` block."""

    def __init__(self, cluster: Cluster, *, pause_s: float = 0.005) -> None:
        self.changer = Changer(cluster)
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-load", daemon=True)
        self._error: BaseException | None = None

    @property
    def acknowledged(self) -> list[int]:
        """Numbers acknowledged so far."""
        return self.changer.acknowledged

    def wait_for_more(self, count: int = 1, *, timeout_s: float = 60.0) -> None:
        """Wait until `count` more changes are acknowledged. Raises TimeoutError."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted or not self._thread.is_alive(), timeout_s=timeout_s)
        assert self._error is None, self._error

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._pause_s):
                self.changer.attempt()
        except BaseException as error:  # noqa: BLE001 - told by the thread that waits
            self._error = error
        finally:
            self.changer.close()

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join(30)
        assert self._error is None, self._error


def wait_until(condition: Callable[[], object], *, timeout_s: float = 60.0) -> None:
    """Poll until it holds. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so after {timeout_s:.0f} s")
        time.sleep(_PAUSE_S)
