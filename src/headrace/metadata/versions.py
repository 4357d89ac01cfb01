"""The versions of records at a metadata.version, and the levels of features that this node knows.

The numbers are those of Apache Kafka 4.3.1 (`MetadataVersion` of server-common). Below 7 (3.3-IV3) Kafka 4 does not go (D-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.metadata.image import METADATA_VERSION, FeatureRange

if TYPE_CHECKING:
    from collections.abc import Mapping

MINIMUM_METADATA_VERSION: Final = 7
LATEST_METADATA_VERSION: Final = 30

METADATA_VERSION_NAMES: Final = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}
"""Name of each level of metadata.version."""

CHANGES_METADATA: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought new records or fields: going below one of them could lose something."""

KRAFT_VERSION: Final = "kraft.version"
ELR_FEATURE: Final = "eligible.leader.replicas.version"
ELR_METADATA_VERSION: Final = 23
"""From 4.0-IV1 on the records of partitions have room for eligible leader replicas."""

SUPPORTED_FEATURES: Final = {
    METADATA_VERSION: FeatureRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    KRAFT_VERSION: FeatureRange(0, 1),
    "group.version": FeatureRange(0, 0),
    "transaction.version": FeatureRange(0, 0),
    ELR_FEATURE: FeatureRange(0, 1),
    "share.version": FeatureRange(0, 0),
    "streams.version": FeatureRange(0, 0),
}
"""What this node can work with. What is not built has level 0 only; Kafka's own range of each is wider."""


def metadata_version_name(level: int) -> str:
    """Kafka's name of a level, such as `4.3-IV0`; the number itself when it has none."""
    return METADATA_VERSION_NAMES.get(level, str(level))


def unsupported_level(levels: Mapping[str, int]) -> str | None:
    """What a finalized feature needs that this version of Headrace does not have, and how to lower it; None if nothing (B-U03)."""
    for name in sorted(levels):
        low, high = SUPPORTED_FEATURES.get(name, FeatureRange(0, 0))
        if not low <= levels[name] <= high and name != KRAFT_VERSION:
            return (
                f"feature {name} is finalized at level {levels[name]}, but this version works with {low} to {high}; lower it "
                f"with: kafka-features --bootstrap-server HOST:PORT downgrade --feature {name}={high}"
            )
    return None


def has_metadata_transactions(metadata_version: int) -> bool:
    """BeginTransactionRecord and its kin may be written (KIP-868)."""
    return metadata_version >= 13


def has_scram(metadata_version: int) -> bool:
    """SCRAM credentials may be written (KIP-900)."""
    return metadata_version >= 11


def has_delegation_tokens(metadata_version: int) -> bool:
    """Delegation tokens may be written (KIP-900)."""
    return metadata_version >= 14


def has_controller_registration(metadata_version: int) -> bool:
    """RegisterControllerRecord may be written (KIP-919)."""
    return metadata_version >= 15


def has_directory_assignment(metadata_version: int) -> bool:
    """Partitions know the log directory of each replica (KIP-858)."""
    return metadata_version >= 17


def has_elr(metadata_version: int) -> bool:
    """Partitions may have eligible leader replicas (KIP-966)."""
    return metadata_version >= ELR_METADATA_VERSION


def has_cordoned_log_dirs(metadata_version: int) -> bool:
    """Brokers tell which of their directories take no new replicas (KIP-1066)."""
    return metadata_version >= 30


def bumps_leader_epoch_on_isr_shrink(metadata_version: int) -> bool:
    """Before 3.6-IV0 a shrinking ISR raised the leader epoch."""
    return metadata_version < 12


def register_broker_version(metadata_version: int) -> int:
    """Version in which RegisterBrokerRecord is written."""
    if has_cordoned_log_dirs(metadata_version):
        return 4
    if has_directory_assignment(metadata_version):
        return 3
    return 2 if metadata_version >= 8 else 1


def partition_version(metadata_version: int) -> int:
    """Version in which PartitionRecord and PartitionChangeRecord are written."""
    if has_elr(metadata_version):
        return 2
    return 1 if has_directory_assignment(metadata_version) else 0
