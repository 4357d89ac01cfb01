"""A cluster for development: its ports and directory stay from one day to the next, and another process may kill, pause and cut its nodes.

Who runs it answers orders on a socket of the loopback; where, and by which word an order proves that it comes from the same user, is in `cluster.json`
of the directory.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.config.many_processes import FILES_OF_A_NODE
from headrace.core.errors import OperatorError
from headrace.testing.cluster import READY_TIMEOUT_S, Cluster, copies
from headrace.testing.member import Member

STATE_FILE: Final = "cluster.json"
CONTROLLER_PORTS: Final = 100
"""How far a controller's port is above the one that a broker in its place has."""
METRICS_PORTS: Final = 200
MOST_OF_A_KIND: Final = 100
_ORDER_BYTES = 1 << 16
_ORDER_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 300.0
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a development cluster is to be: `nodes` combined ones, or controllers and brokers. `port` 0: any that are free."""

    nodes: int = 0
    controllers: int = 0
    brokers: int = 0
    port: int = 9092
    has_metrics: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)


_OWN: Final = (
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
)
"""What each node of a cluster has of its own."""


def _refuse_shared(overrides: Mapping[str, str]) -> None:
    """Raises OperatorError: the nodes would meet in a port, a directory or a file."""
    for name, value in overrides.items():
        if name in _OWN:
            raise OperatorError(f"--override {name}: each node has its own; --port and --data say where they are")
        if name in FILES_OF_A_NODE and os.path.isabs(value):
            raise OperatorError(
                f"--override {name}={value}: each node writes a file of its own: name one without a directory, it stands in the directory of each"
            )


class DevCluster:
    """A cluster in a directory, new or of before. Raises OperatorError: the directory has another cluster, or one that runs."""

    def __init__(self, directory: Path, shape: Shape) -> None:
        self.directory = directory
        self._state = directory / STATE_FILE
        known = read_state(directory)
        if known is not None and _answers(known):
            raise OperatorError(
                f"a cluster runs in {directory} already (process {known['pid']}): `headrace cluster down --data {directory}` stops it"
            )
        _refuse_shared(shape.overrides)
        brokers = shape.nodes or shape.brokers
        self.cluster = Cluster(
            nodes=shape.nodes,
            controllers=shape.controllers,
            brokers=shape.brokers,
            properties={**copies(max(brokers, 1)), **shape.overrides},
            directory=directory,
        ).with_cuts()
        members = self.cluster.members
        if known is not None:
            if known["nodes"] != {str(node_id): sorted(each.roles) for node_id, each in members.items()}:
                raise OperatorError(
                    f"{directory} has a cluster of the nodes {', '.join(known['nodes'])}: bring up the same ones, or choose another directory with --data"
                )
            self.cluster.cluster_id = known["cluster_id"]
        for member in members.values():
            member.dies_with_me = True
            for name in FILES_OF_A_NODE:
                if member.properties.get(name):
                    member.properties[name] = str(member.directory.absolute() / member.properties[name])
        if shape.has_metrics:
            self.cluster.with_metrics()
        if shape.port:
            self._place(shape)
        self._told: set[int] = set()
        self._listening: socket.socket | None = None
        self._token = secrets.token_hex(16)

    def _place(self, shape: Shape) -> None:
        """Brokers from `port` on, in the order of their ids; controllers and metrics so many above."""
        for kind in (self.cluster.brokers, self.cluster.controllers):
            for number, member in enumerate(kind):
                port = shape.port + number
                member.stand(port if member.is_broker else 0, port + CONTROLLER_PORTS if member.is_controller else 0)
        if shape.has_metrics:
            for number, member in enumerate(self.cluster.members.values()):
                member.show_metrics_on(shape.port + METRICS_PORTS + number)
        for member in self.cluster.members.values():
            for port in filter(None, (member.port, member.controller_port, member.metrics_port)):
                _check_free(port)

    def start(self) -> None:
        """Start all nodes together, and wait until each is ready. Orders may come from now on. Raises OperatorError with the last line of one that is not."""
        self.cluster.launch()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._write_state(self._listening.getsockname()[1])
        for member in self.cluster.members.values():
            try:
                member.wait_until_ready(READY_TIMEOUT_S)
            except OperatorError:
                last = (member.log_tail().strip().splitlines() or ["it said nothing"])[-1]
                raise OperatorError(f"node {member.node_id} did not start: {last} (all of it: {member.log})") from None

    def end(self) -> list[int]:
        """Stop all nodes cleanly, and what does not stop by force; the ids of those that did not end well."""
        self._told |= set(self.cluster.members)
        try:
            self.cluster.stop()
        finally:
            self.cluster.kill()
            if self._listening is not None:
                self._listening.close()
        ended = self.cluster.members.items()
        return [node_id for node_id, each in ended if each.process is not None and each.process.returncode > 0]

    # -- orders -------------------------------------------------------------------------------------------------------

    def serve(self, tell: Callable[[str], None]) -> None:
        """Answer orders until one says stop, and `tell` of nodes that end by themselves."""
        assert self._listening is not None, "started before"
        with self._listening as listening, selectors.DefaultSelector() as selector:
            selector.register(listening, selectors.EVENT_READ)
            while True:
                if selector.select(_LOOK_S) and self._answer_one(listening):
                    return
                for line in self._news():
                    tell(line)

    def _write_state(self, port: int) -> None:
        state = {
            "pid": os.getpid(),
            "port": port,
            "token": self._token,
            "cluster_id": self.cluster.cluster_id,
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "nodes": {str(node_id): sorted(each.roles) for node_id, each in self.cluster.members.items()},
        }
        made = self._state.with_suffix(".new")
        made.touch(mode=0o600)
        made.write_text(json.dumps(state, indent=1) + "\n")
        made.replace(self._state)

    def _answer_one(self, listening: socket.socket) -> bool:
        """Take one order and answer it; whether it was the last."""
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(_ORDER_TIMEOUT_S)
            try:
                order = json.loads(_line(connection))
                token = str(order.get("token")).encode() if isinstance(order, dict) else b""
            except (OSError, ValueError, RecursionError):
                return False
            is_known = secrets.compare_digest(token, self._token.encode())
            if not is_known:
                return False
            try:
                answer = self.do(order)
            except OperatorError as error:
                answer = {"error": str(error)}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                return bool(order["do"] == "stop")
            return bool(order["do"] == "stop")

    def do(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Follow an order; what is to be said of it. Raises OperatorError."""
        cluster, action = self.cluster, order["do"]
        node_ids = [int(each) for each in order.get("nodes", ())]
        for node_id in node_ids:
            if node_id not in cluster.members:
                raise OperatorError(f"there is no node {node_id}: the nodes are {', '.join(map(str, cluster.members))}")
        match action:
            case "status":
                return {"nodes": [self._described(each) for each in cluster.members.values()]}
            case "stop":
                failed = self.end()  # the connection that asks is open still
                return {
                    "lines": [f"stopped, but node {each} did not end well: see its log" for each in failed]
                    or ["stopped"]
                }
            case "kill":
                self._told |= set(node_ids)
                cluster.kill(*node_ids)
                return {"lines": [f"node {each} is killed" for each in node_ids]}
            case "pause" | "resume":
                (cluster.pause if action == "pause" else cluster.resume)(*node_ids)
                return {
                    "lines": [f"node {each} {'is paused' if action == 'pause' else 'goes on'}" for each in node_ids]
                }
            case "restart":
                return {"lines": [self._restarted(each) for each in node_ids]}
            case "partition":
                others = [int(each) for each in order["others"]]
                cluster.partition(node_ids, others, one_way=order["one_way"])
                how = "is not heard by" if order["one_way"] else "is cut off from"
                return {"lines": [f"node {each} {how} {', '.join(map(str, others))}" for each in node_ids]}
            case "heal":
                cluster.heal()
                return {"lines": ["every node hears every other one"]}
            case _:
                raise OperatorError(
                    f"{action} is nothing that a development cluster does: both sides must be of one version"
                )

    def _restarted(self, node_id: int) -> str:
        self._told.discard(node_id)
        self.cluster.restart(node_id)
        return f"node {node_id} is ready"

    def _described(self, member: Member) -> dict[str, Any]:
        if not member.is_running:
            code = None if member.process is None else member.process.returncode
            state = "killed" if code == -9 else f"ended with {code}"
        else:
            state = "paused" if member.is_paused else "running"
        return {
            "node": member.node_id,
            "roles": sorted(member.roles),
            "state": state,
            "pid": member.pid if member.is_running else None,
            "listeners": member.addresses,
            "unheard_by": list(self.cluster.unheard(member.node_id)),
        }

    def _news(self) -> list[str]:
        ended = [
            each for node_id, each in self.cluster.members.items() if not each.is_running and node_id not in self._told
        ]
        self._told |= {each.node_id for each in ended}
        return [f"node {each.node_id} {self._described(each)['state']}: see {each.log}" for each in ended]


