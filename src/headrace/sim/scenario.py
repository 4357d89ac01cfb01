"""A simulated cluster to write tests against, on simulated time: what happens to my topics when a rack goes away.

    from headrace.sim.scenario import Simulation

    def test_settings_survive_a_rack() -> None:
        with Simulation(controllers=3, brokers=3, racks=3, seed=7) as cluster:
            cluster.create_topic("orders", partitions=6, replication_factor=3, settings={"retention.ms": "86400000"})
            cluster.power_off_rack("rack-1")
            cluster.run_for(30)
            assert cluster.topic_settings("orders")["retention.ms"] == "86400000"
            assert all(leader >= 0 for leader in cluster.leaders("orders").values())

Every invariant of the quorum and the controller is checked after each step; a broken one is raised as `InvariantBroken` from the call
that lets time pass. Nothing takes real time but the computing: 30 simulated seconds of six nodes are about one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.node.lifecycle import BrokerState
from headrace.sim.checkers import all_checkers
from headrace.sim.clients import Client
from headrace.sim.cluster import SimCluster
from headrace.sim.faults import Fault, FaultKind, nodes_hit
from headrace.sim.observation import Crash, Outcome
from headrace.sim.plan import Plan
from headrace.sim.serving import BROKER_PORT, CONTROLLER_PORT
from headrace.wire.messages import create_topics, delete_topics, describe_configs, incremental_alter_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from headrace.metadata.image import MetadataImage
    from headrace.sim.limits import Limits
    from headrace.sim.node import SimNode
    from headrace.wire.schema import Message

_TOPIC = 2
_STEP_MS = 10


class _Caller(Client):
    """Makes one call at a time for the test."""

    outcome: Outcome | None = None
    response: Message | None = None

    def act(self) -> None:
        """It does nothing by itself."""

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """Keep the outcome for the test."""
        self.outcome, self.response = outcome, response


class Simulation:
    """A cluster of `controllers` and `brokers` under the test's control; use it as a context manager, or call `start`.

    Controllers have the ids 1, 2, ...; brokers 101, 102, ...; with `racks`, node n stands in `rack-<n % racks>`. `limits` are the settings of
    all nodes. The same seed gives the same run.
    """

    def __init__(
        self, *, controllers: int = 3, brokers: int = 3, racks: int = 0, seed: int = 1, limits: Limits | None = None
    ) -> None:
        plan = Plan(
            seed=seed,
            controllers=controllers,
            voters=controllers,
            brokers=brokers,
            racks=racks,
            scripted_brokers=0,
            admins=0,
        )
        if limits is not None:
            plan = plan.with_limits(limits)
        self.cluster = SimCluster(plan, checkers=all_checkers())
        self._caller = _Caller(self.cluster, -1)

    def __enter__(self) -> Simulation:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.cluster.judge_safety()

    # --- time ---

    def start(self) -> None:
        """Start all nodes, and let time pass until all brokers run."""
        self.cluster.start()
        nodes = self.cluster.nodes.values()
        self.run_until(lambda: all(node.is_up for node in nodes) and self.is_ready(), within=60)

    def is_ready(self) -> bool:
        """The controller is active, and every broker that is up runs unfenced."""
        leader = self.cluster.leader()
        return (
            leader is not None
            and leader.machine is not None
            and leader.machine.is_controller_active
            and all(
                node.machine is not None
                and node.machine.lifecycle is not None
                and node.machine.lifecycle.state is BrokerState.RUNNING
                for node in self.cluster.nodes.values()
                if node.config.is_broker and node.is_up
            )
        )

    def run_for(self, seconds: float) -> None:
        """Let simulated time pass. Raises InvariantBroken."""
        self.cluster.run_for(int(seconds * 1_000))

    def run_until(self, condition: Callable[[], bool], *, within: float) -> None:
        """Let time pass until `condition`. Raises AssertionError when that is not so after `within` simulated seconds."""
        end_us = self.cluster.now_us + int(within * 1_000_000)
        while not condition():
            assert self.cluster.now_us < end_us, f"not so after {within} simulated seconds"
            self.cluster.run_for(_STEP_MS)

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return self.cluster.now_us / 1_000_000

    # --- faults ---

    def kill(self, *node_ids: int) -> None:
        """The processes die; what they had written stays in the page cache."""
        for node_id in node_ids:
            self._node(node_id).die(Crash(is_lossy=False, reason="killed by the test"))

    def power_off(self, *node_ids: int) -> None:
        """The hosts lose power; what was not synced may be lost, wholly or partly, by chance of the seed."""
        for node_id in node_ids:
            self._node(node_id).die(Crash(is_lossy=True, reason="power cut by the test"), is_dark=True)

    def power_off_rack(self, rack: str) -> None:
        """All nodes of a rack lose power."""
        self.power_off(*self.nodes_of(rack))

    def start_nodes(self, *node_ids: int) -> None:
        """Start nodes that are down."""
        for node_id in node_ids:
            node = self._node(node_id)
            if not node.is_up:
                node.start()

    def pause(self, *node_ids: int) -> None:
        """The processes stand still."""
        for node_id in node_ids:
            self._node(node_id).pause()

    def resume(self, *node_ids: int) -> None:
        """They go on."""
        for node_id in node_ids:
            self._node(node_id).resume()

    def cut(self, one: int, two: int, *, both_ways: bool = True) -> None:
        """Nothing passes from `one` to `two` any more (and back)."""
        self.cluster.world.network.cut(one, two)
        if both_ways:
            self.cluster.world.network.cut(two, one)

    def heal(self) -> None:
        """All cuts end, paused nodes go on, nodes that are down start."""
        self.cluster.world.network.cuts.clear()
        for node in self.cluster.nodes.values():
            if node.is_paused:
                node.resume()
            if not node.is_up:
                node.start()

    def let_happen(self, kind: FaultKind | str, *node_ids: int, seconds: float = 1.0, amount: int = 0) -> None:
        """Any fault of the catalogue (`FaultKind`), now, to these nodes. Raises OperatorError for an unknown kind or node, and when it needs more nodes."""
        try:
            kind = FaultKind(kind)
        except ValueError:
            kinds = ", ".join(each.value for each in FaultKind)
            raise OperatorError(f"there is no fault {kind!r}: there are {kinds}") from None
        if len(node_ids) < nodes_hit(kind):
            raise OperatorError(f"fault {kind.value!r} needs {nodes_hit(kind)} node ids, not {len(node_ids)}")
        order = list(self.cluster.nodes.values())
        fault = Fault(
            at_ms=self.cluster.now_us // 1_000,
            kind=kind,
            who=tuple(order.index(self._node(node_id)) for node_id in node_ids),
            for_ms=int(seconds * 1_000),
            amount=amount,
        )
        self.cluster.fault_injector.plan((fault,))

    # --- looking ---

    @property
    def leader_id(self) -> int:
        """The active controller's id; -1 when nobody leads."""
        leader = self.cluster.leader()
        return -1 if leader is None else leader.node_id

    def nodes_of(self, rack: str) -> list[int]:
        """Ids of the nodes in a rack. Raises OperatorError when there are none."""
        found = [node_id for node_id in self.cluster.nodes if self.cluster.rack_of(node_id) == rack]
        if not found:
            raise OperatorError(f"no node stands in {rack}")
        return found

    def image(self, node_id: int | None = None) -> MetadataImage:
        """The metadata as a node has it, the active controller's by default. Raises OperatorError when that node is down."""
        node = self.cluster.leader() if node_id is None else self._node(node_id)
        if node is None or node.image is None:
            raise OperatorError("no such node is up")
        return node.image

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition -> its leader's id (-1: none), as the active controller has it."""
        return {number: partition.leader for number, partition in self._partitions(topic)}

    def in_sync(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Partition -> its in-sync replicas."""
        return {number: tuple(partition.isr) for number, partition in self._partitions(topic)}

    def _partitions(self, topic: str) -> list[tuple[int, Any]]:
        found = self.image().topics.by_name.get(topic)
        if found is None:
            raise OperatorError(f"there is no topic {topic}")
        return sorted(found.partitions.items())

    def _node(self, node_id: int) -> SimNode:
        found = self.cluster.nodes.get(node_id)
        if found is None:
            raise OperatorError(f"there is no node {node_id}: there are {', '.join(map(str, self.cluster.nodes))}")
        return found

    # --- calls ---

    def call(self, request: Message, *, node_id: int | None = None, within: float = 30.0, version: int = -1) -> Any:
        """Ask a node (by default any broker that runs, without brokers the active controller) and let time pass until it has answered.

        With a `version` the request goes through the codec, as bytes; Produce and Fetch have no other way.

        Raises PeerError when there is no answer; whether the call took effect is then unknown.
        """
        node = self._asked_by_default() if node_id is None else self._node(node_id)
        port = BROKER_PORT if node.config.is_broker else CONTROLLER_PORT
        caller = self._caller
        caller.outcome = None
        caller.ask(node, request, port, timeout_ms=int(within * 1_000), version=version)
        self.run_until(lambda: caller.outcome is not None, within=within + 1)
        if caller.response is None:
            raise PeerError(ErrorCode.NETWORK_EXCEPTION, f"node {node.node_id} did not answer")
        return caller.response

    def _asked_by_default(self) -> SimNode:
        running = [
            node
            for node in self.cluster.nodes.values()
            if node.config.is_broker and node.is_up and not node.is_paused and node.is_listening(BROKER_PORT)
        ]
        node = running[0] if running else self.cluster.leader()
        if node is None:
            raise OperatorError("no node could be asked")
        return node

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. Raises PeerError with the controller's error."""
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=tuple(
                create_topics.CreatableTopicConfig(name=key, value=value)
                for key, value in sorted((settings or {}).items())
            ),
        )
        response = self.call(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=20_000))
        _check(response.topics[0])

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises PeerError with the controller's error."""
        state = delete_topics.DeleteTopicState(name=name)
        response = self.call(delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=20_000))
        _check(response.responses[0])

    def alter_topic(self, name: str, settings: Mapping[str, str]) -> None:
        """Set settings of a topic. Raises PeerError with the controller's error."""
        changes = tuple(
            incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
            for key, value in sorted(settings.items())
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=_TOPIC, resource_name=name, configs=changes
        )
        response = self.call(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,)))
        _check(response.responses[0])

    def topic_settings(self, name: str, *, node_id: int | None = None) -> dict[str, str | None]:
        """All settings of a topic, as a broker tells them. Raises PeerError."""
        resource = describe_configs.DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=name, configuration_keys=None
        )
        response = self.call(describe_configs.DescribeConfigsRequest(resources=(resource,)), node_id=node_id)
        _check(response.results[0])
        return {each.name: each.value for each in response.results[0].configs}


def _check(result: Any) -> None:
    if result.error_code:
        code = ErrorCode(result.error_code)
        raise PeerError(code, result.error_message or code.name)
