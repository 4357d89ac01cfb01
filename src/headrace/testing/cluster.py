"""A cluster of several real node processes for a test, which breaks it and leaves nothing behind."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.server.formatting import FormatOrder, InitialController, random_cluster_id
from headrace.testing.asking import describe_quorum
from headrace.testing.control import Partitions
from headrace.testing.member import Member
from headrace.testing.voter_changes import add_voter, remove_voter

FIRST_BROKER_ID: Final = 101
LEADER_TIMEOUT_S: Final = 60.0
READY_TIMEOUT_S: Final = 120.0
_POLL_S = 0.02


def copies(nodes: int) -> dict[str, str]:
    """Settings by which topics of a cluster of so many brokers have copies."""
    factor = str(min(nodes, 3))
    return {"default.replication.factor": factor, "offsets.topic.replication.factor": factor}


class Cluster:
    """Nodes as processes on 127.0.0.1, with temporary data.

    ``Cluster(nodes=3)`` has the nodes 1, 2, 3, each controller and broker in one, that can be cut off from one another; topics get a replica on each
    of up to three unless it is said otherwise. ``Cluster(controllers=3, brokers=2)`` has nodes of one role each, controllers 1, 2, ... and brokers
    101, 102, ...; with ``combined=True`` the controllers are brokers too, and after ``with_cuts()`` they can be cut off too.
    The quorum is static (`controller.quorum.voters`), or with ``dynamic=True`` it is founded by the first controllers and
    changed while it runs (KIP-853). ``properties`` are server.properties lines of every node. As a context manager it
    runs inside the block; after a block that failed, the temporary directory with data and logs stays and the error names it.

        with Cluster(controllers=3, brokers=1) as cluster:
            cluster.leader().kill()
            ...

    `bootstrap` may be set to other bootstrap controllers than the present ones. A subclass may override `make` to run nodes of another program, or in another place.
    """

    def __init__(  # noqa: PLR0913 - what a cluster is, by name, and all of it may be left out
        self,
        *,
        nodes: int = 0,
        controllers: int = 3,
        brokers: int = 0,
        combined: bool = False,
        dynamic: bool = False,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        if nodes < 0 or controllers < 0 or brokers < 0 or (nodes and brokers):
            raise OperatorError(
                "a cluster has nodes that are controller and broker in one (nodes=3), or controllers=3 and brokers=2: not both"
            )
        if nodes:
            controllers, combined = nodes, True
        self._is_temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-cluster-") if directory is None else directory)
        if self._is_temporary:
            self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        self.is_dynamic = dynamic
        self.bootstrap: str | None = None
        self.cluster_id = random_cluster_id(random.SystemRandom())
        self.features: dict[str, int] = {}
        self.metadata_version = LATEST_METADATA_VERSION
        """The level that a new cluster is formatted at."""
        self.can_be_cut = nodes > 0
        self._properties = {**(copies(nodes) if nodes else {}), **(properties or {})}
        self._partitions = Partitions()
        self.members: dict[int, Member] = {}
        self._initial: tuple[int, ...] = ()
        both = frozenset({"broker", "controller"}) if combined else frozenset({"controller"})
        for node_id in range(1, controllers + 1):
            self.add(node_id, both)
        for node_id in range(FIRST_BROKER_ID, FIRST_BROKER_ID + brokers):
            self.add(node_id, frozenset({"broker"}))
        self._initial = tuple(each.node_id for each in self.controllers)

    # -- who there is -------------------------------------------------------------------------------------------------

    def add(self, node_id: int, roles: Iterable[str] = ("controller",)) -> Member:
        """One node more; it is not started. In a dynamic quorum it is formatted as one that joins."""
        member = self.members[node_id] = self.make(node_id, frozenset(roles), self.directory / str(node_id))
        member.properties.update(self._properties)
        member.can_be_cut = member.can_be_cut or self.can_be_cut
        return member

    def with_metrics(self) -> Self:
        """The cluster itself, before its start: each node that there is by now answers ``GET /metrics``, see ``Member.metrics``."""
        for member in self.members.values():
            member.show_metrics()
        return self

    def with_cuts(self) -> Self:
        """The cluster itself, before its start: its nodes can be cut off from one another, see ``partition``."""
        self.can_be_cut = True
        for member in self.members.values():
            member.can_be_cut = True
        return self

    def make(self, node_id: int, roles: frozenset[str], directory: Path) -> Member:
        """The node of an id."""
        return Member(node_id=node_id, roles=roles, directory=directory)

    def __getitem__(self, node_id: int) -> Member:
        """The node of an id. Raises OperatorError: there is none."""
        found = self.members.get(node_id)
        if found is None:
            raise OperatorError(f"there is no node {node_id}: the nodes are {', '.join(map(str, self.members))}")
        return found

    @property
    def controllers(self) -> tuple[Member, ...]:
        """Nodes with the controller role, by id."""
        return tuple(member for _, member in sorted(self.members.items()) if member.is_controller)

    @property
    def brokers(self) -> tuple[Member, ...]:
        """Nodes with the broker role, by id."""
        return tuple(member for _, member in sorted(self.members.items()) if member.is_broker)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers, for a client."""
        return ",".join(f"{each.place.host}:{each.port}" for each in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """The controllers, for a tool."""
        return ",".join(f"{each.place.host}:{each.controller_port}" for each in self.controllers)

    def quorum_settings(self) -> dict[str, str]:
        """How nodes are told to find the quorum."""
        if self.is_dynamic:
            return {"controller.quorum.bootstrap.servers": self.bootstrap or self.bootstrap_controllers}
        first = [each for each in self.controllers if each.node_id in self._initial]
        voters = ",".join(f"{each.node_id}@{each.place.host}:{each.controller_port}" for each in first)
        return {"controller.quorum.voters": voters}

    # -- start and stop -----------------------------------------------------------------------------------------------

    def format(self) -> None:
        """Format every node that is new."""
        founders = self._founders() if self.is_dynamic else ()
        for node_id, member in self.members.items():
            if not (member.data / "meta.properties").exists():
                is_founder = node_id in self._initial and self.is_dynamic
                order = FormatOrder(
                    cluster_id=self.cluster_id,
                    features=self.features,
                    metadata_version=self.metadata_version,
                    initial_controllers=founders if is_founder else (),
                    has_no_initial_controllers=self.is_dynamic and member.is_controller and not is_founder,
                )
                member.format(order, self.quorum_settings())

    def _founders(self) -> tuple[InitialController, ...]:
        rng = random.SystemRandom()
        return tuple(
            InitialController(
                node_id=each.node_id,
                host=each.place.host,
                port=each.controller_port,
                directory_id=Uuid(rng.randbytes(16)),
            )
            for each in self.controllers
            if each.node_id in self._initial
        )

    def start(self, *node_ids: int) -> Self:
        """Format and start the nodes (all that do not run) together, and wait until each is ready. Raises OperatorError."""
        self.launch(*node_ids)
        for node_id in node_ids or tuple(self.members):
            self[node_id].wait_until_ready(READY_TIMEOUT_S)
        return self

    def launch(self, *node_ids: int) -> None:
        """Format and start the nodes (all that do not run); returns at once."""
        self.format()
        settings = self.quorum_settings()
        for node_id in node_ids or tuple(self.members):
            if not self[node_id].is_running:
                self[node_id].launch(settings)
                self._tell_cuts(self[node_id])

    def stop(self, *node_ids: int) -> None:
        """Stop the nodes (all) cleanly: those that are only brokers first, then the controllers, each kind together."""
        chosen = [self[node_id] for node_id in node_ids or tuple(self.members)]
        for is_controller in (False, True):
            ending = [each for each in chosen if each.is_controller is is_controller and each.is_running]
            for member in ending:
                member.resume()
                member.terminate()
            for member in ending:
                member.stop()

    def kill(self, *node_ids: int) -> None:
        """SIGKILL the nodes (all), as near together as can be."""
        chosen = [self[node_id] for node_id in node_ids or tuple(self.members)]
        for member in chosen:
            if member.process is not None and member.is_running:
                member.process.kill()
        for member in chosen:
            member.kill()

    def pause(self, *node_ids: int) -> None:
        """SIGSTOP the nodes (all): their connections stay, and nobody answers."""
        for node_id in node_ids or tuple(self.members):
            self[node_id].pause()

    def resume(self, *node_ids: int) -> None:
        """SIGCONT the nodes (all that are paused)."""
        for node_id in node_ids or tuple(each for each, member in self.members.items() if member.is_paused):
            self[node_id].resume()

    def restart(self, node_id: int) -> Member:
        """Stop one node cleanly, if it runs, and start it again. Cuts stay."""
        self[node_id].stop()
        self.start(node_id)
        return self[node_id]

    # -- who reaches whom ---------------------------------------------------------------------------------------------

    def partition(self, a: int | Iterable[int], b: int | Iterable[int], *, one_way: bool = False) -> None:
        """Cut node `a` (or each of several) off from `b` (or each of several) until `heal`; with `one_way` only what `a` sends does not arrive.

        Nothing is refused or closed by it: requests, responses and new connections wait, as behind a router that drops packets. Clients reach all
        nodes as before. Returns when the nodes have done it (a paused one does it when it goes on). Raises OperatorError: the nodes cannot
        be cut off, or one stands on both sides.
        """
        these, those = ((side,) if isinstance(side, int) else tuple(side) for side in (a, b))
        for node_id in (*these, *those):
            if not self[node_id].can_be_cut:
                raise OperatorError(f"node {node_id} cannot be cut off: call with_cuts() before the start")
        self._partitions.cut(these, those, one_way=one_way)
        self._follow_cuts()

    def heal(self) -> None:
        """End all cuts: what waited arrives now."""
        self._partitions.heal()
        self._follow_cuts()

    def unheard(self, node_id: int) -> tuple[int, ...]:
        """The nodes that a node sends to in vain."""
        return self._partitions.unheard(node_id)

    def _follow_cuts(self) -> None:
        orders = [(member, self._tell_cuts(member)) for member in self.members.values() if member.is_running]
        for member, number in orders:
            if member.control is not None and not member.is_paused and number:
                member.control.wait(number)

    def _tell_cuts(self, member: Member) -> int:
        if member.control is None:
            return 0
        addresses = {each.node_id: each.addresses for each in self.members.values()}
        return member.control.tell(self._partitions.seen_from(member.node_id, addresses))

    # -- who leads ----------------------------------------------------------------------------------------------------

    def describe(self, node_id: int) -> Any | None:
        """The quorum as a node sees it that leads; None: it does not lead, or cannot be reached."""
        member = self[node_id]
        if not member.is_running:
            return None
        try:
            found = describe_quorum(member.place.host, member.controller_port, timeout_s=2.0)
        except OSError:
            return None
        return found if found.error_code == 0 else None

    def find_leader(self) -> Member | None:
        """The node that leads in the highest epoch, if one says that it leads."""
        claims = [
            (found.leader_epoch, each)
            for each in self.controllers
            if (found := self.describe(each.node_id)) is not None
        ]
        return max(claims, key=lambda claim: claim[0])[1] if claims else None

    def leader(self, *, timeout_s: float = LEADER_TIMEOUT_S, other_than: int = -1) -> Member:
        """Wait for the leader of the quorum. `other_than`: a node id that does not count. Raises OperatorError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.find_leader()
            if found is not None and found.node_id != other_than:
                return found
            time.sleep(_POLL_S)
        tails = "\n".join(f"-- node {each.node_id}\n{each.log_tail(1_000)}" for each in self.controllers)
        raise OperatorError(f"no leader after {timeout_s:.0f} s\n{tails}")

    def quorum(self) -> Any:
        """Wait for a leader; the quorum as it sees it: `leader_id`, `leader_epoch`, `high_watermark`, `current_voters`, `observers`."""
        while True:
            found = self.describe(self.leader().node_id)
            if found is not None:
                return found

    def voter_ids(self) -> set[int]:
        """The voters, as the leader sees them."""
        return {each.replica_id for each in self.quorum().current_voters}

    def add_voter(self, node_id: int) -> None:
        """Make a running controller a voter (KIP-853). Raises OperatorError when the leader refuses."""
        add_voter(self, node_id)

    def remove_voter(self, node_id: int) -> None:
        """Make a voter an observer (KIP-853). Raises OperatorError when the leader refuses."""
        remove_voter(self, node_id)

    # -- the block ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """Start; what a start that failed has made is stopped."""
        try:
            return self.start()
        except BaseException as error:
            self._end_after(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process; temporary data go too, unless the block failed."""
        if error is None:
            try:
                self.stop()
            finally:
                self.end()
        else:
            self._end_after(error)

    def end(self, *, keep: bool = False) -> None:
        """Kill what runs, and remove temporary data unless they shall be kept."""
        self.kill()
        if self._is_temporary:
            self._remove.detach() if keep else self._remove()

    def _end_after(self, error: BaseException) -> None:
        self.end(keep=True)
        error.add_note(f"the cluster's logs and data are in {self.directory}")
