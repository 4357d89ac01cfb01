"""The dynamic settings that a topic, a broker, a group or a client-metrics subscription may be given.

The rules and the words of the refusals are those of Apache Kafka 4.3.1: what its controller checks before it writes
ConfigRecords (KIP-226, KIP-339), and what a broker checks of its own settings before it forwards them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from functools import cache

from headrace.config.key import ConfigKey, ConfigValue, InvalidConfigValue, Type, Update
from headrace.config.node_config import NodeConfig
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError


class ResourceType(IntEnum):
    """What a setting belongs to, with the numbers of the wire and of ConfigRecord."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """What IncrementalAlterConfigs does to a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")
MAX_TOPIC_NAME = 249


@cache
def keys_of(resource_type: int) -> Mapping[str, ConfigKey]:
    """The keys that resources of this type may have, by name; none for an unknown type."""
    from headrace.config.broker_keys import KAFKA_KEYS  # the tables are only read by who needs them
    from headrace.config.group_keys import CLIENT_METRICS_KEYS, GROUP_KEYS
    from headrace.config.project_keys import BROKER_QUOTA_KEYS, PROJECT_KEYS
    from headrace.config.topic_keys import TOPIC_KEYS

    tables: dict[int, Sequence[ConfigKey]] = {
        ResourceType.TOPIC: TOPIC_KEYS,
        ResourceType.BROKER: (*KAFKA_KEYS, *PROJECT_KEYS, *BROKER_QUOTA_KEYS),
        ResourceType.GROUP: GROUP_KEYS,
        ResourceType.CLIENT_METRICS: CLIENT_METRICS_KEYS,
    }
    return {key.name: key for key in tables.get(resource_type, ())}


def apply_operation(
    resource_type: int, name: str, current: str | None, *, operation: int, value: str | None
) -> str | None:
    """The text of setting `name` after one operation on `current` (None: not set); None deletes it.

    An append to a list that is not set starts from the key's default, as in Kafka. Raises PeerError(INVALID_CONFIG): an
    append or subtract on a key that is no list; PeerError(INVALID_REQUEST): an unknown operation, or a null value.
    """
    if operation not in Operation.__members__.values():
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    if operation == Operation.DELETE:
        return None
    if value is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
    if operation == Operation.SET:
        return value
    key = None if resource_type == ResourceType.CLIENT_METRICS else keys_of(resource_type).get(name)
    if key is None or key.type is not Type.LIST:
        verb = Operation(operation).name
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Can't {verb} to key {name} because its type is not LIST.")
    default = ",".join(key.default) if isinstance(key.default, tuple) else ""
    items = [item.strip() for item in (default if current is None else current).split(",") if item.strip()]
    given = value.split(",")
    return ",".join(_appended(items, given) if operation == Operation.APPEND else _subtracted(items, given))


def _appended(items: Sequence[str], given: Sequence[str]) -> list[str]:
    """The items, then those given that are new. Cost: both lists, not their product (B25)."""
    known = set(items)
    found = list(items)
    for item in given:
        if item not in known:
            known.add(item)
            found.append(item)
    return found


def _subtracted(items: Sequence[str], given: Sequence[str]) -> list[str]:
    """The items without the first equal of each that is given. Cost: both lists, not their product (B25)."""
    left = Counter(given)
    found = []
    for item in items:
        if left[item]:
            left[item] -= 1
        else:
            found.append(item)
    return found


def check_resource_configs(
    resource_type: int, resource_name: str, configs: Mapping[str, str | None], *, node: NodeConfig
) -> None:
    """May the resource have exactly these settings? For the controller, before it writes them.

    Raises PeerError: INVALID_CONFIG for an unknown key or a bad value, INVALID_REQUEST for a resource that takes none,
    INVALID_TOPIC_EXCEPTION for a bad topic name.
    """
    check_resource_name(resource_type, resource_name)
    if resource_type == ResourceType.TOPIC:
        check_topic_configs(configs, node=node)
    elif resource_type == ResourceType.GROUP:
        check_group_configs(configs, node=node)
    elif resource_type == ResourceType.CLIENT_METRICS:
        check_client_metrics_configs(configs)


def check_resource_name(resource_type: int, resource_name: str) -> None:
    """Is it a resource that may have settings? Raises PeerError."""
    if resource_type == ResourceType.TOPIC:
        if not resource_name:
            raise PeerError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(resource_name)
    elif resource_type == ResourceType.BROKER:
        if resource_name:
            _check_broker_name(resource_name)
    elif resource_type == ResourceType.GROUP:
        if not resource_name:
            raise PeerError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    elif resource_type == ResourceType.CLIENT_METRICS:
        if not resource_name:
            raise PeerError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    else:
        known = resource_type in ResourceType.__members__.values()
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {ResourceType(resource_type).name if known else 'UNKNOWN'}",
        )


def _check_broker_name(name: str) -> None:
    if not re.fullmatch("[+-]?[0-9]{1,10}", name) or not -(2**31) <= int(name) < 2**31:
        raise PeerError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise PeerError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")


