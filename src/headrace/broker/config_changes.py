"""Changes of settings: which a broker refuses itself, and which it sends on to the controller (KIP-133, KIP-339).

The rules are those of Kafka's brokers: each resource once, each key once, no null values; a broker's own settings are tried here
first, since only this broker knows its file; log levels are this process's own and never reach the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.config.dynamic import check_broker_settings
from headrace.config.key import Type
from headrace.config.node_config import NodeConfig
from headrace.config.rules import Operation, ResourceType, keys_of
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.image import ConfigsImage

LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER = "root"


class Change(NamedTuple):
    """One key of a resource: what to do with it."""

    name: str
    operation: int
    value: str | None


class LogLevels(Protocol):
    """The loggers of this process. The driver lends it."""

    def levels(self) -> Mapping[str, str]:
        """Every logger's level in force, `root` among them."""

    def set_level(self, logger: str, level: str | None) -> None:
        """Set a level; None takes the parent's again."""


class NoLogLevels:
    """No loggers: what a broker has until the driver lends it the real ones."""

    def levels(self) -> Mapping[str, str]:
        """None."""
        return {}

    def set_level(self, logger: str, level: str | None) -> None:
        """Nothing to set."""


class BrokerSettings(NamedTuple):
    """What the check needs to know of this broker."""

    node_id: int
    started_with: NodeConfig
    current: NodeConfig
    configs: ConfigsImage
    log_levels: LogLevels


def check_once(resources: Sequence[tuple[int, str]]) -> dict[int, PeerError]:
    """The positions of resources that stand there more than once, with the refusal."""
    refusal = PeerError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    counts = Counter(resources)
    return {place: refusal for place, resource in enumerate(resources) if counts[resource] > 1}


def check_change(
    resource_type: int, resource_name: str, changes: Sequence[Change], *, settings: BrokerSettings, is_legacy: bool
) -> None:
    """Refuse what this broker can refuse. `is_legacy` is AlterConfigs: the changes replace all settings.

    Raises PeerError: INVALID_REQUEST for a malformed change or a broker's setting that cannot be, INVALID_CONFIG for an
    append or subtract on a broker's key that is no list.
    """
    _check_keys(changes)
    for change in changes:
        if change.operation not in Operation.__members__.values():
            raise PeerError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")
    if resource_type == ResourceType.BROKER:
        if resource_name:
            check_is_me(resource_name, settings.node_id)
        _check_broker(resource_name, changes, settings, is_legacy=is_legacy)
    elif resource_type not in (ResourceType.TOPIC, ResourceType.CLIENT_METRICS, ResourceType.GROUP):
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _check_keys(changes: Sequence[Change]) -> None:
    """Raises PeerError(INVALID_REQUEST): a key that comes twice, or has no value where it needs one."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise PeerError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if nulls:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def check_is_me(name: str, node_id: int) -> None:
    """Raises PeerError(INVALID_REQUEST): not a number, or another node's."""
    number = parse_node_id(name)
    if number is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != node_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")


def parse_node_id(name: str) -> int | None:
    """A node id out of a resource's name; None for what is no 32-bit number."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 10 or not -(2**31) <= int(name) < 2**31:
        return None
    return int(name)


def _check_broker(name: str, changes: Sequence[Change], settings: BrokerSettings, *, is_legacy: bool) -> None:
    stored = settings.configs.of(ResourceType.BROKER, name)
    after = {} if is_legacy else dict(stored)
    for change in changes:
        _apply(after, change)
    cluster = after if not name else dict(settings.configs.of_all_brokers())
    own = after if name else dict(settings.configs.of_broker(settings.node_id))
    check_broker_settings(settings.started_with, settings.current, cluster=cluster, own=own, is_default=not name)


def _apply(values: dict[str, str], change: Change) -> None:
    if change.operation == Operation.DELETE:
        values.pop(change.name, None)
        return
    assert change.value is not None, "null values were refused"
    if change.operation == Operation.SET:
        values[change.name] = change.value
        return
    key = keys_of(ResourceType.BROKER).get(change.name)
    if key is None:
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {change.name}")
    if key.type is not Type.LIST:
        verb = Operation(change.operation).name.lower()
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {change.name}")
    default = ",".join(key.default) if isinstance(key.default, tuple) else ""
    items = [item for item in values.get(change.name, default).split(",") if item]
    given = change.value.split(",")
    if change.operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    values[change.name] = ",".join(items)


def change_log_levels(
    name: str, changes: Sequence[Change], *, node_id: int, levels: LogLevels, is_validation: bool
) -> None:
    """Set this process's log levels, all or none (KIP-412). Raises PeerError: INVALID_REQUEST, INVALID_CONFIG."""
    _check_keys(changes)
    number = parse_node_id(name)
    if number is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != node_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")
    known = levels.levels()
    for change in changes:
        _check_log_level(change, known)
    if not is_validation:
        for change in changes:
            levels.set_level(change.name, change.value if change.operation == Operation.SET else None)


def _check_log_level(change: Change, known: Mapping[str, str]) -> None:
    if change.operation not in (Operation.SET, Operation.DELETE):
        known_operation = change.operation in Operation.__members__.values()
        verb = Operation(change.operation).name if known_operation else str(change.operation)
        raise PeerError(ErrorCode.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource")
    if change.operation == Operation.SET and change.value not in LEVELS:
        raise PeerError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )
    if change.operation == Operation.DELETE and change.name == ROOT_LOGGER:
        raise PeerError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if change.name not in known:
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
