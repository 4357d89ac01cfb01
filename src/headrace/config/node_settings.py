"""The `NodeConfig` that lines of a server.properties and overrides of a command line make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from headrace.config.broker_keys import KAFKA_KEYS
from headrace.config.key import RANGES_OF_TYPES, ConfigKey, ConfigValue, InvalidConfigValue
from headrace.config.listener_settings import (
    limit_key,
    limits_of_listeners,
    parse_bootstrap_servers,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from headrace.config.node_config import DEFAULT_PROTOCOLS, LONG_MAX, NodeConfig
from headrace.config.node_rules import check_node_config, warnings_of
from headrace.config.project_keys import (
    ALIASES,
    FORMER_KEYS,
    FORMER_PREFIXES,
    OPEN_PREFIXES,
    PLUGIN_CLASSES,
    PLUGIN_KEYS,
    PROJECT_KEYS,
    REFUSED_KEYS,
)
from headrace.core.errors import OperatorError
from headrace.core.listener import Listener, SecurityProtocol
from headrace.core.nearest import did_you_mean, nearest_name

KEYS: Mapping[str, ConfigKey] = {key.name: key for key in (*KAFKA_KEYS, *PROJECT_KEYS)}

_DERIVED = frozenset({
    "broker.id", "inter.broker.listener.name", "listener.security.protocol.map", "log.dir", "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms", "log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.roll.hours", "log.roll.jitter.hours",
    "log.roll.jitter.ms", "log.roll.ms", "security.inter.broker.protocol",
})  # fmt: skip
"""Keys that take effect without a field of their own."""


def parse_node_config(given: Mapping[str, str]) -> NodeConfig:
    """A checked configuration out of key and text.

    Raises OperatorError: an unknown key, a bad value, or keys that contradict one another; the text says what to change.
    """
    originals = resolve_aliases(given)
    without_effect = _refuse_unknown(originals)
    values = _parse_all(originals)
    config = _build(values, originals, without_effect)
    check_node_config(config)
    warnings = warnings_of(config)
    return replace(config, warnings=warnings) if warnings else config


def resolve_aliases(given: Mapping[str, str]) -> dict[str, str]:
    """`given` with today's names only. Raises OperatorError: an alias and its key (or two aliases) say different things."""
    resolved = {name: text for name, text in given.items() if name not in ALIASES}
    said_by: dict[str, str] = {}
    for alias, name in ALIASES.items():
        if alias not in given:
            continue
        other = said_by.setdefault(name, alias if name not in given else name)
        if given[alias].strip() != given[other].strip():
            raise OperatorError(
                f"{alias}={given[alias]} and {other}={given[other]} contradict each other: "
                f"{alias} is another name of {name}; set only {name}"
            )
        resolved[name] = given[alias]
    return resolved


def _refuse_unknown(originals: Mapping[str, str]) -> tuple[str, ...]:
    """The names that are known and have no effect, sorted. Raises OperatorError for the first that nobody knows."""
    plugins = [name for name in PLUGIN_CLASSES if originals.get(name)]
    used = {field.name.replace("_", ".") for field in fields(NodeConfig)} | _DERIVED
    idle: list[str] = []
    for name in originals:
        if name in REFUSED_KEYS and originals[name].strip().lower() not in ("", "false"):
            raise OperatorError(f"{name} {REFUSED_KEYS[name]}")
        if name in used or limit_key(name) is not None:
            continue
        if name not in KEYS and not _is_open(name) and not _may_be_a_plugins(name, plugins):
            raise OperatorError(f"Unknown configuration {name}{did_you_mean(name, (*KEYS, *ALIASES))}")
        idle.append(name)
    return tuple(sorted(idle))


def _is_open(name: str) -> bool:
    return (
        name in FORMER_KEYS
        or name in PLUGIN_KEYS
        or name in REFUSED_KEYS
        or name.startswith(OPEN_PREFIXES)
        or name.startswith(FORMER_PREFIXES)
    )


