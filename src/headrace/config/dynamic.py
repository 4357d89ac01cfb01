"""The settings in force on a broker: those it started with, under those of the whole cluster, under its own (KIP-226)."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.config.key import InvalidConfigValue
from headrace.config.listener_settings import is_right_limit, limit_key, limits_of
from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import KEYS, parse_node_config
from headrace.config.rules import ResourceType, base_name, is_dynamic, keys_of, refuse_static_keys
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError

_THREAD_COUNTS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
_FIXED_HERE = ("listener.security.protocol.map", "listeners", "metric.reporters")
"""Keys that Kafka can change while a broker runs and Headrace cannot; setting one is refused, not ignored."""
_NOT_ZERO_HERE = ("max.connection.creation.rate", "max.connections")
"""Keys that may be 0 in a node's file alone, as in Kafka: nobody could come and set it right."""


def effective_config(started_with: NodeConfig, cluster: Mapping[str, str], own: Mapping[str, str]) -> NodeConfig:
    """`started_with` under the dynamic settings. What is stored and cannot be applied is left out: it was refused when it
    was made, or a newer node made it."""
    for dynamic in ({**cluster, **own}, cluster):
        usable = _usable(dynamic, started_with)
        if not usable:
            continue
        try:
            return parse_node_config({**started_with.originals, **usable})
        except OperatorError:
            continue
    return started_with


def _usable(dynamic: Mapping[str, str], node: NodeConfig) -> dict[str, str]:
    """The dynamic keys among them, each with a value that it takes. Limits of listeners that the node does not have are none: there may be very many."""
    found: dict[str, str] = {}
    limits = limits_of(node.listeners)
    for name, text in dynamic.items():
        key = KEYS.get(name) or (limit_key(name) if name.lower() in limits else None)
        if key is None or not is_dynamic(key) or name in _FIXED_HERE:
            continue
        try:
            value = key.parse(text)
        except InvalidConfigValue:
            continue
        if value != 0 or name not in _NOT_ZERO_HERE:
            found[name] = text
    return found


def check_broker_settings(
    started_with: NodeConfig,
    current: NodeConfig,
    *,
    cluster: Mapping[str, str],
    own: Mapping[str, str],
    is_default: bool,
) -> None:
    """May these be the cluster's and this broker's dynamic settings? For the broker, before it forwards a change.

    Raises PeerError(INVALID_REQUEST), as Kafka answers (KAFKA-13609): a key that cannot change, a bad value, a contradiction.
    """
    changed = cluster if is_default else own
    refuse_static_keys(list(changed), is_default=is_default)
    keys = keys_of(ResourceType.BROKER)
    for name, text in changed.items():
        if name in _FIXED_HERE:
            raise PeerError(
                ErrorCode.INVALID_REQUEST, f"{name} cannot be changed while the broker runs: set it in its file"
            )
        key = keys.get(name)
        if key is None and not is_right_limit(name, text):
            key = limit_key(name) or keys.get(base_name(name))
        if key is None:
            continue
        try:
            value = key.parse(text)
        except InvalidConfigValue as refusal:
            raise PeerError(ErrorCode.INVALID_REQUEST, str(refusal)) from refusal
        if value == 0 and name in _NOT_ZERO_HERE:
            message = f"Invalid {name} 0: it must be at least 1 while the broker runs"
            raise PeerError(ErrorCode.INVALID_REQUEST, message)
    try:
        after = parse_node_config({**started_with.originals, **_usable({**cluster, **own}, started_with)})
    except OperatorError as refusal:
        raise PeerError(ErrorCode.INVALID_REQUEST, str(refusal)) from refusal
    _check_thread_counts(current, after)


def _check_thread_counts(before: NodeConfig, after: NodeConfig) -> None:
    """A count may at most double or halve at once."""
    for name in _THREAD_COUNTS:
        old, new = before.values.get(name), after.values[name]
        if not isinstance(old, int) or not isinstance(new, int) or old == new:
            continue
        reason = None
        if new > old * 2:
            reason = f"value should not be greater than double the current value {old}"
        elif new < old // 2:
            reason = f"value should be at least half the current value {old}"
        if reason is not None:
            raise PeerError(
                ErrorCode.INVALID_REQUEST, f"Dynamic thread count update validation failed for {name}={new}, {reason}"
            )
