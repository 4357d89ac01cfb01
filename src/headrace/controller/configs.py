"""Changes of settings, and the records that say so (AlterConfigs, IncrementalAlterConfigs, KIP-226, KIP-339, KIP-966; B-C05, B70).

Values are checked by `core.config_rules`. Each resource changes whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.config.rules import ResourceType, apply_operation, check_resource_configs
from headrace.controller.decision import Decision, check_size
from headrace.controller.elr import check_min_isr_changes, clear_records, is_elr_on
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.image import ConfigResource
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import has_cordoned_log_dirs
from headrace.wire.messages import alter_configs, incremental_alter_configs
from headrace.wire.metadata_records.config_record import ConfigRecord

if TYPE_CHECKING:
    from headrace.controller.decision import Situation


MAX_TEXT_BYTES = 32_767
CORDONED = "cordoned.log.dirs"


def decide_incremental_alter_configs(
    situation: Situation, request: incremental_alter_configs.IncrementalAlterConfigsRequest
) -> Decision:
    """Set, delete, append to or subtract from single settings."""
    records: list[VersionedRecord] = []
    responses = []
    refusals = refused_duplicates(
        [(each.resource_type, each.resource_name, [one.name for one in each.configs]) for each in request.resources]
    )
    for resource in request.resources:
        key = ConfigResource(resource.resource_type, resource.resource_name)
        operations = [(each.name, each.config_operation, each.value) for each in resource.configs]
        error = refusals.get(key)
        if error is None:
            try:
                changes = _incremental_changes(situation, key, operations)
                records += _checked(situation, key, changes, is_new=False)
            except PeerError as refusal:
                error = refusal
        responses.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    records += _cleared(situation, records)
    check_size(len(records))
    response = incremental_alter_configs.IncrementalAlterConfigsResponse(responses=tuple(responses))
    return Decision(records=() if request.validate_only else tuple(records), response=response)


def decide_alter_configs(situation: Situation, request: alter_configs.AlterConfigsRequest) -> Decision:
    """Replace all settings of a resource (the old way)."""
    records: list[VersionedRecord] = []
    responses = []
    refusals = refused_duplicates(
        [(each.resource_type, each.resource_name, [one.name for one in each.configs]) for each in request.resources]
    )
    for resource in request.resources:
        key = ConfigResource(resource.resource_type, resource.resource_name)
        error = refusals.get(key)
        if error is None:
            try:
                wanted = _wanted([(each.name, each.value) for each in resource.configs])
                records += _checked(situation, key, _replacing_changes(situation, key, wanted), is_new=False)
            except PeerError as refusal:
                error = refusal
        responses.append(
            alter_configs.AlterConfigsResourceResponse(
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    records += _cleared(situation, records)
    check_size(len(records))
    response = alter_configs.AlterConfigsResponse(responses=tuple(responses))
    return Decision(records=() if request.validate_only else tuple(records), response=response)


def _cleared(situation: Situation, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """What another `min.insync.replicas` means for ELRs (KIP-966)."""
    is_concerned = is_elr_on(situation.image.features) or bool(situation.index.with_elr())
    return list(clear_records(records)) if is_concerned else []


def new_topic_config_records(situation: Situation, topic: str, configs: Mapping[str, str]) -> list[VersionedRecord]:
    """The settings of a topic that is being created. Raises PeerError (B70)."""
    key = ConfigResource(ResourceType.TOPIC, topic)
    return list(_checked(situation, key, dict(configs), is_new=True))


def refused_duplicates(asked: Sequence[tuple[int, str, Sequence[str]]]) -> dict[ConfigResource, PeerError]:
    """Resources that are named twice, or that name a setting twice; none of these is done (B24)."""
    refused: dict[ConfigResource, PeerError] = {}
    seen: set[ConfigResource] = set()
    for resource_type, resource_name, names in asked:
        key = ConfigResource(resource_type, resource_name)
        if key in seen:
            refused[key] = PeerError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        elif len(set(names)) != len(names):
            refused[key] = PeerError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        elif resource_type == ResourceType.BROKER_LOGGER:
            refused[key] = PeerError(ErrorCode.INVALID_REQUEST, "Unknown resource type BROKER_LOGGER")
        seen.add(key)
    return refused


def _wanted(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for name, value in configs:
        if value is None:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        wanted[name] = value
    return wanted


def _incremental_changes(
    situation: Situation, key: ConfigResource, operations: Iterable[tuple[str, int, str | None]]
) -> dict[str, str | None]:
    """Setting -> its new text, None = delete; only those that change (for brokers all: it makes them load files again)."""
    current = situation.image.configs.of(*key)
    changes: dict[str, str | None] = {}
    for name, operation, value in operations:
        before = current.get(name)
        after = apply_operation(key.resource_type, name, before, operation=operation, value=value)
        if after != before or key.resource_type == ResourceType.BROKER:
            changes[name] = after
    return changes


def _replacing_changes(situation: Situation, key: ConfigResource, wanted: Mapping[str, str]) -> dict[str, str | None]:
    current = situation.image.configs.of(*key)
    changes: dict[str, str | None] = {
        name: value
        for name, value in wanted.items()
        if current.get(name) != value or key.resource_type == ResourceType.BROKER
    }
    changes.update((name, None) for name in sorted(current) if name not in wanted)
    return changes


def _checked(
    situation: Situation, key: ConfigResource, changes: Mapping[str, str | None], *, is_new: bool
) -> Iterator[VersionedRecord]:
    """The records of the changes, after the whole outcome was checked. Raises PeerError."""
    _check_lengths(changes)
    outcome: dict[str, str | None] = dict(situation.image.configs.of(*key))
    for name, value in changes.items():
        if value is None:
            outcome.pop(name, None)
        else:
            outcome[name] = value
    if is_elr_on(situation.image.features):
        check_min_isr_changes(key, changes.items())
    if key.resource_type == ResourceType.BROKER and CORDONED in changes:
        _check_cordons(situation, key, changes[CORDONED])
    check_resource_configs(key.resource_type, key.resource_name, outcome, node=situation.config)
    if not is_new:
        _check_exists(situation, key)
    return (
        VersionedRecord(
            ConfigRecord(resource_type=key.resource_type, resource_name=key.resource_name, name=name, value=value),
            0,
        )
        for name, value in changes.items()
    )


def _check_cordons(situation: Situation, key: ConfigResource, value: str | None) -> None:
    """KIP-1066. Which directories there are only their broker knows, so a controller that is asked itself takes away and adds nothing. Raises PeerError(INVALID_CONFIG)."""
    if not has_cordoned_log_dirs(situation.metadata_version):
        message = f"The {CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        raise PeerError(ErrorCode.INVALID_CONFIG, message)
    before = situation.image.configs.of(*key).get(CORDONED)
    if situation.cause.is_direct and not _entries(value) <= _entries(before):
        message = f"When updating {CORDONED} via controllers,  the new value must be a subset of the current configuration value."
        raise PeerError(ErrorCode.INVALID_CONFIG, message)


def _entries(value: str | None) -> set[str]:
    return set() if value is None or not value.strip() else {each.strip() for each in value.split(",")}


def _check_lengths(changes: Mapping[str, str | None]) -> None:
    """A text of a record has at most 32,767 bytes, also one that grew by appending (B70). Raises PeerError(INVALID_CONFIG)."""
    for name, value in changes.items():
        if len(name.encode()) > MAX_TEXT_BYTES or (value is not None and len(value.encode()) > MAX_TEXT_BYTES):
            raise PeerError(
                ErrorCode.INVALID_CONFIG, f"The value of {name[:249]} is longer than {MAX_TEXT_BYTES} bytes."
            )


def _check_exists(situation: Situation, key: ConfigResource) -> None:
    if key.resource_type == ResourceType.TOPIC and key.resource_name not in situation.image.topics.by_name:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{key.resource_name}' does not exist.")
    if key.resource_type == ResourceType.BROKER and key.resource_name:
        cluster = situation.image.cluster
        node_id = int(key.resource_name)
        if node_id not in cluster.brokers and node_id not in cluster.controllers:
            raise PeerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} found.")
