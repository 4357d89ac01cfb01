"""Brokers, partitions and credentials as Kafka's metadata shell writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from headrace.metadata.image import (
    AccessControlEntry,
    BrokerRegistration,
    ControllerRegistration,
    DelegationToken,
    EndPoint,
    FeatureRange,
    MetadataProvenance,
    PartitionRegistration,
    ScramCredential,
)
from headrace.metadata.versions import metadata_version_name

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_RECOVERY = ("RECOVERED", "RECOVERING")
_RESOURCES = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_OPERATIONS = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def metadata_version(level: int | None) -> str:
    """The finalised metadata.version, as Java prints an Optional."""
    return "Optional.empty" if level is None else f"Optional[{metadata_version_name(level)}]"


def provenance(where: MetadataProvenance) -> str:
    """Up to where the image knows the log."""
    at = _iso(where.last_contained_log_time_ms)
    return f"offset {where.last_contained_offset}, epoch {where.last_contained_epoch}, time {at}"


def _iso(at_ms: int) -> str:
    """ISO_ZONED_DATE_TIME of UTC: the fraction without trailing zeros."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    fraction = f".{at_ms % 1000:03d}".rstrip("0") if at_ms % 1000 else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def broker(each: BrokerRegistration) -> str:
    """A registered broker."""
    rack = "Optional.empty" if each.rack is None else f"Optional[{each.rack}]"
    return (
        f"BrokerRegistration(id={each.broker_id}, epoch={each.broker_epoch}, incarnationId={each.incarnation_id}, "
        f"listeners=[{_end_points(each.end_points)}], supportedFeatures={{{_ranges(each.features)}}}, rack={rack}, "
        f"fenced={_truth(each.fenced)}, inControlledShutdown={_truth(each.in_controlled_shutdown)}, "
        f"isMigratingZkBroker={_truth(each.is_migrating_zk_broker)}, directories={_list(each.log_dirs)}, "
        f"cordonedDirectories={_list(each.cordoned_log_dirs or ())})"
    )


def controller(each: ControllerRegistration) -> str:
    """A registered controller."""
    return (
        f"ControllerRegistration(id={each.controller_id}, incarnationId={each.incarnation_id}, "
        f"zkMigrationReady={_truth(each.zk_migration_ready)}, listeners=[{_end_points(each.end_points)}], "
        f"supportedFeatures={{{_ranges(each.features)}}})"
    )


def _end_points(end_points: Iterable[EndPoint]) -> str:
    return ", ".join(
        f"Endpoint(listenerName='{each.name}', securityProtocol={_PROTOCOLS[each.security_protocol]}, "
        f"host='{each.host}', port={each.port})"
        for each in sorted(end_points)
    )


def _ranges(features: Mapping[str, FeatureRange]) -> str:
    return ", ".join(
        f"{name}: {low}" if low == high else f"{name}: {low}-{high}" for name, (low, high) in sorted(features.items())
    )


def _truth(claim: object) -> str:
    return "true" if claim else "false"


def _list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"


def partition(each: PartitionRegistration) -> str:
    """One partition."""
    return (
        f"PartitionRegistration(replicas={_list(each.replicas)}, directories={_list(each.directories)}, "
        f"isr={_list(each.isr)}, removingReplicas={_list(each.removing_replicas)}, "
        f"addingReplicas={_list(each.adding_replicas)}, elr={_list(each.eligible_leader_replicas)}, "
        f"lastKnownElr={_list(each.last_known_elr)}, leader={each.leader}, "
        f"leaderRecoveryState={_RECOVERY[each.leader_recovery_state]}, leaderEpoch={each.leader_epoch}, "
        f"partitionEpoch={each.partition_epoch})"
    )


def acl(each: AccessControlEntry) -> str:
    """One access rule."""
    return (
        f"StandardAcl[resourceType={_word(_RESOURCES, each.resource_type)}, resourceName={each.resource_name}, "
        f"patternType={_word(_PATTERNS, each.pattern_type)}, principal={each.principal}, host={each.host}, "
        f"operation={_word(_OPERATIONS, each.operation)}, permissionType={_word(_PERMISSIONS, each.permission_type)}]"
    )


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else "UNKNOWN"


def scram_credential(each: ScramCredential) -> str:
    """The stored half of a SCRAM password; the shell reads a file that holds it anyway."""
    return (
        f"ScramCredentialData(salt={each.salt.hex()}, storedKey={each.stored_key.hex()}, "
        f"serverKey={each.server_key.hex()}, iterations={each.iterations})"
    )


def delegation_token(each: DelegationToken) -> str:
    """A token's facts, with the brackets where Kafka has them."""
    return (
        f"DelegationTokenDatatokenId={each.token_id}(owner={each.owner}(tokenRequester={each.requester}"
        f"(renewers={' '.join(each.renewers)}, issueTimestamp={each.issue_timestamp}, "
        f"maxTimestamp={each.max_timestamp}), expiryTimestamp={each.expiration_timestamp}"
    )


def java_double(value: float) -> str:
    """A double as Java prints it: scientific from 10^7 on and below 10^-3."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    exponent = f"{value:e}".partition("e")[2]
    shortest = repr(float(value))
    digits = shortest.partition("e")[0] if "e" in shortest else _shortest_digits(shortest)
    digits = digits if "." in digits else f"{digits}.0"
    return f"{digits}E{int(exponent)}"


def _shortest_digits(plain: str) -> str:
    """The digits of a plain decimal, moved so that one stands before the point."""
    sign = "-" if plain.startswith("-") else ""
    digits = plain.lstrip("-").replace(".", "").lstrip("0").rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}"
