"""What the copies of a partition must hold, and how much of it may be lost: the picture that checkers of copied records and of groups share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage, PartitionRegistration

Place = tuple[str, int]


class Wound:
    """A replica that lost what it had not synced: the registration it had then, and whether a later one has left the ISR."""

    __slots__ = ("broker_epoch", "is_out")

    def __init__(self, broker_epoch: int) -> None:
        self.broker_epoch = broker_epoch
        self.is_out = False


class Promise:
    """What the copies of a partition must hold, by offset."""

    __slots__ = ("compared", "end", "held", "is_void", "losses", "offsets", "truth", "wounds")

    def __init__(self) -> None:
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


def registered_at(image: MetadataImage, place: Place) -> PartitionRegistration | None:
    """The partition as the metadata have it, None when they do not."""
    topic = image.topics.by_name.get(place[0])
    return None if topic is None else topic.partitions.get(place[1])
