"""Changes of feature levels (UpdateFeatures, KIP-584, KIP-778, KIP-966; B-U01..B-U03)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision
from headrace.controller.elr import safety_records
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.image import METADATA_VERSION, FeatureRange
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import (
    CHANGES_METADATA,
    ELR_FEATURE,
    ELR_METADATA_VERSION,
    KRAFT_VERSION,
    SUPPORTED_FEATURES,
    has_controller_registration,
    has_elr,
)
from headrace.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.controller.decision import Situation

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_OFF: Final = FeatureRange(0, 0)


def decide_update_features(
    situation: Situation, request: UpdateFeaturesRequest, *, is_kraft_version_taken: bool = False
) -> Decision:
    """All updates or none; the first that is refused is told.

    A new kraft.version is raft's to write: the decision asks for it, and is made again when raft has taken it.
    """
    version = situation.cause.api_version
    records: list[VersionedRecord] = []
    kraft_level: int | None = None
    try:
        _check_duplicates(request)
        for update in request.feature_updates:
            record = _updated(situation, update)
            if update.feature != KRAFT_VERSION:
                records.append(record)
            elif update.max_version_level != situation.kraft_version:
                kraft_level = update.max_version_level
        _check_dependencies(situation, request)
    except PeerError as refusal:
        message = f"The update failed for all features since the following feature had an error: {refusal.message}"
        return Decision(response=UpdateFeaturesResponse(error_code=refusal.code, error_message=message))
    if any(each.feature == ELR_FEATURE and each.max_version_level > 0 for each in request.feature_updates):
        records += safety_records(situation.image.configs, situation.config.min_insync_replicas)
    results = tuple(
        UpdatableFeatureResult(feature=each.feature, error_message=ErrorCode.NONE.name)
        for each in request.feature_updates
    )
    response = UpdateFeaturesResponse(error_message=None, results=results if version < 2 else ())
    if kraft_level is not None and not is_kraft_version_taken:
        return Decision(response=response, kraft_level=kraft_level)
    return Decision(records=() if request.validate_only else tuple(records), response=response, kraft_level=kraft_level)


def _check_duplicates(request: UpdateFeaturesRequest) -> None:
    names = [each.feature for each in request.feature_updates]
    if len(set(names)) != len(names):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A feature is named twice.")


def _check_dependencies(situation: Situation, request: UpdateFeaturesRequest) -> None:
    """Levels stand on those of other features, as they will be. Raises PeerError(INVALID_UPDATE_VERSION)."""
    asked = {each.feature: each.max_version_level for each in request.feature_updates}
    metadata_version = asked.get(METADATA_VERSION, situation.metadata_version)
    if asked.get(ELR_FEATURE, 0) > 0 and not has_elr(metadata_version):
        level = asked[ELR_FEATURE]
        reason = f"{ELR_FEATURE} could not be set to {level} because it depends on metadata.version level {ELR_METADATA_VERSION}"
        raise _invalid(ELR_FEATURE, level, reason)


def _updated(situation: Situation, update: FeatureUpdateKey) -> VersionedRecord:
    """The record of one update. Raises PeerError(INVALID_UPDATE_VERSION).

    Version 0's `allow_downgrade` counts for nothing, as in Kafka 4.3.1: such a request can only raise levels.
    """
    name, level = update.feature, update.max_version_level
    upgrade_type = update.upgrade_type
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _invalid(name, level, "The controller does not support the given upgrade type.")
    current = _current_level(situation, name)
    if level < 0:
        raise _invalid(name, level, "A feature version cannot be less than 0.")
    reason = _not_supported(situation, name, level)
    if reason is not None:
        raise _invalid(name, level, reason)
    if level < current and upgrade_type == UPGRADE:
        raise _invalid(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade.",
        )
    if level > current and upgrade_type != UPGRADE:
        raise _invalid(name, level, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION and level < current:
        raise _invalid(name, level, "Can't downgrade the version of this feature.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level, is_unsafe=upgrade_type == UNSAFE_DOWNGRADE)
    return VersionedRecord(FeatureLevelRecord(name=name, feature_level=level), 0)


def _current_level(situation: Situation, name: str) -> int:
    """kraft.version is not in the image: the quorum keeps it in its own records (KIP-853)."""
    if name == METADATA_VERSION:
        return situation.metadata_version
    return situation.kraft_version if name == KRAFT_VERSION else situation.image.features.level(name)


def _invalid(name: str, level: int, reason: str) -> PeerError:
    return PeerError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")


def _not_supported(situation: Situation, name: str, level: int) -> str | None:
    """Why this node, a broker or a controller cannot work with the level; None when all can (B-U02)."""
    local = SUPPORTED_FEATURES.get(name, _OFF)
    reason = _outside(f"Local controller {situation.config.node_id}", local, level)
    cluster = situation.image.cluster
    nodes: list[tuple[str, Mapping[str, FeatureRange]]] = [
        (f"Broker {broker_id}", cluster.brokers[broker_id].features) for broker_id in sorted(cluster.brokers)
    ]
    nodes += [
        (f"Controller {controller_id}", cluster.controllers[controller_id].features)
        for controller_id in sorted(cluster.controllers)
        if controller_id != situation.config.node_id
    ]
    for who, features in nodes:
        reason = reason or _outside(who, features.get(name, _OFF), level)
    if has_controller_registration(situation.metadata_version):
        for controller_id in sorted(voter[0] for voter in situation.config.controller_quorum_voters):
            if controller_id not in cluster.controllers and controller_id != situation.config.node_id:
                reason = reason or f"controller {controller_id} has not registered, and may not support this feature"
    if reason is None and name not in SUPPORTED_FEATURES:
        return f"Feature {name} not found."
    return reason


def _outside(who: str, supported: FeatureRange, level: int) -> str | None:
    low, high = supported
    if low <= level <= high:
        return None
    if (low, high) == (0, 0):
        return f"{who} does not support this feature."
    if low == high:
        return f"{who} only supports version {low}"
    return f"{who} only supports versions {low}-{high}"


def _check_metadata_version(current: int, level: int, *, is_unsafe: bool) -> None:
    """Down only when nothing could be lost (B-U02). Raises PeerError(INVALID_UPDATE_VERSION)."""
    if level < current and any(level < each <= current for each in CHANGES_METADATA):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if is_unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise PeerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {current} to {level}. {reason}",
        )
