"""Eligible leader replicas: who may lead without loss though it is not in sync (KIP-966).

    ISR shrinks below min.insync.replicas    those that leave it join the ELR: nothing is committed without them (P6)
    ISR has min.insync.replicas again        the ELR is empty
    broker comes back without a clean stop   out of ISR and ELR, it may have lost what it had (C10)
    ISR and ELR empty                        only the last leader may lead, as after an unclean election; or nobody

As Apache Kafka 4.3.1 has it, but for what could lose records: `min.insync.replicas` counts for no more than the partition itself has replicas (Kafka
looks at partition 0); who is no replica any more is in no ELR and is not who led last; nor is one whose replica begins anew, empty, where others have
something of the log; and what is left of ELRs when the feature goes is kept true, or forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.image import NO_LEADER, RESOURCE_BROKER, RESOURCE_TOPIC
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import ELR_FEATURE
from headrace.wire.metadata_records.clear_elr_record import ClearElrRecord
from headrace.wire.metadata_records.config_record import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.metadata.image import ConfigResource, ConfigsImage, FeaturesImage, PartitionRegistration

MIN_ISR_KEY: Final = "min.insync.replicas"


def is_elr_on(features: FeaturesImage) -> bool:
    """The cluster keeps eligible leader replicas."""
    return features.level(ELR_FEATURE) >= 1


def elr_after(
    before: PartitionRegistration, replicas: tuple[int, ...], isr: tuple[int, ...], *, min_isr: int | None, unclean: int
) -> tuple[int, ...]:
    """The ELR beside a new ISR. Where the feature is off (`min_isr` None) nobody joins it; who is left in it may still lead when nobody is in sync."""
    elr = before.eligible_leader_replicas
    if min_isr is None:
        return tuple([each for each in elr if each not in (unclean, *isr) and each in replicas]) if elr else ()
    if len(isr) >= min(min_isr, len(replicas)):
        return ()
    members = {*elr, *before.isr} & set(replicas)
    return tuple(sorted(members - {*isr, unclean}))


def last_known_leader(before: PartitionRegistration, whole: tuple[int, ...]) -> int:
    """Who led last, where that is known: LastKnownElr has one member then, which must be one of the `whole` replicas."""
    known = before.last_known_elr
    return known[0] if len(known) == 1 and known[0] in whole else NO_LEADER


def last_known_after(
    before: PartitionRegistration, whole: tuple[int, ...], leader: int, *, is_on: bool
) -> tuple[int, ...]:
    """LastKnownElr remembers who led when the partition lost its leader, until it has one again. Whoever is none of the `whole` replicas has no log of it."""
    known = before.last_known_elr
    if leader != NO_LEADER:
        return ()
    if is_on and not known and before.leader != NO_LEADER:
        known = (before.leader,)
    return tuple([each for each in known if each in whole])


# What the settings must be


def safety_records(configs: ConfigsImage, own_min_isr: int) -> Iterator[VersionedRecord]:
    """One `min.insync.replicas` for all brokers, that of this controller's file, and none of a single broker: all must agree on what is committed."""
    if MIN_ISR_KEY not in configs.of_all_brokers():
        yield _min_isr_record("", str(own_min_isr))
    for resource in sorted(configs.by_resource):
        if (
            resource.resource_type == RESOURCE_BROKER
            and resource.resource_name
            and MIN_ISR_KEY in configs.of(*resource)
        ):
            yield _min_isr_record(resource.resource_name, None)


def _min_isr_record(broker: str, value: str | None) -> VersionedRecord:
    record = ConfigRecord(resource_type=RESOURCE_BROKER, resource_name=broker, name=MIN_ISR_KEY, value=value)
    return VersionedRecord(record, 0)


def check_min_isr_changes(resource: ConfigResource, changes: Iterable[tuple[str, str | None]]) -> None:
    """While the feature is on, no broker has its own, and that of all brokers stays. Raises PeerError(INVALID_CONFIG)."""
    if resource.resource_type != RESOURCE_BROKER:
        return
    for name, value in changes:
        if name == MIN_ISR_KEY and resource.resource_name:
            message = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            raise PeerError(ErrorCode.INVALID_CONFIG, message)
        if name == MIN_ISR_KEY and value is None:
            message = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            raise PeerError(ErrorCode.INVALID_CONFIG, message)


def clear_records(records: Iterable[VersionedRecord]) -> Iterator[VersionedRecord]:
    """The ELRs that were made under another `min.insync.replicas` are forgotten: of a topic, or of all."""
    for each in records:
        record = each.record
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR_KEY:
            topic = record.resource_name if record.resource_type == RESOURCE_TOPIC else ""
            yield VersionedRecord(ClearElrRecord(topic_name=topic), 0)
