"""Committed batches on their way into an image and a delta.

`MetadataLoader` is fed the committed batches in order, or a snapshot, and gives one `MetadataDelta` for what was fed, which its owner
hands to the publishers in their fixed order. Records between BeginTransaction and EndTransaction become visible together or,
with AbortTransaction, not at all (KIP-868, C4). A record that is unknown or makes no sense stops the loader for good (B-C20, C18).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Protocol

from headrace.core.errors import DecodeError
from headrace.core.values import changed
from headrace.metadata.compare import compare_images
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage, MetadataProvenance
from headrace.metadata.replay import ReplayError, replay, replay_all
from headrace.metadata.touched import Touched
from headrace.metadata.versions import unsupported_level
from headrace.wire.metadata_records.frame import decode_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.metadata.delta import MetadataDelta
    from headrace.wire.schema import Message

_BEGIN_TRANSACTION = 23
_END_TRANSACTION = 24
_ABORT_TRANSACTION = 25
_PART = 10_000
"""Records of a snapshot that are held decoded at a time."""
_BOUNDS = (_BEGIN_TRANSACTION, _END_TRANSACTION, _ABORT_TRANSACTION)


class CommittedBatch(Protocol):
    """One committed batch. `records` are framed metadata records; empty for a control batch. `timestamp` in ms since 1970."""

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record (inclusive)."""

    @property
    def epoch(self) -> int:
        """The leader epoch it was written in."""

    @property
    def timestamp(self) -> int:
        """When it was written, by the leader's clock."""

    @property
    def records(self) -> Sequence[bytes]:
        """The framed records."""


class Decided(NamedTuple):
    """Records that this node's own controller replayed when it decided them, and what came of it.

    They lead from `before` to `after`, have the offsets from `base_offset` up to `end_offset` (exclusive), and were offered to the log as
    one batch of `epoch` or several.
    """

    base_offset: int
    end_offset: int
    epoch: int
    records: Sequence[Message]
    before: MetadataImage
    after: MetadataImage


class MetadataFault(Exception):
    """The metadata log holds what this node cannot understand: it must stop (an active controller) or stop publishing."""


