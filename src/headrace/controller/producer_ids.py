"""Blocks of producer ids for brokers (AllocateProducerIds, KIP-730; B-C13, C13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision, check_broker_epoch
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.snapshot import VersionedRecord
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord

if TYPE_CHECKING:
    from headrace.controller.decision import Situation

BLOCK_SIZE: Final = 1000
_LAST_ID: Final = 2**63 - 1


def decide_allocation(situation: Situation, request: AllocateProducerIdsRequest) -> Decision:
    """The next block; it is the broker's alone for ever, also when the broker never uses it."""
    check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    start = situation.image.next_producer_id
    if start > _LAST_ID - BLOCK_SIZE:
        raise PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids of the 64-bit range were given out")
    record = ProducerIdsRecord(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, next_producer_id=start + BLOCK_SIZE
    )
    response = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE)
    return Decision(records=(VersionedRecord(record, 0),), response=response)
