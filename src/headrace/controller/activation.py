"""What a controller that becomes active begins with (B-C21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.controller.elr import safety_records
from headrace.controller.heartbeats import Heartbeats
from headrace.metadata.bootstrap import bootstrap_metadata_version
from headrace.metadata.image import ConfigsImage
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import ELR_FEATURE, has_metadata_transactions
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.controller.events import LeadershipGained


def fresh_sessions(event: LeadershipGained, *, session_timeout_ms: int) -> Heartbeats:
    """Every broker that is unfenced gets a full session, whatever it did before (S2-25, C14)."""
    heartbeats = Heartbeats(session_timeout_ms=session_timeout_ms)
    for broker_id in sorted(event.image.cluster.brokers):
        broker = event.image.cluster.brokers[broker_id]
        heartbeats.register(broker_id, is_fenced=broker.fenced, now_ms=event.now_ms)
        if broker.in_controlled_shutdown and not broker.fenced:
            heartbeats.begin_controlled_shutdown(broker_id, event.next_offset - 1)
    return heartbeats


def bootstrap_batch(given: Sequence[VersionedRecord], own_min_isr: int) -> list[VersionedRecord]:
    """The first records of an empty log, in a metadata transaction where their version knows these (KIP-866).

    Where ELR is on all brokers begin with this controller's `min.insync.replicas` (KIP-966).
    """
    features = [each.record for each in given if isinstance(each.record, FeatureLevelRecord)]
    has_elr = any(each.name == ELR_FEATURE and each.feature_level > 0 for each in features)
    records = [*given, *(safety_records(ConfigsImage(), own_min_isr) if has_elr else ())]
    level = bootstrap_metadata_version(records)
    if level is not None and has_metadata_transactions(level):
        begin = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
        return [begin, *records, VersionedRecord(EndTransactionRecord(), 0)]
    return records
