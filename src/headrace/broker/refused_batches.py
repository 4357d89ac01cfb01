"""Batches that a partition refused for the moment: what its producer sent behind them is refused for the same reason.

An idempotent producer has up to five requests in flight (KIP-98). Where the first is refused because too few replicas are in sync, or because the
broker does not lead yet, and that is over when the second comes, the second is out of order: its client believes that something was lost. librdkafka
then takes a new epoch, and what it sends again of *other* partitions is written there twice. If the log does not know the producer, any sequence would
do, and the first batch, sent again, is an error that ends the client. A client sends again in order once it has heard of all that was in flight.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.log.ports import PartitionLogPort
from headrace.log.producers import is_behind, next_sequence
from headrace.records.batch import HEADER, HEADER_SIZE, MAGIC, NO_PRODUCER_ID

FOR_THE_MOMENT: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT,
})  # fmt: skip
"""Reasons that pass; clients send the batch again as it is. REQUEST_TIMED_OUT where too many wait to be opened: nothing was appended."""
REMEMBERED_MS: Final = 10_000
"""What was in flight comes sooner; a client that gave the refused batch up is held up for no longer."""
_MOST_PRODUCERS = 16
"""Of one partition; the earliest are forgotten."""
_MOST_PARTITIONS = 256
"""That are not here; the same."""
_LONGEST_NAME = 249
"""Of a topic."""
NOT_HERE: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID,
})  # fmt: skip
"""Reasons that pass where a partition is not here yet. What follows is told NOT_LEADER_OR_FOLLOWER: that it is there is known by then."""


class ProducerPlace(NamedTuple):
    """Where a batch stands among those of its producer: producer id, producer epoch, first sequence."""

    producer_id: int
    epoch: int
    sequence: int


class _Refusal(NamedTuple):
    epoch: int
    sequence: int
    error: ErrorCode
    until_ms: int


def place_of(records: memoryview | None) -> ProducerPlace | None:
    """The place of the first batch of a request; None where it has no producer, or is no batch."""
    if records is None or len(records) < HEADER_SIZE:
        return None
    _, _, _, magic, *_, producer_id, epoch, sequence, _ = HEADER.unpack_from(records)
    return None if magic != MAGIC or producer_id == NO_PRODUCER_ID else ProducerPlace(producer_id, epoch, sequence)


class RefusedBatches:
    """Of one partition, the first batch of each producer that was refused for the moment and has not come again. Times are ms of any one clock."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refusal] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def note(self, place: ProducerPlace, error: ErrorCode, now_ms: int) -> None:
        """The batch at `place` was refused. Of several that were in flight the first counts."""
        known = self._by_producer.get(place.producer_id)
        is_remembered = known is not None and known.until_ms > now_ms
        if known is not None and is_remembered and (place.epoch < known.epoch or _is_held_back(place, known)):
            return
        if known is None and len(self._by_producer) >= _MOST_PRODUCERS:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[place.producer_id] = _Refusal(place.epoch, place.sequence, error, now_ms + REMEMBERED_MS)

    def reason(self, records: memoryview | None, log: PartitionLogPort | None, now_ms: int) -> ErrorCode | None:
        """Why a batch is refused: one before it in its producer's order was, which `log` does not have. None: it may be taken."""
        self._by_producer = {key: each for key, each in self._by_producer.items() if each.until_ms > now_ms}
        place = place_of(records)
        refusal = None if place is None else self._by_producer.get(place.producer_id)
        if place is None or refusal is None or place.epoch < refusal.epoch:
            return None
        if place.epoch > refusal.epoch or (log is not None and _has_come(refusal, log, place.producer_id)):
            del self._by_producer[place.producer_id]
            return None
        return refusal.error if _is_held_back(place, refusal) else None

    def taken(self, place: ProducerPlace) -> None:
        """The batch at `place` was: the refused one, or one of a later epoch, or an earlier one again, which says nothing of it."""
        refusal = self._by_producer.get(place.producer_id)
        if refusal is None or place.epoch < refusal.epoch:
            return
        if place.epoch > refusal.epoch or not is_behind(refusal.sequence, place.sequence):
            del self._by_producer[place.producer_id]


class EarlyBatches:
    """The same of partitions that are not here, which their clients knew sooner than this broker: kept for when they are.

    A topic's first batches are sent as soon as any broker tells of it.
    """

    __slots__ = ("_by_place",)

    def __init__(self) -> None:
        self._by_place: dict[tuple[bytes | str, int], RefusedBatches] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def note(self, topic: bytes | str, partition: int, place: ProducerPlace, now_ms: int) -> None:
        """The batch at `place` was refused. `topic` is an id or a name, as the client says it."""
        if len(topic) > _LONGEST_NAME:
            return
        early = self._by_place.pop((topic, partition), None) or RefusedBatches()
        if len(self._by_place) >= _MOST_PARTITIONS:
            del self._by_place[next(iter(self._by_place))]
        self._by_place[topic, partition] = early
        early.note(place, ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)

    def take(self, topic: str, topic_id: bytes, partition: int) -> RefusedBatches | None:
        """What is known of a partition that is here from now on."""
        if not self._by_place:
            return None
        by_name = self._by_place.pop((topic, partition), None)
        return self._by_place.pop((topic_id, partition), None) or by_name


def remembered_after(
    refused: RefusedBatches | None, place: ProducerPlace | None, error: int, now_ms: int
) -> RefusedBatches | None:
    """What is remembered after the batch at `place` was taken (`error` is 0) or refused; None for nothing, so that batches go the quick way."""
    if place is None:
        return refused or None
    if error in FOR_THE_MOMENT:
        refused = RefusedBatches() if refused is None else refused
        refused.note(place, ErrorCode(error), now_ms)
    elif not error and refused is not None:
        refused.taken(place)
    return refused or None


def _is_held_back(place: ProducerPlace, refusal: _Refusal) -> bool:
    """The batch is behind the refused one in its producer's order."""
    return place.epoch == refusal.epoch and is_behind(place.sequence, refusal.sequence)


def _has_come(refusal: _Refusal, log: PartitionLogPort, producer_id: int) -> bool:
    """The log is past the refused batch, which came by another way; one that is behind it is a copy that has not caught up."""
    known = log.producer_end(producer_id)
    if known is None:
        return False
    if known.epoch != refusal.epoch:
        return known.epoch > refusal.epoch
    return is_behind(next_sequence(known.last_sequence), refusal.sequence)
