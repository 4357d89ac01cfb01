"""The composition of a node: its quorum node, controller, metadata and broker, over any disk, clock and chance.

The driver for processes (`server.node_server`) and the simulation use the very same code:

    disk = NodeDisk(config, files=files, clock=clock); disk.open()
    node = compose_node(config, disk=disk, bound=listeners, environment=NodeEnvironment(clock=clock, rng=rng), do=do)
    node.machine.start()

`do` is given each effect in order. For those that are work for the disk, `node.disk_jobs` says what must be done in a thread and what
afterwards.

    NodeDisk ---- LogStore --------------------------------------- Broker, PartitionPublisher, BrokerLifecycle, SelfFencing, LogUpkeep
        |                                                             |
        +-------- MetadataFiles -- RaftNode, ControllerMachine,       |
                                   MetadataLoader                     |
                                        |                             |
                                   MetadataPlane ---------------- NodeMachine ---- ControllerServer
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.publishers.partitions import PartitionPublisher
from headrace.controller.machine import ControllerMachine
from headrace.core.ids import random_uuid
from headrace.core.values import value_class
from headrace.metadata.image import EndPoint
from headrace.metadata.loader import MetadataLoader
from headrace.node.broker_views import broker_views
from headrace.node.controller_registration import ControllerRegistrar
from headrace.node.controller_server import ControllerServer
from headrace.node.disk_jobs import DiskJobs
from headrace.node.lifecycle import BrokerIdentity, BrokerLifecycle, noted_directories
from headrace.node.machine import BrokerParts, NodeEffect, NodeMachine
from headrace.node.metadata_plane import MetadataPlane, PlaneConfig
from headrace.node.self_fencing import SelfFencing, SelfFencingMode
from headrace.node.upkeep import LogUpkeep
from headrace.raft.config import RaftConfig
from headrace.raft.machine import RaftNode
from headrace.raft.voters import VoterEndPoint, static_voters

if TYPE_CHECKING:
    from headrace.broker.ports import Clock
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import Listener
    from headrace.core.ports import Rng
    from headrace.node.disk import NodeDisk
    from headrace.wire.messages.describe_quorum import BrokerView, NodeView


@value_class
class NodeEnvironment:
    """What a node is lent by its driver, beside the disk.

    `metadata_rng` gives the metadata side a stream of chance of its own, so that a journal of it can be replayed. `host_name` is what
    others call this machine: it stands for an empty host. `stopwatch` is for the controller's statistics.
    """

    clock: Clock
    rng: Rng
    metadata_rng: Rng | None = None
    host_name: str = "localhost"
    stopwatch: Callable[[], float] | None = None


@value_class
class ComposedNode:
    """A node's machine, its metadata side, its directories with their jobs, and what the handlers of its controller listeners are given."""

    machine: NodeMachine
    plane: MetadataPlane
    disk: NodeDisk
    disk_jobs: DiskJobs
    controller_server: ControllerServer
    clock: Clock


def compose_node(
    config: NodeConfig,
    *,
    disk: NodeDisk,
    bound: tuple[Listener, ...],
    environment: NodeEnvironment,
    do: Callable[[NodeEffect], None],
) -> ComposedNode:
    """A node on its opened disk, not started. `bound` are its listeners with the ports they really have.

    Raises OperatorError and StorageFault for what the disk holds.
    """
    plane = compose_metadata(config, disk=disk, bound=bound, environment=environment)
    machine = NodeMachine(config=config, plane=plane, clock=environment.clock, do=do)
    if config.is_broker:
        _add_broker(machine, config, disk=disk, bound=bound, environment=environment)
    if config.is_controller:
        registrar = ControllerRegistrar(
            node_id=config.node_id,
            incarnation_id=random_uuid(environment.rng),
            end_points=_controller_end_points(config, bound, environment.host_name),
            controller=machine.controller_channel,
            rng=environment.rng,
        )
        machine.add_registrar(registrar)
    server = _controller_server(machine, plane, config, disk=disk, bound=bound, clock=environment.clock)
    if machine.broker is not None:
        machine.broker.quorum_view = server.view
    jobs = DiskJobs(machine=machine, disk=disk, clock=environment.clock)
    return ComposedNode(
        machine=machine, plane=plane, disk=disk, disk_jobs=jobs, controller_server=server, clock=environment.clock
    )


# --- the metadata side ---


def compose_metadata(
    config: NodeConfig, *, disk: NodeDisk, bound: tuple[Listener, ...], environment: NodeEnvironment
) -> MetadataPlane:
    """The quorum node, the loader and the controller on the recovered metadata log. Raises OperatorError and StorageFault."""
    rng = environment.metadata_rng or environment.rng
    files = disk.open_metadata(rng)
    raft = RaftNode(
        config=_raft_config(config, disk, _controller_end_points(config, bound, environment.host_name)),
        log=files.log,
        snapshots=files.snapshots,
        state=files.quorum_state(),
        rng=rng,
    )
    controller: ControllerMachine | None = None
    if config.is_controller:
        controller = ControllerMachine(
            config=config,
            cluster_id=disk.cluster_id,
            rng=rng,
            bootstrap=files.bootstrap_records(),
            stopwatch=environment.stopwatch,
        )
    return MetadataPlane(
        config=PlaneConfig(
            snapshot_max_new_bytes=config.metadata_log_max_record_bytes_between_snapshots,
            snapshot_max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        ),
        raft=raft,
        loader=MetadataLoader(),
        controller=controller,
        snapshots=files.snapshots,
    )