def check_topic_name(name: str) -> None:
    """Raises PeerError(INVALID_TOPIC_EXCEPTION)."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    elif not LEGAL_TOPIC_NAME.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise PeerError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def check_topic_configs(configs: Mapping[str, str | None], *, node: NodeConfig) -> None:
    """May a topic have these settings over the broker's? Raises PeerError(INVALID_CONFIG)."""
    _refuse_nulls(configs, "topic")
    values = _parse("Unknown topic config name: ", keys_of(ResourceType.TOPIC), configs)
    lowest = _whole(values.get("min.compaction.lag.ms", node.log_cleaner_min_compaction_lag_ms))
    highest = _whole(values.get("max.compaction.lag.ms", node.log_cleaner_max_compaction_lag_ms))
    if lowest > highest:
        raise PeerError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})",
        )
    if values.get("remote.storage.enable") is True:
        raise PeerError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        )


def check_group_configs(configs: Mapping[str, str | None], *, node: NodeConfig) -> None:
    """May a group have these settings within the broker's bounds? Raises PeerError(INVALID_CONFIG)."""
    _refuse_nulls(configs, "group")
    values = _parse("Unknown group config name: ", keys_of(ResourceType.GROUP), configs)
    for name, value in values.items():
        for part, is_beyond, words in (("min", int.__lt__, "greater"), ("max", int.__gt__, "less")):
            kind, _, rest = name.partition(".")
            bound = f"group.{kind}.{part}.{rest.removeprefix('num.')}"
            limit = node.values.get(bound)
            if isinstance(value, int) and isinstance(limit, int) and is_beyond(value, limit):
                raise PeerError(ErrorCode.INVALID_CONFIG, f"{name} must be {words} than or equal to {bound}")
    for kind in ("consumer", "share", "streams"):
        interval, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        if _whole(values.get(session, node.values[f"group.{session}"])) <= _whole(
            values.get(interval, node.values[f"group.{interval}"])
        ):
            raise PeerError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {interval}")


def check_client_metrics_configs(configs: Mapping[str, str | None]) -> None:
    """May a client-metrics subscription have these settings (KIP-714)? Raises PeerError(INVALID_REQUEST, INVALID_CONFIG)."""
    unknown = [name for name in configs if name not in keys_of(ResourceType.CLIENT_METRICS)]
    if unknown:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {unknown[0]}")
    values = _parse("Unknown client metrics configuration: ", keys_of(ResourceType.CLIENT_METRICS), configs)
    interval = values.get("interval.ms", 300_000)
    if isinstance(interval, int) and not 100 <= interval <= 3_600_000:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        )
    for pattern in _texts(values.get("match")):
        name, equals, expression = pattern.partition("=")
        if not equals or name.strip() not in _CLIENT_MATCHES or not _is_pattern(expression.strip()):
            raise PeerError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


_CLIENT_MATCHES = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip


def _texts(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _refuse_nulls(configs: Mapping[str, str | None], kind: str) -> None:
    nulls = [name for name, text in configs.items() if text is None]
    if nulls:
        raise PeerError(ErrorCode.INVALID_CONFIG, f"Null value not supported for {kind} configs: {','.join(nulls)}")


def _parse(unknown: str, keys: Mapping[str, ConfigKey], configs: Mapping[str, str | None]) -> dict[str, ConfigValue]:
    values: dict[str, ConfigValue] = {}
    for name in configs:
        if name not in keys:
            raise PeerError(ErrorCode.INVALID_CONFIG, f"{unknown}{name}")
    for name, text in configs.items():
        try:
            values[name] = keys[name].parse(text)
        except InvalidConfigValue as refusal:
            raise PeerError(ErrorCode.INVALID_CONFIG, str(refusal)) from refusal
    return values


def _whole(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value


def base_name(name: str) -> str:
    """The key behind a listener's own setting: `listener.name.internal.ssl.keystore.type` is `ssl.keystore.type`."""
    if name.startswith("listener.name."):
        _, dot, rest = name.removeprefix("listener.name.").partition(".")
        return rest if dot else name
    return name


def refuse_static_keys(names: Collection[str], *, is_default: bool) -> None:
    """Raises PeerError(INVALID_REQUEST): some of a broker's keys cannot change while it runs, or only for one broker."""
    keys = keys_of(ResourceType.BROKER)
    static = [name for name in names if name in keys and not is_dynamic(keys[name])]
    if static:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: {shown_set(static)}")
    security = [name for name in names if name in DYNAMIC_SECURITY_KEYS]
    if security:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            + shown_set(security),
        )
    if is_default:
        own = [
            name
            for name in names
            if (name in keys and keys[name].update is Update.PER_BROKER)
            or (base_name(name) != name and base_name(name) not in _CLUSTER_LEVEL_LISTENER_KEYS)
        ]
        if own:
            raise PeerError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot update these configs at default cluster level, broker id must be specified: {shown_set(own)}",
            )


def is_dynamic(key: ConfigKey) -> bool:
    """The broker's key may change while it runs."""
    from headrace.config.project_keys import BROKER_QUOTA_KEYS  # small, and only needed here

    return key.update is not Update.READ_ONLY or key in BROKER_QUOTA_KEYS


def shown_set(names: Collection[str]) -> str:
    """Names as Kafka's messages show a set: `[a, b]`."""
    return "[" + ", ".join(sorted(names)) + "]"


_CLUSTER_LEVEL_LISTENER_KEYS = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
DYNAMIC_SECURITY_KEYS = frozenset({
    "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
})  # fmt: skip
