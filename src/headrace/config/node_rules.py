"""Contradictions between settings of a node.

The rules are those that Kafka 4.3.1 checks when it starts, and a few of Headrace (S0-20, S1-05 to S1-27).
"""

from __future__ import annotations

import re

from headrace.config.listener_settings import parse_shared_listeners
from headrace.config.node_config import INT_MAX, RACK_AWARE_SELECTORS, NodeConfig
from headrace.core.errors import OperatorError

_HOST = re.compile(r"([0-9a-zA-Z\-%._:]*)")
UNROUTABLE = "0.0.0.0"


def check_node_config(config: NodeConfig) -> None:
    """Raises OperatorError for the first rule that is broken."""
    _check_roles(config)
    _check_times_and_sizes(config)
    _check_log_dirs(config)
    _check_replica_selector(config)
    _check_quorum(config)
    _check_quorum_times(config)
    _check_listeners(config)
    _check_security(config)
    _check_heartbeats(config)
    _check_connections(config)
    _check_groups(config)


def _require(claim: bool, otherwise: str) -> None:  # noqa: FBT001 - the claim reads as one
    if not claim:
        raise OperatorError(otherwise)


def _check_roles(config: NodeConfig) -> None:
    """Every node has roles; each known, each once (the key's own check) (S1-05, S1-27)."""
    _require(
        bool(config.process_roles),
        "process.roles must name broker, controller or both; nodes without roles are not supported",
    )
    _require(config.node_id >= 0, f"Invalid value {config.node_id} for configuration node.id: Value must be at least 0")


