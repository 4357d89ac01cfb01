"""What the copies of a partition must hold, and how much of it may be lost: the picture that checkers of copied records and of groups share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.observation import ClusterView, NodeView

Place = tuple[str, int]


class Wound:
    """A replica that lost what it had not synced: the registration it had then, and whether a later one has left the ISR."""

    __slots__ = ("broker_epoch", "is_out")

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.is_out = False


class Promise:
    """What the copies of a partition must hold, by offset; it is one of the topic with this id, and no other of the same name has any of it."""

    __slots__ = ("compared", "end", "held", "is_void", "losses", "offsets", "topic_id", "truth", "wounds")

    def __init__(self, topic_id: Uuid | None = None) -> None:
        self.topic_id = topic_id
        """None: the topic is gone."""
        self.held: dict[int, bytes] = {}
        self.offsets: dict[bytes, int] = {}
        self.end = 0
        """Behind the last of them."""
        self.losses = 0
        self.is_void = False
        """Too many copies lost something: until all are in sync again, copies may differ, and the one that is right may lose."""
        self.wounds: dict[int, Wound] = {}
        self.truth: dict[int, tuple[int, bytes]] = {}
        """Leader epoch and value of what was below somebody's high watermark."""
        self.compared: dict[tuple[int, int], int] = {}
        """(node, its run) -> the end of what was compared with that."""

    def forget(self) -> None:
        """Too many copies lost something at the same time: nothing is promised of what was."""
        self.losses += 1
        self.is_void = True
        self.held.clear()
        self.offsets.clear()
        self.truth.clear()
        self.compared.clear()
        self.end = 0

    def begin_life(self, topic_id: Uuid | None) -> None:
        """The topic was deleted, and another one may have its name: nothing is promised yet."""
        self.forget()
        self.is_void = False
        self.wounds.clear()
        self.topic_id = topic_id


def topic_id_at(image: MetadataImage, place: Place) -> Uuid | None:
    """The id of the topic that has this name now; None: no topic has it."""
    topic = image.topics.by_name.get(place[0])
    return None if topic is None else topic.id


def hosted_on(node: NodeView, place: Place) -> Any:
    """The partition on the node's broker, of whatever topic of that name; None when it runs none, or does not host it."""
    broker: Any = None if node.machine is None else node.machine.broker
    return None if broker is None else broker.partitions.get(*place)


def hosted_at(cluster: ClusterView, node_id: int, place: Place, topic_id: Uuid | None) -> Any:
    """The partition as a broker hosts it that has heard of this topic; None: it runs none, hosts nothing there, or still another topic's."""
    node = cluster.nodes.get(node_id)
    hosted = None if node is None else hosted_on(node, place)
    return hosted if hosted is not None and hosted.topic_id == topic_id else None


def registered_at(image: MetadataImage, place: Place) -> PartitionRegistration | None:
    """The partition as the metadata have it, None when they do not."""
    topic = image.topics.by_name.get(place[0])
    return None if topic is None else topic.partitions.get(place[1])