def _may_be_a_plugins(name: str, plugins: list[str]) -> bool:
    """A plugin is named, and the key is not just a slip of the pen in one of ours."""
    return bool(plugins) and nearest_name(name, KEYS, least=0.85) is None


def _parse_all(originals: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Every key's value: what is given, else its default. Raises OperatorError."""
    values: dict[str, ConfigValue] = {name: key.default for name, key in KEYS.items()}
    for name, text in originals.items():
        key = KEYS.get(name)
        if key is None:
            continue
        try:
            values[name] = key.parse(text)
        except InvalidConfigValue as refusal:
            valid = key.valid or RANGES_OF_TYPES.get(key.type, "")
            raise OperatorError(f"{refusal} (valid: {valid})" if valid else str(refusal)) from refusal
    _require(originals, "process.roles", "broker,controller")
    _require(originals, "node.id", "1")
    roles = [role.strip() for role in originals["process.roles"].split(",")]
    fitting = [listener for role, listener in _LISTENERS if role in roles]
    _require(originals, "listeners", ",".join(fitting))
    if len(set(roles)) != len(roles):
        raise OperatorError(
            f"Invalid value {originals['process.roles']} for configuration process.roles: a role is there twice"
        )
    last_listener = originals["listeners"].rpartition(",")[2].partition(":")[0].strip()
    _require(originals, "controller.listener.names", last_listener if "controller" in roles else "CONTROLLER")
    if "broker.heartbeat.timeout.ms" not in originals:
        values["broker.heartbeat.timeout.ms"] = _int(values["broker.session.timeout.ms"]) * 3 // 2
    values["broker.id"] = values["node.id"]
    return values


_LISTENERS = (("broker", "PLAINTEXT://:9092"), ("controller", "CONTROLLER://:9093"))
"""A listener for each role, to suggest."""


def _require(originals: Mapping[str, str], name: str, example: str) -> None:
    """Raises OperatorError for a key that is not there, with a value that fits the node's roles."""
    if name not in originals:
        raise OperatorError(
            f'Missing required configuration "{name}" which has no default value. For example: {name}={example}'
        )


_GENERIC = frozenset({
    "node_id", "listeners", "advertised_listeners", "advertised_controller_listeners", "inter_broker_listener_name",
    "listener_security_protocol_map", "controller_quorum_voters", "controller_quorum_bootstrap_servers", "log_dirs",
    "metadata_log_dir", "log_retention_ms", "log_roll_ms", "log_roll_jitter_ms", "log_flush_interval_ms",
    "early_start_listeners", "controller_listener_names", "cordoned_log_dirs", "max_connections_of_listeners", "creation_rates_of_listeners",
    "values", "originals", "without_effect", "warnings",
})  # fmt: skip
"""Fields that are more than the value of the key of their name."""


def _build(
    values: Mapping[str, ConfigValue], originals: Mapping[str, str], without_effect: tuple[str, ...]
) -> NodeConfig:
    plain: dict[str, Any] = {
        field.name: values[field.name.replace("_", ".")] for field in fields(NodeConfig) if field.name not in _GENERIC
    }
    plain.update(log_times(values))
    controller_names = tuple(name.upper() for name in _list(values["controller.listener.names"]))
    protocols = _protocol_map(values, originals, controller_names)
    listeners = parse_listeners("listeners", _list(values["listeners"]), protocols, distinct_ports=True)
    advertised = parse_listeners(
        "advertised.listeners", _list(values["advertised.listeners"]), protocols, distinct_ports=False
    )
    told_controllers = _advertised_controllers(listeners, advertised, controller_names)
    for_brokers = advertised if "advertised.listeners" in originals else listeners
    log_dirs = _list(values["log.dirs"]) or _list(values["log.dir"])
    return NodeConfig(
        **plain,
        node_id=_int(values["node.id"]),
        listeners=listeners,
        advertised_listeners=tuple(one for one in for_brokers if one.name not in controller_names),
        advertised_controller_listeners=told_controllers,
        inter_broker_listener_name=_inter_broker_listener(values, originals, protocols),
        listener_security_protocol_map=protocols,
        controller_listener_names=controller_names,
        controller_quorum_voters=parse_voters(_list(values["controller.quorum.voters"])),
        controller_quorum_bootstrap_servers=parse_bootstrap_servers(
            _list(values["controller.quorum.bootstrap.servers"])
        ),
        early_start_listeners=tuple(name.upper() for name in _list(values["early.start.listeners"])),
        log_dirs=log_dirs,
        cordoned_log_dirs=_list(values["cordoned.log.dirs"]),
        max_connections_of_listeners=limits_of_listeners("max.connections", originals),
        creation_rates_of_listeners=limits_of_listeners("max.connection.creation.rate", originals),
        metadata_log_dir=str(values["metadata.log.dir"] or (log_dirs[0] if log_dirs else "")),
        values=values,
        originals=originals,
        without_effect=without_effect,
    )


def log_times(values: Mapping[str, ConfigValue]) -> dict[str, int]:
    """What hours, minutes and milliseconds come to: the finest unit that is set wins. A negative retention is -1."""
    hour, minute = 3_600_000, 60_000
    retention = _first(values["log.retention.ms"], _times(values["log.retention.minutes"], minute))
    return {
        "log_retention_ms": max(-1, _first_int(retention, _times(values["log.retention.hours"], hour))),
        "log_roll_ms": _first_int(values["log.roll.ms"], _times(values["log.roll.hours"], hour)),
        "log_roll_jitter_ms": _first_int(values["log.roll.jitter.ms"], _times(values["log.roll.jitter.hours"], hour)),
        "log_flush_interval_ms": _first_int(values["log.flush.interval.ms"], values["log.flush.scheduler.interval.ms"]),
    }


def _times(value: ConfigValue, unit: int) -> ConfigValue:
    return None if value is None else min(LONG_MAX, _int(value) * unit)


def _first(value: ConfigValue, other: ConfigValue) -> ConfigValue:
    return other if value is None else value


def _first_int(value: ConfigValue, other: ConfigValue) -> int:
    return _int(_first(value, other))


def _int(value: ConfigValue) -> int:
    assert isinstance(value, int)
    return value


def _list(value: ConfigValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _protocol_map(
    values: Mapping[str, ConfigValue], originals: Mapping[str, str], controller_names: tuple[str, ...]
) -> Mapping[str, SecurityProtocol]:
    """The map as given. Without one, controller listeners are PLAINTEXT, unless other protocols are in use (KIP-631)."""
    text = originals.get("listener.security.protocol.map")
    if text is not None:
        return parse_protocol_map(text)
    in_use = {one.partition("://")[0].strip().upper() for one in _list(values["listeners"])} | set(controller_names)
    if in_use & {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
        return DEFAULT_PROTOCOLS
    extra = {name: SecurityProtocol.PLAINTEXT for name in controller_names if name not in DEFAULT_PROTOCOLS}
    return {**DEFAULT_PROTOCOLS, **extra}


def _advertised_controllers(
    listeners: tuple[Listener, ...], advertised: tuple[Listener, ...], controller_names: tuple[str, ...]
) -> tuple[Listener, ...]:
    """What a controller tells others: the advertised address of a controller listener, else the one it binds."""
    told = [one for one in advertised if one.name in controller_names]
    names = {one.name for one in told}
    return (*told, *(one for one in listeners if one.name in controller_names and one.name not in names))


def _inter_broker_listener(
    values: Mapping[str, ConfigValue], originals: Mapping[str, str], protocols: Mapping[str, SecurityProtocol]
) -> str:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    if name in originals and protocol in originals:
        raise OperatorError(f"Only one of {name} and {protocol} should be set.")
    chosen = str(values[name] or values[protocol]).upper()
    if values[name] is not None and chosen not in protocols:
        raise OperatorError(
            f"Listener with name {chosen} defined in {name} not found in listener.security.protocol.map: add {chosen}:PLAINTEXT"
        )
    return chosen
