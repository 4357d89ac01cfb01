"""What does one decision of the controller consist of?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import Uuid, random_uuid
from headrace.metadata.versions import MINIMUM_METADATA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.controller.events import RequestCause
    from headrace.controller.isr_index import IsrIndex
    from headrace.controller.topic_names import TopicNames
    from headrace.core.node_config import NodeConfig
    from headrace.core.ports import Rng
    from headrace.metadata.image import MetadataImage
    from headrace.metadata.snapshot import VersionedRecord
    from headrace.wire.schema import Message

MAX_RECORDS_A_DECISION: Final = 10_000
"""B-C22: what one request may write; more is refused whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a request leads to: records (none for a refusal), and the response.

    They are written together or not at all, in one batch; only what a broker's coming and going leads to may be split (`is_atomic` false).
    """

    records: tuple[VersionedRecord, ...] = ()
    response: Message
    is_atomic: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version."""
        return self.image.features.metadata_version or MINIMUM_METADATA_VERSION

    def new_uuid(self) -> Uuid:
        """A random uuid."""
        return random_uuid(self.rng)


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
    """B-C22. Raises PeerError(POLICY_VIOLATION): the operation would write too many records at once."""
    if records > MAX_RECORDS_A_DECISION:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def check_partitions(count: int) -> None:
    """B-C22, B25: before any of them is made. Raises PeerError(POLICY_VIOLATION)."""
    if count > MAX_RECORDS_A_DECISION:
        raise PeerError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
