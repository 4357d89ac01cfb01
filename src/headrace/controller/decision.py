"""One decision of the controller: its records and its response."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from headrace.controller.eligibility import NOBODY, Eligible
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import Uuid, random_uuid
from headrace.core.values import value_class
from headrace.metadata.versions import MINIMUM_METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from headrace.config.node_config import NodeConfig
    from headrace.controller.events import RequestCause
    from headrace.controller.isr_index import IsrIndex
    from headrace.controller.topic_names import TopicNames
    from headrace.core.ids import TopicIdPartition
    from headrace.core.ports import Rng
    from headrace.metadata.cause import Cause
    from headrace.metadata.image import BrokerRegistration, MetadataImage
    from headrace.metadata.snapshot import VersionedRecord
    from headrace.wire.schema import Message

MAX_RECORDS_A_DECISION: Final = 10_000
"""What one request may write; more is refused whole (B-C22)."""


@value_class
class Decision:
    """What a request leads to: records (none for a refusal), and the response.

    They are written together or not at all, in one batch. Only what a broker's coming and going means for its partitions may be more than
    a batch holds: that is `moves`, decided slice by slice behind `records`, each on what is decided by then. And what brokers ask about
    many partitions at once, each on its own: not `is_atomic`.
    """

    records: tuple[VersionedRecord, ...] = ()
    response: Message
    is_atomic: bool = True
    moves: tuple[Moves, ...] = ()
    kraft_level: int | None = None
    """The level of kraft.version that raft must take first; then the request is decided again."""


@value_class
class Moves:
    """Partitions to look at one by one, slice by slice; then `last` ends it (B-C22, B-C24).

    By default broker `remove` leaves them, or broker `add` may lead them. Until the end `remove` counts as leaving: it gets nothing
    new. `broker_epoch` is that of this broker; when another incarnation is registered meanwhile, the moves are dropped.
    """

    places: Iterable[TopicIdPartition]
    remove: int = NOBODY
    add: int = NOBODY
    broker_epoch: int = -1
    change: Callable[[Situation, Iterable[TopicIdPartition]], Iterable[VersionedRecord]] | None = None
    """What becomes of a slice of places, in place of the default."""
    last: Callable[[Situation], tuple[Sequence[VersionedRecord], Message | None]] | None = None
    """The last records, and another response if it is not None."""
    cause: Cause | None = None
    """What the records come from, where the event alone does not say it."""
    on_end: Callable[[int], None] | None = None
    """Told the offset of the last record, once it is decided."""
    is_for_good: bool = False
    """`remove` goes with its replicas: nobody may assign it new ones (S1-66)."""
    is_a_look: bool = False
    """Nothing is moved yet: `remove` does not count as leaving until this is over, and may lead meanwhile."""
    lost: Collection[Uuid] = ()
    """The directories of `remove` that failed, if it leaves only what is in them: meanwhile it may lead what is in others."""


@value_class
class Situation:
    """What a decision may look at. `image` holds everything decided so far, committed or not; `next_offset` is the first free one."""

    image: MetadataImage
    index: IsrIndex
    names: TopicNames
    config: NodeConfig
    cluster_id: str
    kraft_version: int
    rng: Rng
    next_offset: int
    now_ms: int
    cause: RequestCause
    leaving: Collection[int] = ()
    """Brokers whose leaderships are just being moved away."""
    retiring: Collection[int] = ()
    """Those that go for good, with their replicas, or are looked at because they are to."""
    losing: Mapping[int, Collection[Uuid]] = field(default_factory=dict)
    """Those of them that leave only what is in these directories."""
    looked_up: list[Eligible] = field(default_factory=list)
    """Who may lead as things are, once somebody asked."""

    def eligible(self, *, without: int = NOBODY, plus: int = NOBODY) -> Eligible:
        """Who may lead; `without` counts as gone, `plus` as unfenced. Looked up once for a decision as things are."""
        if without != NOBODY or plus != NOBODY:
            return Eligible(self.image.cluster, leaving=self.leaving, losing=self.losing, without=without, plus=plus)
        if not self.looked_up:
            self.looked_up.append(Eligible(self.image.cluster, leaving=self.leaving, losing=self.losing))
        return self.looked_up[0]

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version."""
        return self.image.features.metadata_version or MINIMUM_METADATA_VERSION

    def new_uuid(self) -> Uuid:
        """A random uuid."""
        return random_uuid(self.rng)


def check_broker_epoch(situation: Situation, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """The registration that a request speaks for (C8). Raises PeerError(STALE_BROKER_EPOCH): unknown id or older epoch."""
    broker = situation.image.cluster.brokers.get(broker_id)
    if broker is None:
        raise PeerError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise PeerError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


def check_record(situation: Situation, record: VersionedRecord) -> None:
    """A record that will be written later must fit a batch. Raises EncodeError, PeerError(POLICY_VIOLATION) (B-C22)."""
    if len(record.encode()) > situation.config.internal_metadata_max_batch_size_in_bytes // 2:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


RECORD_OVERHEAD: Final = 20
"""Bytes that a record costs in a batch beside its own, at most."""


def batches(records: Sequence[bytes], *, max_bytes: int) -> Iterator[tuple[bytes, ...]]:
    """The records in as few batches as the limits allow (B-C22)."""
    batch: list[bytes] = []
    size = 0
    for record in records:
        cost = len(record) + RECORD_OVERHEAD
        if batch and (len(batch) == MAX_RECORDS_A_DECISION or size + cost > max_bytes):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(record)
        size += cost
    if batch:
        yield tuple(batch)


def check_size(records: int) -> None:
    """Raises PeerError(POLICY_VIOLATION): the operation would write too many records at once (B-C22)."""
    if records > MAX_RECORDS_A_DECISION:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def check_partitions(count: int) -> None:
    """Before any of them is made (B-C22, B25). Raises PeerError(POLICY_VIOLATION)."""
    if count > MAX_RECORDS_A_DECISION:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