def _raft_config(config: NodeConfig, disk: NodeDisk, end_points: tuple[EndPoint, ...]) -> RaftConfig:
    configured = {voter.node_id: (voter.host, voter.port) for voter in config.controller_quorum_voters}
    return RaftConfig(
        node_id=config.node_id,
        directory_id=disk.metadata_directory_id,
        cluster_id=disk.cluster_id,
        voters=static_voters(configured, config.controller_listener_names[0]),
        end_points=tuple(VoterEndPoint(one.name, one.host, one.port) for one in end_points),
        listener=config.controller_listener_names[0],
        bootstrap_servers=tuple((one.host, one.port) for one in config.controller_quorum_bootstrap_servers),
        is_controller=config.is_controller,
        auto_join=config.controller_quorum_auto_join_enable,
        append_linger_ms=config.controller_quorum_append_linger_ms,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        retry_backoff_max_ms=config.controller_quorum_retry_backoff_max_ms,
        elect_on_refused=config.headrace_elect_on_refusal,
        elect_at_start=config.headrace_elect_at_start,
        max_batch_bytes=config.internal_metadata_max_batch_size_in_bytes,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        snapshot_fetch_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )


# --- the broker and the controller's listeners ---


def _add_broker(
    machine: NodeMachine,
    config: NodeConfig,
    *,
    disk: NodeDisk,
    bound: tuple[Listener, ...],
    environment: NodeEnvironment,
) -> None:
    identity = BrokerIdentity(
        cluster_id=disk.cluster_id,
        incarnation_id=random_uuid(environment.rng),
        listeners=advertised(config, bound, environment.host_name),
        directory_ids=disk.directory_ids,
        previous_broker_epoch=disk.previous_broker_epoch,
    )
    broker = Broker(
        config=config,
        cluster_id=disk.cluster_id,
        logs=disk.logs,
        controller=machine.controller_channel,
        clock=environment.clock,
        rng=environment.rng,
    )
    lifecycle = BrokerLifecycle(
        config=config,
        identity=identity,
        controller=machine.controller_channel,
        rng=environment.rng,
        metadata_offset=lambda: machine.image.provenance.last_contained_offset,
        emit=machine.do,
    )
    lifecycle.cordoned = broker.cordoned_ids
    lifecycle.noted_directories = lambda epoch: noted_directories(broker.image, config.node_id, epoch)
    fencing = SelfFencing(
        mode=SelfFencingMode(config.headrace_self_fencing),
        timeout_ms=config.broker_heartbeat_timeout_ms,
        session_ms=config.broker_session_timeout_ms,
        partitions=broker.partitions,
        moved=broker.partition_changed,
    )
    machine.add_broker(
        BrokerParts(
            broker=broker,
            publisher=PartitionPublisher(broker),
            lifecycle=lifecycle,
            self_fencing=fencing,
            upkeep=LogUpkeep(broker, clock=environment.clock, do=machine.do, woken=machine.alarm.changed),
        )
    )


def _controller_server(
    machine: NodeMachine,
    plane: MetadataPlane,
    config: NodeConfig,
    *,
    disk: NodeDisk,
    bound: tuple[Listener, ...],
    clock: Clock,
) -> ControllerServer:
    started_ms = clock.now_ms()
    files = disk.metadata

    def view() -> NodeView:
        from headrace.node.self_view import SelfView  # a hundredth of the start-up time, and rarely asked for

        return SelfView(
            config=config,
            cluster_id=disk.cluster_id,
            raft=plane.raft,
            log=files.log,
            witness=plane.witness,
            clock=clock,
            bound=bound,
            disk_space=files.disk_space,
            started_ms=started_ms,
            progress=machine.metadata_progress,
        ).view()

    def views() -> tuple[BrokerView, ...]:
        sessions = None if plane.controller is None else plane.controller.heartbeats
        return () if sessions is None else broker_views(machine.image, sessions, clock.now_ms())

    machine.local.node_view, machine.local.broker_views = view, views
    return ControllerServer(
        config=config,
        cluster_id=disk.cluster_id,
        local=machine.local,
        image=lambda: machine.image,
        leader_id=lambda: machine.leader_id,
        kraft_version=lambda: plane.raft.kraft_version,
        watch=machine.watch,
        bound_listeners=bound,
        log_levels=lambda: machine.log_levels,
        view=view,
        heard_last_words=machine.heard_last_words,
    )


# --- addresses ---


def _controller_end_points(config: NodeConfig, bound: tuple[Listener, ...], host_name: str) -> tuple[EndPoint, ...]:
    """This node's controller listeners as it announces them: the advertised ones where there are such, with bound ports for 0."""
    ports = {one.name: one.port for one in bound}
    told = {one.name: one for one in (*config.controller_listeners, *config.advertised_controller_listeners)}
    return tuple(
        EndPoint(name, one.host or host_name, one.port or ports.get(name, 0), int(one.security_protocol))
        for name in config.controller_listener_names
        if (one := told.get(name)) is not None
    )


def advertised(config: NodeConfig, bound: tuple[Listener, ...], host_name: str) -> tuple[Listener, ...]:
    """The advertised broker listeners, with bound ports for 0 and this machine's name for an empty host."""
    ports = {one.name: one.port for one in bound}
    wanted = config.advertised_listeners or config.broker_listeners
    return tuple(
        one._replace(port=one.port or ports.get(one.name, 0), host=one.host or host_name)
        for one in wanted
        if one.name not in config.controller_listener_names
    )
