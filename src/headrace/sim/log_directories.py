"""The several log directories of a simulated broker: what fails in one of them, and what is moved between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.core.errors import StorageFault
from headrace.log.ports import OutOfRange
from headrace.records.batch import iter_batches
from headrace.sim.observation import LogMoved

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.log.ports import PartitionLogPort
    from headrace.log.store_ports import LogMovePort
    from headrace.node.compose import ComposedNode
    from headrace.node.machine import DirectoryFailed, NodeMachine
    from headrace.sim.faulty_disk import SimDisk
    from headrace.sim.observation import Step
    from headrace.sim.world import World

_READ_BYTES = 1 << 20


class NodeOfDirectories(Protocol):
    """What is looked at of a simulated node."""

    world: World
    config: NodeConfig
    composed: ComposedNode | None
    machine: NodeMachine | None


def refuse_last(node: NodeOfDirectories, effect: DirectoryFailed) -> None:
    """As `server.node_server`: with the metadata's directory, or the last one, the process ends. Raises StorageFault."""
    is_metadatas = effect.directory == node.config.metadata_log_dir
    if is_metadatas or node.composed is None or not node.composed.disk.has_online_directory():
        raise StorageFault(f"log directory {effect.directory} failed: {effect.reason}", directory=effect.directory)
    node.world.markers.hit("log directory failed, and its broker went on")


def take_offline(node: NodeOfDirectories, fault: StorageFault) -> None:
    """As `server.node_server`: a fault of one of several directories takes that offline, and nothing else. Raises the fault, if it is the process's."""
    broker = None if node.machine is None else node.machine.broker
    is_loaded = node.composed is not None and node.composed.disk.is_loaded
    if broker is None or not is_loaded or fault.directory not in node.config.log_dirs[1:]:
        raise fault
    broker.on_storage_fault(fault)


def has_lost_directory(node: NodeOfDirectories) -> bool:
    """A log directory is offline as long as this process lives."""
    return node.composed is not None and not all(one.is_online for one in node.composed.disk.logs.directories())


def ask_for_move(node: NodeOfDirectories, amount: int) -> None:
    """A replica of the broker is to be in another directory; now and then where it is, which gives a move up."""
    broker = None if node.machine is None else node.machine.broker
    here = [] if broker is None else sorted(name for name in broker.logs.logs() if broker.partitions.get(*name))
    if broker is not None and here:
        name = here[(amount >> 8) % len(here)]
        home = broker.logs.logs()[name].directory
        others = [path for path in node.config.log_dirs if path != home]
        broker.replica_moves.alter(name, home if not (amount >> 16) % 5 else others[0])


def watch_moves(step: Step, machine: NodeMachine, disk: SimDisk) -> None:
    """Note what a log has before and after it goes on in another directory."""
    if machine.broker is None:
        return
    moves = machine.broker.replica_moves
    honest = moves.take_place

    def take_place(log: LogMovePort, now_ms: int) -> None:
        with disk.looked_at():
            before = _records(log.source)
        durable_end, home = log.source.durable_end_offset, log.source.directory
        honest(log, now_ms)
        is_as_durable = log.source.durable_end_offset >= durable_end
        with disk.looked_at():
            is_same = before == _records(log.source)
        step.changes.append(
            LogMoved(log.partition, log.source.topic_id, home, log.directory_id, is_same, is_as_durable)
        )

    moves.take_place = take_place


def _records(log: PartitionLogPort) -> bytes:
    """All that can be read of a log."""
    found, at = bytearray(), log.log_start_offset
    while at < log.log_end_offset:
        data = log.read_bytes(at, _READ_BYTES, upper_offset=log.log_end_offset, min_one_batch=True)
        if isinstance(data, OutOfRange) or not data:
            break
        found += data
        at = max(header.next_offset for _, header in iter_batches(data))
    return bytes(found)