def read_state(directory: Path) -> dict[str, Any] | None:
    """What a directory says of its cluster, which may run or not; None: it has none. Raises OperatorError: the file is no such file."""
    path = directory / STATE_FILE
    try:
        state = json.loads(path.read_text())
        if isinstance(state, dict) and {"pid", "port", "token", "cluster_id", "nodes"} <= set(state):
            return state
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        pass
    raise OperatorError(f"{path} does not describe a development cluster: choose another directory with --data")


def order(directory: Path, action: str, **about: Any) -> dict[str, Any]:
    """Tell the cluster that runs in a directory to do something; its answer. Raises OperatorError: none runs there, or it refuses."""
    state = read_state(directory)
    answer = None if state is None else _ask(state, {"do": action, **about})
    if answer is None:
        raise OperatorError(
            f"no cluster runs in {directory}: `headrace cluster up` starts one, --data says where it is"
        )
    if "error" in answer:
        raise OperatorError(answer["error"])
    return answer


def _answers(state: Mapping[str, Any]) -> bool:
    return _ask(state, {"do": "status"}) is not None


def _ask(state: Mapping[str, Any], question: dict[str, Any]) -> dict[str, Any] | None:
    """None: nobody is there, or not the one whose file it is."""
    try:
        with socket.create_connection(("127.0.0.1", state["port"]), _ORDER_TIMEOUT_S) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.sendall(json.dumps({**question, "token": state["token"]}).encode() + b"\n")
            answer = json.loads(_line(connection))
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def _line(connection: socket.socket) -> bytes:
    """Up to the end of the line. Raises ValueError: it is too long, or has no end."""
    data = bytearray()
    while not data.endswith(b"\n"):
        part = connection.recv(_ORDER_BYTES)
        if not part or len(data) > _ORDER_BYTES:
            raise ValueError("no whole line")
        data += part
    return bytes(data)


def _check_free(port: int) -> None:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OperatorError(f"port {port} cannot be used ({reason}): choose others with --port, 0 for any") from None