def _check_times_and_sizes(config: NodeConfig) -> None:
    _require(config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1")
    _require(config.log_roll_jitter_ms >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    _require(
        config.log_retention_ms >= 1 or config.log_retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(
        _number(config, "log.cleaner.threads") > 0,
        "Invalid value 0 for configuration log.cleaner.threads: Value must be at least 1; to keep topics from being "
        "compacted, take compact out of log.cleanup.policy",
    )
    _require(
        _number(config, "log.cleaner.dedupe.buffer.size") // _number(config, "log.cleaner.threads") > 1_048_576,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    _require(
        _number(config, "replica.fetch.wait.max.ms") <= _number(config, "replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
    )
    _require(
        _number(config, "replica.fetch.wait.max.ms") <= config.replica_lag_time_max_ms,
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
        "to prevent frequent changes in ISR",
    )
    _require(
        config.queued_max_request_bytes <= 0 or config.queued_max_request_bytes >= config.socket_request_max_bytes,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )


def _check_replica_selector(config: NodeConfig) -> None:
    """KIP-392: there is one selector besides that which always means the leader."""
    given = config.replica_selector_class
    if given is not None and given not in RACK_AWARE_SELECTORS:
        names = " or ".join(RACK_AWARE_SELECTORS)
        raise OperatorError(f"replica.selector.class={given} is not here: set it to {names}, or remove it")


def _check_log_dirs(config: NodeConfig) -> None:
    _require(bool(config.log_dirs), "At least one log directory must be defined via log.dirs or log.dir.")
    cordoned = config.cordoned_log_dirs
    if "*" in cordoned:
        _require(len(cordoned) == 1, "When cordoned.log.dirs is set to *, it must not contain other values")
        return
    missing = [one for one in cordoned if one not in config.log_dirs]
    _require(
        not missing,
        f"All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : {', '.join(missing)}",
    )


def _check_quorum(config: NodeConfig) -> None:
    """Static voters or bootstrap servers; a controller is of the voters, a broker alone is not (S1-09)."""
    voters = {voter.node_id for voter in config.controller_quorum_voters}
    shown = "{" + ", ".join(map(str, sorted(voters))) + "}"
    _require(
        bool(voters) or bool(config.controller_quorum_bootstrap_servers),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap controllers "
        "or controller.quorum.voters must contain a parseable set of controllers. "
        "For example: controller.quorum.bootstrap.servers=localhost:9093",
    )
    if config.is_controller:
        _require(
            not voters or config.node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {config.node_id} must be included in the set of "
            f"voters controller.quorum.voters={shown}",
        )
        return
    _require(
        config.node_id not in voters,
        f"If process.roles contains just the 'broker' role, the node id {config.node_id} must not be included in the set of "
        f"voters controller.quorum.voters={shown}",
    )
    _require(
        not config.values["controller.quorum.auto.join.enable"],
        "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
    )


_QUORUM_TIMES = (
    "controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms", "controller.quorum.election.backoff.max.ms",
    "controller.quorum.request.timeout.ms", "controller.quorum.retry.backoff.ms", "controller.quorum.retry.backoff.max.ms",
)  # fmt: skip
QUORUM_FETCH_MAX_WAIT_MS = 500
"""How long a leader of the quorum keeps a fetch that finds nothing new (KIP-595)."""


def _check_quorum_times(config: NodeConfig) -> None:
    """A quorum that waits 0 ms for something never stops asking; Kafka takes such a value (S4-10)."""
    for name in _QUORUM_TIMES:
        value = _number(config, name)
        _require(
            value >= 1,
            f"Invalid value {value} for configuration {name}: Value must be at least 1 (valid: [1,...,{INT_MAX}])",
        )


def _check_listeners(config: NodeConfig) -> None:
    _check_controller_listeners(config)
    if config.is_broker:
        _check_broker_listeners(config)
    for one in (*config.advertised_listeners, *config.advertised_controller_listeners):
        _require(
            one.host != UNROUTABLE,
            f"advertised.listeners cannot use the nonroutable meta-address {UNROUTABLE}. Use a routable IP address.",
        )
    parse_shared_listeners(config.headrace_shared_listeners, config.broker_listeners)
    known = {one.name for one in config.listeners} | set(config.controller_listener_names)
    for name in config.early_start_listeners:
        _require(
            name in known,
            f"early.start.listeners contains listener {name}, but this is not contained in listeners or controller.listener.names",
        )


def _check_controller_listeners(config: NodeConfig) -> None:
    """Listeners fit the roles, and those of controllers have names (S1-06, S1-08)."""
    names, bound = config.controller_listener_names, {one.name for one in config.listeners}
    if not config.is_controller:
        _require(
            bool(names),
            "controller.listener.names must contain at least one value when running KRaft with just the broker role",
        )
        _require(
            not config.controller_listeners,
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration when running KRaft "
            "with just the broker role",
        )
        for name in names:
            _require(
                name in config.listener_security_protocol_map,
                f"Controller listener with name {name} defined in controller.listener.names not found in "
                f"listener.security.protocol.map: add {name}:PLAINTEXT",
            )
        return
    if not config.is_broker:
        _require(
            len(config.controller_listeners) == len(config.listeners),
            "The listeners config must only contain KRaft controller listeners from controller.listener.names when "
            "process.roles=controller",
        )
        _require(
            "inter.broker.listener.name" not in config.originals or config.inter_broker_listener_name not in names,
            "controller.listener.names must not contain an explicitly set inter.broker.listener.name configuration value when "
            "process.roles=controller",
        )
    _require(
        bool(config.controller_listeners),
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration when running "
        "the KRaft controller role",
    )
    _require(
        set(names) <= bound,
        "controller.listener.names must only contain values appearing in the 'listeners' configuration when running the KRaft "
        "controller role",
    )


def _check_broker_listeners(config: NodeConfig) -> None:
    told, bound = [one.name for one in config.advertised_listeners], [one.name for one in config.listeners]
    _require(
        bool(told),
        "There must be at least one broker advertised listener. Perhaps all listeners appear in controller.listener.names?",
    )
    _require(
        config.inter_broker_listener_name in told,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
        f"The valid options based on currently configured listeners are {','.join(told)}",
    )
    _require(
        set(told) <= set(bound),
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
        f"Found {','.join(told)}. The valid options based on the current configuration are {','.join(bound)}",
    )


def _check_security(config: NodeConfig) -> None:
    """What would guard the node and is not built is refused, not left out."""
    authorizer = config.values["authorizer.class.name"]
    for one in config.listeners:
        _require(
            one.security_protocol.name == "PLAINTEXT",
            f"Listener {one.name} speaks {one.security_protocol.name}, which is not supported yet: "
            "map it to PLAINTEXT in listener.security.protocol.map",
        )
    _require(
        not authorizer,
        f"authorizer.class.name={authorizer} is not supported yet: remove it, or keep the node off open networks",
    )


def _check_heartbeats(config: NodeConfig) -> None:
    """The broker must be the one that waits longer (S0-20)."""
    session = config.broker_session_timeout_ms
    fencing = _number(config, "broker.heartbeat.timeout.ms")
    _require(
        fencing == 0 or fencing > session,
        f"broker.heartbeat.timeout.ms ({fencing} ms) must be greater than broker.session.timeout.ms ({session} ms), "
        "or 0 to switch self-fencing off",
    )


def _check_connections(config: NodeConfig) -> None:
    overrides = parse_ip_overrides(config.max_connections_per_ip_overrides)
    _require(
        config.max_connections_per_ip != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    idle, delay = config.connections_max_idle_ms, _number(config, "connection.failed.authentication.delay.ms")
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle} "
        "to prevent failed authentication responses from timing out",
    )


def parse_ip_overrides(text: str) -> dict[str, int]:
    """Connections a host may have, of `host:count,...`. Raises OperatorError."""
    found: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = pair.rpartition(":")
        if not colon or not host.strip() or not count.strip().isdecimal():
            raise OperatorError(
                f"Error parsing configuration property 'max.connections.per.ip.overrides': {pair} is not host:count"
            )
        if not _HOST.fullmatch(host.strip()):
            raise OperatorError(f"max.connections.per.ip.overrides contains invalid addresses : {host.strip()}")
        found[host.strip()] = int(count)
    return found


_BOUNDED = (
    *(f"{kind}.{key}" for kind in ("consumer", "share", "streams") for key in ("session.timeout.ms", "heartbeat.interval.ms")),
    *(f"{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams")),
    "share.delivery.count.limit", "share.record.lock.duration.ms", "share.partition.max.record.locks",
)  # fmt: skip
"""Keys `group.<kind>.<key>` with a lowest and a highest value beside them, `group.<kind>.min.<key>` and `.max.<key>`."""


def _check_groups(config: NodeConfig) -> None:
    protocols = config.values["group.coordinator.rebalance.protocols"]
    _require(
        isinstance(protocols, tuple) and "classic" in protocols, "Disabling the 'classic' protocol is not supported."
    )
    for bounded in _BOUNDED:
        kind, _, key = bounded.partition(".")
        name, lowest, highest = (f"group.{kind}.{part}{key}" for part in ("", "min.", "max."))
        _require(
            _number(config, highest) >= _number(config, lowest), f"{highest} must be greater than or equal to {lowest}"
        )
        _require(_number(config, name) >= _number(config, lowest), f"{name} must be greater than or equal to {lowest}")
        _require(_number(config, name) <= _number(config, highest), f"{name} must be less than or equal to {highest}")
    for kind in ("consumer", "share", "streams"):
        interval, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        _require(_number(config, interval) < _number(config, session), f"{interval} must be less than {session}")


def _number(config: NodeConfig, name: str) -> int:
    """The value of a key of integer type; -infinity stands in for a lowest value that does not exist."""
    value = config.values.get(name, -(2**63))
    assert isinstance(value, int)
    return value


def warnings_of(config: NodeConfig) -> tuple[str, ...]:
    """What is allowed and probably not meant."""
    found: list[str] = []
    interval, session = config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms
    if config.is_broker and session < 3 * interval:
        found.append(
            f"broker.heartbeat.interval.ms ({interval} ms) should be at most a third of broker.session.timeout.ms "
            f"({session} ms): a broker that misses one heartbeat may be fenced"
        )
    fetch_timeout = config.controller_quorum_fetch_timeout_ms
    if fetch_timeout <= QUORUM_FETCH_MAX_WAIT_MS:
        found.append(
            f"controller.quorum.fetch.timeout.ms ({fetch_timeout} ms) should be longer than the {QUORUM_FETCH_MAX_WAIT_MS} ms "
            "for which the leader keeps a fetch that finds nothing new: an idle quorum elects again and again"
        )
    if not config.is_controller and len(config.controller_listener_names) > 1:
        found.append(
            "controller.listener.names has multiple entries; only the first will be used since process.roles=broker: "
            + ",".join(config.controller_listener_names)
        )
    lowest, highest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if lowest > highest:
        found.append(
            f"group.min.session.timeout.ms ({lowest}) is above group.max.session.timeout.ms ({highest}): no consumer can join"
        )
    names = [one.name for one in config.listeners]
    found += [
        f"listener.name.{name.lower()}: a limit of connections has no effect, no listener of this node has the name (they are {', '.join(names)})"
        for name in sorted({*config.max_connections_of_listeners, *config.creation_rates_of_listeners} - {*names})
    ]
    return tuple(found)