class MetadataLoader:
    """Holds the image of everything committed that it was fed. Driven by the node; owns no publishers itself."""

    def __init__(self, image: MetadataImage = EMPTY_IMAGE, *, is_any_level_read: bool = False) -> None:
        """`is_any_level_read`: a tool looks at metadata of features that a node of this version could not work with."""
        self._is_any_level_read = is_any_level_read
        self.image = image
        """The visible image: without the records of an open transaction."""
        self._pending = image
        """The image with them."""
        self._in_transaction = False
        self._touched = Touched()
        """What became visible since the last delta."""
        self._touched_in_transaction = Touched()
        self._published = image
        self._decided_image: MetadataImage | None = None
        """What was decided last and taken over: `_pending` has the same content."""
        self._fault: MetadataFault | None = None

    @property
    def in_transaction(self) -> bool:
        """A metadata transaction is open in the committed log."""
        return self._in_transaction

    @property
    def next_offset(self) -> int:
        """The first offset that was not fed yet."""
        return self._pending.provenance.last_contained_offset + 1

    def load_batches(self, batches: Sequence[CommittedBatch], decided: Iterable[Decided] = ()) -> MetadataDelta | None:
        """Replay committed batches in order; None when nothing became visible. Raises MetadataFault, from then on always.

        What was `decided` here, in order, is taken over where the batches hold it whole, and neither read nor replayed a second time.
        """
        self._check()
        ours = iter(decided)
        own = next(ours, None)
        for number, batch in enumerate(batches):
            while own is not None and own.end_offset <= batch.base_offset:
                own = next(ours, None)
            if own is None or not self._takes_over(own, batches, number):
                self._load_batch(batch)
            self._pending = changed(
                self._pending,
                provenance=MetadataProvenance(
                    last_contained_offset=batch.last_offset,
                    last_contained_epoch=batch.epoch,
                    last_contained_log_time_ms=batch.timestamp,
                ),
            )
            if not self._in_transaction:
                self.image = self._pending
        if self.image is self._published:
            return None
        delta = self._touched.delta(self._published, self.image)
        self._check_levels(delta)
        self._touched = Touched()
        self._published = self.image
        return delta

    def load_snapshot(self, records: Iterable[bytes], provenance: MetadataProvenance) -> MetadataDelta:
        """Replace everything by a snapshot's content; the delta tells what that changed (B-S09). Raises MetadataFault."""
        self._check()
        self._pending = EMPTY_IMAGE
        self._decided_image = None
        self._in_transaction = False
        source, first = iter(records), 0
        what = f"of the snapshot that ends at {provenance.last_contained_offset + 1}"
        while part := list(islice(source, _PART)):
            decoded = [self._decoded(data, f"record {first + n} {what}") for n, data in enumerate(part)]
            self._replay_run(decoded, lambda n, first=first: f"record {first + n} {what}")  # type: ignore[misc]
            first += len(part)
        self._pending = changed(self._pending, provenance=provenance)
        delta = compare_images(self._published, self._pending)
        self._check_levels(delta)
        self.image = self._published = self._pending
        self._touched = Touched()
        return delta

    def _check_levels(self, delta: MetadataDelta) -> None:
        """A cluster at a level that this version does not know is not to be guessed at (B-U03). Raises MetadataFault."""
        reason = None
        if delta.changed_features and not self._is_any_level_read:
            reason = unsupported_level(delta.image.features.levels)
        if reason is not None:
            self._fail(reason)

    def _takes_over(self, own: Decided, batches: Sequence[CommittedBatch], number: int) -> bool:
        """Whether this batch needs no replay: it begins what was decided on just this image, or goes on with it."""
        start = batches[number].base_offset
        if start != own.base_offset:
            return start > own.base_offset and self._decided_image is own.after
        if self._in_transaction or (own.before is not self._pending and own.before is not self._decided_image):
            return False
        if not _is_whole(own, batches, number) or any(record.SCHEMA.api_key in _BOUNDS for record in own.records):
            return False
        for record in own.records:
            self._touched.note(record, self._pending)
        self._pending = self._decided_image = own.after
        return True

    def _load_batch(self, batch: CommittedBatch) -> None:
        """The records of a batch: runs between the bounds of transactions."""
        run: list[Message] = []
        offset = batch.base_offset
        records = batch.records
        if records:
            self._decided_image = None
        for data in records:
            record = self._decoded(data, f"the record at offset {offset}")
            kind = record.SCHEMA.api_key
            if kind in _BOUNDS:
                self._load_run(run, offset - len(run))
                run = []
                if kind == _BEGIN_TRANSACTION:
                    self._begin(offset, batch)
                else:
                    self._end(offset, is_abort=kind == _ABORT_TRANSACTION)
            else:
                run.append(record)
            offset += 1
        self._load_run(run, offset - len(run))

    def _load_run(self, records: Sequence[Message], base_offset: int) -> None:
        touched = self._touched_in_transaction if self._in_transaction else self._touched
        for record in records:
            touched.note(record, self._pending)
        self._replay_run(records, lambda n: f"the record at offset {base_offset + n}")

    def _replay_run(self, records: Sequence[Message], where: Callable[[int], str]) -> None:
        """Records without bounds of transactions; `where` names the n-th one."""
        before = self._pending
        try:
            self._pending = replay_all(before, records)
        except ReplayError:
            self._pending = before
            for number, record in enumerate(records):  # one by one, to tell which
                self._pending = self._replay(record, where(number))

    def _begin(self, offset: int, batch: CommittedBatch) -> None:
        if self._in_transaction:
            self._fail(f"offset {offset}: a metadata transaction begins inside another one")
        if offset > batch.base_offset:
            provenance = MetadataProvenance(
                last_contained_offset=offset - 1,
                last_contained_epoch=batch.epoch,
                last_contained_log_time_ms=batch.timestamp,
            )
            self.image = changed(self._pending, provenance=provenance)
        self._in_transaction = True
        self._touched_in_transaction = Touched()

    def _end(self, offset: int, *, is_abort: bool) -> None:
        if not self._in_transaction:
            self._fail(f"offset {offset}: a metadata transaction ends that never began")
        if is_abort:
            self._pending = self.image
        else:
            self._touched.add(self._touched_in_transaction)
        self._in_transaction = False

    def _replay(self, record: Message, where: str) -> MetadataImage:
        try:
            return replay(self._pending, record)
        except ReplayError as error:
            self._fail(f"{where} ({type(record).__name__}) does not fit: {error}")

    def _decoded(self, data: bytes, where: str) -> Message:
        try:
            return decode_record(data)
        except DecodeError as error:
            self._fail(f"{where} of the metadata log is unknown to this version: {error.message}")

    def _fail(self, reason: str) -> NoReturn:
        self._fault = MetadataFault(reason)
        raise self._fault

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault


def _is_whole(own: Decided, batches: Sequence[CommittedBatch], first: int) -> bool:
    """Whether the batches from number `first` on are just what was decided: one node leads an epoch, so epoch and offset tell (R1)."""
    for number in range(first, len(batches)):
        batch = batches[number]
        if batch.epoch != own.epoch or batch.last_offset >= own.end_offset:
            return False
        if batch.last_offset + 1 == own.end_offset:
            return True
    return False
