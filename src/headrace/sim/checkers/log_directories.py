"""Replicas that go from one log directory of their broker to another lose nothing on the way, and the metadata know where they are.  P20, D2"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.ids import MIGRATING_DIRECTORY
from headrace.metadata.versions import has_directory_assignment
from headrace.sim.checkers.group import Group
from headrace.sim.observation import LogMoved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView, NodeView


class LogDirectories(Group):
    """Each log when it goes on in another directory, and where all are in the end."""

    def after_changes(self) -> Mapping[type, Handler]:
        """A log goes on elsewhere."""
        return {LogMoved: self._moved}

    def _moved(self, life: Life, change: LogMoved) -> None:
        """It has what it had, as durable as it was, and the controller knew before (KIP-858)."""
        name = change.partition
        if not change.is_same:
            raise self.broken("P20", f"{name} has not the records any more that it had in {change.home}", life)
        if not change.is_as_durable:
            raise self.broken("D2", f"{name} is less durable than it was in {change.home}", life)
        machine = self.scene.step.node.machine
        assert machine is not None, "it has just moved a log"
        known = self._known_directory(life.node_id, change, machine.image)
        if known == MIGRATING_DIRECTORY:  # nobody has said it yet: the level came while the log was on its last steps
            self.hit("log moved while the metadata began to know directories")
        elif known not in (None, change.directory_id):
            raise self.broken("P20", f"{name} went to {change.directory_id}, the metadata say {known}", life)
        self.hit("log moved to another directory while it was in use")

    def _known_directory(self, node_id: int, change: LogMoved, own: MetadataImage) -> Uuid | None:
        """Where the committed metadata say that the replica is. None if they, or the broker's own ones, know of no such replica (its topic may be deleted while the log is moved) or of no directories."""
        committed = self.ghost.committed.image_at(self.ghost.committed.end)
        known: Uuid | None = None
        for image in (own, committed or own):
            found = image.topics.partition_by_id(change.topic_id, change.partition.partition)
            level = image.features.metadata_version or 0
            if found is None or node_id not in found.replicas or not has_directory_assignment(level):
                return None
            known = found.directory_of(node_id)
        return known

    def settled(self, cluster: ClusterView) -> None:
        """After healing every replica is where the metadata say, and none is on its way."""
        for node in cluster.nodes.values():
            broker: Any = None if node.machine is None else node.machine.broker
            if broker is None or len(broker.config.log_dirs) < 2 or not node.is_up:
                continue
            for hosted in broker.partitions:
                registered = broker.image.topics.partition_by_id(hosted.topic_id, hosted.partition)
                if registered is None or hosted.log is None:
                    continue
                known, actual = registered.directory_of(node.node_id), _id_of(node, hosted.log.directory)
                if known != actual or len(broker.replica_moves):
                    raise self.broken(
                        "P20",
                        f"{hosted} is in {actual}, the metadata say {known}; {len(broker.replica_moves)} moves go on",
                        self.ghost.lives[node.node_id],
                    )


def _id_of(node: NodeView, directory: str) -> Uuid:
    assert node.machine is not None, "a broker is looked at"
    broker: Any = node.machine.broker
    found: Uuid = broker.replica_moves.directory_ids[directory]
    return found
