"""The settings of several brokers that one properties file makes: `headrace start FILE --processes N`.

Broker k of N (0, 1, ...) differs from the file by a rule that an operator can do in the head:

    node.id                    + k
    ports of listeners         + 100 * (k + 1), of advertised.listeners too; the file's own ports are shared by all
    log.dirs                   /broker.<node.id> in each; metadata.log.dir likewise
    broker.rack                the file's, else the host's name: the same for all
    headrace.metrics.listener  127.0.0.1 and a port that the system chooses: the parent shows one page on the file's
    headrace.journal.file      .<node.id> behind it, as behind headrace.state.change.file
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.listener_settings import MAX_PORT
from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.core.listener import Listener
from headrace.core.values import value_class

PORT_STEP: Final = 100
MOST: Final = 64
METRICS: Final = "headrace.metrics.listener"
FILES_OF_A_NODE: Final = ("headrace.journal.file", "headrace.state.change.file")
"""Settings that name a file which one process writes."""
_OWN_METRICS: Final = "127.0.0.1:0"


@value_class
class BrokerProcess:
    """One of the brokers: its number, and all of its settings."""

    number: int
    settings: dict[str, str]
    config: NodeConfig

    @property
    def node_id(self) -> int:
        """Its id."""
        return self.config.node_id


def broker_processes(given: Mapping[str, str], count: int, *, host_name: str) -> list[BrokerProcess]:
    """`count` brokers out of the settings of a file. Raises OperatorError: not a broker's file, or something that cannot be derived."""
    base = parse_node_config(given)
    if not 1 <= count <= MOST:
        raise OperatorError(f"--processes {count}: from 1 to {MOST} brokers")
    if base.is_controller:
        raise OperatorError(
            "--processes multiplies brokers, and this file has the controller role: start the controller alone by a file of its own "
            "(process.roles=controller) and give this one process.roles=broker"
        )
    if base.headrace_shared_listeners:
        raise OperatorError("headrace.shared.listeners: leave it out, --processes sets it to the listeners of the file")
    for one in base.listeners:
        if not one.port or one.port + PORT_STEP * count > MAX_PORT:
            raise OperatorError(
                f"listener {one}: --processes gives each broker its own port, {PORT_STEP} above the one before: choose one from 1 to {MAX_PORT - PORT_STEP * count}"
            )
    made = [_settings(given, base, number, host_name) for number in range(count)]
    _refuse_same_ports(base, count)
    return [
        BrokerProcess(number=number, settings=each, config=parse_node_config(each)) for number, each in enumerate(made)
    ]


def _settings(given: Mapping[str, str], base: NodeConfig, number: int, host_name: str) -> dict[str, str]:
    node_id, up = base.node_id + number, PORT_STEP * (number + 1)
    names = {"broker.id", "node.id", "log.dir", "log.dirs", "listeners", "advertised.listeners"}
    settings = {name: value for name, value in given.items() if name not in names}
    settings |= {
        "node.id": str(node_id),
        "listeners": _moved(base.listeners, up),
        "headrace.shared.listeners": _moved(base.listeners, 0),
        "log.dirs": ",".join(f"{directory}/broker.{node_id}" for directory in base.log_dirs),
        "broker.rack": base.broker_rack or host_name,
    }
    if given.get("advertised.listeners"):
        settings["advertised.listeners"] = _moved(base.advertised_listeners, up)
    if given.get("metadata.log.dir"):
        settings["metadata.log.dir"] = f"{base.metadata_log_dir}/broker.{node_id}"
    if base.headrace_metrics_listener:
        settings[METRICS] = _OWN_METRICS
    settings |= {name: f"{given[name]}.{node_id}" for name in FILES_OF_A_NODE if given.get(name)}
    return settings


def _moved(listeners: tuple[Listener, ...], by: int) -> str:
    return ",".join(f"{one.name}://{_bracketed(one.host)}:{one.port + by}" for one in listeners)


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else host or ""


def _refuse_same_ports(base: NodeConfig, count: int) -> None:
    """Raises OperatorError: two listeners of the file are a multiple of the step apart."""
    taken: dict[int, Listener] = {}
    for one in base.listeners:
        for number in range(count + 1):
            port = one.port + PORT_STEP * number
            if taken.setdefault(port, one) is not one:
                raise OperatorError(
                    f"listeners {taken[port]} and {one}: with --processes {count} both would need port {port}; choose ports that are no multiple of {PORT_STEP} apart"
                )


class Restarts:
    """When a process that died may be started again: soon, then later and later, and after several quick deaths in a row no more. Times in seconds.

    A life of `STEADY_S` makes up for the deaths before it.
    """

    STEADY_S: Final = 60.0
    FIRST_S: Final = 0.5
    QUICK_DEATHS: Final = 6

    def __init__(self) -> None:
        self._deaths = 0
        self.is_given_up = False

    def died(self, lived_s: float) -> float | None:
        """How long to wait before the next start; None: not again."""
        self._deaths = 1 if lived_s >= self.STEADY_S else self._deaths + 1
        if self._deaths >= self.QUICK_DEATHS:
            self.is_given_up = True
            return None
        return self.FIRST_S * 2.0 ** (self._deaths - 1)
