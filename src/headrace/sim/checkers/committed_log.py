"""The records that are committed in truth, and what they mean.

The prefix grows when a majority of the voters in force holds it on disk in the leader's own epoch (section 2 of the catalogue), whether or
not any node knows that yet. It never shrinks and never changes. Its images are made by replaying it once.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.loader import MetadataLoader
from headrace.records.batch import read_header
from headrace.records.record import read_records
from headrace.sim.checkers.cluster_model import ClusterModel, Key
from headrace.sim.checkers.logs import EMPTY_CHAIN, GhostLog
from headrace.wire.metadata_records.frame import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.core.ids import Uuid
    from headrace.metadata.delta import MetadataDelta
    from headrace.raft.voters import VoterSet
    from headrace.sim.observation import LogAppended


class CommittedBatch(NamedTuple):
    """One committed batch as the loader takes it; `records` are framed, none for a control batch. `timestamp` in ms since 1970."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: tuple[bytes, ...]


class Replayed(NamedTuple):
    """One committed batch and what it did: `delta` is None when nothing became visible (a metadata transaction is open).

    `touched` is what the model of the cluster says that it may have changed; `wrong` where the image says something else than the model.
    """

    batch: CommittedBatch
    image: MetadataImage
    delta: MetadataDelta | None
    in_transaction: bool
    touched: Mapping[Key, None] = {}
    wrong: str = ""


def committed_batch(batch: LogAppended) -> CommittedBatch:
    """The batch, read."""
    records: tuple[bytes, ...] = ()
    if not batch.is_control:
        records = tuple(record.value or b"" for record in read_records(batch.data, 0))
    timestamp = read_header(batch.data).max_timestamp
    return CommittedBatch(batch.base_offset, batch.next_offset - 1, batch.epoch, timestamp, records)


class CommittedPrefix:
    """The true committed prefix, from offset 0 on, and the image after each of its batches."""

    __slots__ = ("_loader", "batches", "counted", "log", "model", "names", "replayed")

    def __init__(self) -> None:
        self.log = GhostLog()
        self.counted: VoterSet | None = None
        """The voters of whom a majority made the last batch committed: those of the leader's log, which it may not have committed (KIP-853)."""
        self.batches: list[LogAppended] = []
        self.replayed: list[Replayed] = []
        self.model = ClusterModel()
        """What the records say, by other code than the product's: the images are compared with it."""
        self.names: dict[Uuid, str] = {}
        """Of all topics that there ever were."""
        self._loader = MetadataLoader()

    @property
    def end(self) -> int:
        """Everything below is committed."""
        return self.log.end

    def begin_with(self, voters: VoterSet) -> None:
        """The voters in force before the first record."""
        if not self.batches and not self.log.voters.voters:
            self.log.reset(start=0, start_chain=EMPTY_CHAIN, voters=voters)

    def extend(self, batch: LogAppended) -> Replayed:
        """The next batch is committed; what it means. Raises MetadataFault when it means nothing (C18)."""
        self.log.append(batch)
        self.batches.append(batch)
        read = committed_batch(batch)
        delta = self._loader.load_batches((read,))
        image = self._loader.image
        if delta is not None:
            self.names.update((topic_id, change.after.name) for topic_id, change in delta.changed_topics.items())
        touched = self.model.take([decode_record(each) for each in read.records])
        wrong = next((found for key in touched if (found := self.model.difference(key, image))), "")
        replayed = Replayed(read, image, delta, self._loader.in_transaction, touched, wrong)
        self.replayed.append(replayed)
        return replayed

    def index_ending_at(self, end: int) -> int | None:
        """The number of the batch that ends at `end`, None when none does."""
        index = bisect_left(self.log.ends, end)
        return index if index < len(self.log.ends) and self.log.ends[index] == end else None

    def image_at(self, end: int) -> MetadataImage | None:
        """The visible image of everything below `end`, None when no committed batch ends there. `end` 0 is the empty one."""
        if end == 0:
            return EMPTY_IMAGE
        index = self.index_ending_at(end)
        return None if index is None else self.replayed[index].image

    def images_from(self, end: int) -> list[MetadataImage]:
        """The visible image after the first batch that ends at or behind `end`, and after each later one; the last one if none does."""
        return [each.image for each in self.replayed[min(bisect_left(self.log.ends, end), len(self.replayed) - 1) :]]

    def images_since(self, end: int) -> Iterator[MetadataImage]:
        """The visible image at `end`, and each one after it."""
        image = self.image_at(end)
        if image is not None:
            yield image
        for replayed in self.between(end, self.end):
            if replayed.delta is not None:
                yield replayed.image

    def between(self, start: int, end: int) -> Iterator[Replayed]:
        """The batches that end in (start, end]."""
        low = bisect_left(self.log.ends, start + 1)
        high = bisect_left(self.log.ends, end + 1)
        return iter(self.replayed[low:high])
