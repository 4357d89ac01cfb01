"""Listeners, voters and bootstrap servers in the text of a setting.

The rules are those of Kafka's `listeners`, `advertised.listeners`, `listener.security.protocol.map` (KIP-103),
`controller.quorum.voters` (KIP-595) and `controller.quorum.bootstrap.servers` (KIP-853).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from headrace.config.checks import at_least
from headrace.config.key import ConfigKey, InvalidConfigValue, Type, Update
from headrace.core.errors import OperatorError
from headrace.core.listener import HostPort, Listener, QuorumVoter, SecurityProtocol

_LISTENER = re.compile(r"([^:]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]+)")
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:%._a-zA-Z\-]+)\]|([0-9a-zA-Z\-%._]+)):([0-9]+)")
_LIMITS_OF_LISTENERS = (".max.connections", ".max.connection.creation.rate")
_ONE_LISTENERS = "listener.name."
_DIGITS_OF_INT = 10
MAX_PORT = 65_535
MAX_NODE_ID = 2**31 - 1


def parse_listeners(
    key: str, texts: Sequence[str], protocols: Mapping[str, SecurityProtocol], *, distinct_ports: bool
) -> tuple[Listener, ...]:
    """The listeners of `key`, names in capitals. Port 0 (the system chooses) may stand in several.

    Raises OperatorError: not `NAME://host:port`, an unmapped name, a name or port twice.
    """
    found = [_listener(key, text, protocols) for text in texts]
    shown = ",".join(texts)
    names = [one.name for one in found]
    if len(set(names)) != len(names):
        raise OperatorError(f"Each listener must have a different name: {key}={shown}")
    if distinct_ports:
        _refuse_shared_ports(key, shown, found)
    return tuple(found)


def parse_shared_listeners(text: str, listeners: Sequence[Listener]) -> tuple[Listener, ...]:
    """`headrace.shared.listeners`: more addresses of some of `listeners`. Raises OperatorError: no such listener, one twice, or a port that the system would choose."""
    key = "headrace.shared.listeners"
    protocols = {one.name: one.security_protocol for one in listeners}
    texts = [each.strip() for each in text.split(",") if each.strip()]
    for name in (each.partition("://")[0].upper() for each in texts):
        if name not in protocols:
            raise OperatorError(
                f"{key}={text}: {name} is no broker listener of this node; name one of {', '.join(protocols) or 'listeners'}"
            )
    found = parse_listeners(key, texts, protocols, distinct_ports=True)
    if any(each.port == 0 for each in found):
        raise OperatorError(f"{key}={text}: several processes must know the port, so it cannot be 0")
    return found


def limit_key(name: str) -> ConfigKey | None:
    """The key of a listener's own limit of connections, such as `listener.name.internal.max.connections` (KIP-402, KIP-612); None: `name` is another."""
    if not name.startswith(_ONE_LISTENERS) or not name.endswith(_LIMITS_OF_LISTENERS):
        return None
    return ConfigKey(name, Type.INT, None, at_least(1), Update.CLUSTER_WIDE)


def is_right_limit(name: str, text: str) -> bool:
    """Whether this is such a key with a value that it surely takes, which is told quickly: there may be very many."""
    is_number = text.isascii() and text.isdigit() and len(text) < _DIGITS_OF_INT and int(text) > 0
    return is_number and name.startswith(_ONE_LISTENERS) and name.endswith(_LIMITS_OF_LISTENERS)


def limits_of(listeners: Iterable[Listener]) -> frozenset[str]:
    """All such keys of some listeners, in small letters."""
    return frozenset(
        f"{_ONE_LISTENERS}{each.name}{limit}".lower() for each in listeners for limit in _LIMITS_OF_LISTENERS
    )


def limits_of_listeners(key: str, texts: Mapping[str, str]) -> dict[str, int]:
    """What `texts` say of each listener's own `key`, by the listener's name in capitals; at least 1, as in Kafka. Raises OperatorError."""
    found: dict[str, int] = {}
    for name, text in texts.items():
        own = limit_key(name)
        if own is None or not name.endswith(f".{key}"):
            continue
        try:
            value = own.parse(text)
        except InvalidConfigValue as refusal:
            raise OperatorError(str(refusal)) from refusal
        assert isinstance(value, int)
        found[name[len(_ONE_LISTENERS) : -len(key) - 1].upper()] = value
    return found


def _listener(key: str, text: str, protocols: Mapping[str, SecurityProtocol]) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None or not 0 <= int(match[3]) <= MAX_PORT or (match[2].count(":") == 1):
        raise OperatorError(
            f"Invalid value {text} for configuration {key}: Unable to parse to a broker endpoint; "
            f"write NAME://host:port with a port from 0 to {MAX_PORT}"
        )
    name = match[1].upper()
    if name not in protocols:
        raise OperatorError(
            f"No security protocol defined for listener {name} of {key}={text}: "
            f"add {name}:PLAINTEXT to listener.security.protocol.map"
        )
    return Listener(name, match[2], int(match[3]), protocols[name])


def _refuse_shared_ports(key: str, shown: str, listeners: Sequence[Listener]) -> None:
    by_port: dict[int, list[str]] = {}
    for one in listeners:
        if one.port != 0:
            by_port.setdefault(one.port, []).append(one.host)
    for hosts in by_port.values():
        if len(hosts) == 1 or (len(hosts) == 2 and sorted(map(_address_family, hosts)) == [4, 6]):
            continue
        raise OperatorError(
            "Each listener must have a different port unless exactly one listener has an IPv4 address "
            f"and the other IPv6 address: {key}={shown}"
        )


def _address_family(host: str) -> int:
    """6 and 4 for literal addresses, 0 for a name."""
    if ":" in host:
        return 6
    parts = host.split(".")
    return 4 if len(parts) == 4 and all(part.isdigit() and int(part) < 256 for part in parts) else 0


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol]:
    """Listener name to protocol. Raises OperatorError: not `NAME:PROTOCOL` pairs, a name twice, an unknown protocol."""
    key, found = "listener.security.protocol.map", dict[str, SecurityProtocol]()
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = pair.rpartition(":")
        name = name.strip().upper()
        if not colon or not name:
            raise OperatorError(
                f"Invalid value {pair} for configuration {key}: write NAME:PROTOCOL, pairs apart by commas"
            )
        if protocol.strip().upper() not in SecurityProtocol.__members__:
            valid = ", ".join(SecurityProtocol.__members__)
            raise OperatorError(f"Invalid security protocol `{protocol.strip()}` defined in {key}; valid are {valid}")
        if name in found:
            raise OperatorError(f"Each listener may stand once in {key}: {name} is there twice")
        found[name] = SecurityProtocol[protocol.strip().upper()]
    return found


def parse_voters(texts: Sequence[str]) -> tuple[QuorumVoter, ...]:
    """The voters by id (S1-09). Raises OperatorError: not `id@host:port`, an id twice, an address nobody can dial."""
    key, found = "controller.quorum.voters", dict[int, QuorumVoter]()
    for text in texts:
        number, at, address = text.partition("@")
        if not at or not re.fullmatch("[0-9]+", number) or int(number) > MAX_NODE_ID:
            raise OperatorError(
                f"Invalid configuration value for {key}: {text}. Each entry should be in the form `{{id}}@{{host}}:{{port}}`."
            )
        host, port = _address(key, address)
        if int(number) in found:
            raise OperatorError(f"Invalid configuration value for {key}: voter {number} is there twice")
        found[int(number)] = QuorumVoter(int(number), host, port)
    return tuple(found[number] for number in sorted(found))


def parse_bootstrap_servers(texts: Sequence[str]) -> tuple[HostPort, ...]:
    """Controllers to ask for the quorum (KIP-853). Raises OperatorError: not `host:port`."""
    return tuple(_address("controller.quorum.bootstrap.servers", text) for text in texts)


def _address(key: str, text: str) -> HostPort:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[3]) <= MAX_PORT:
        raise OperatorError(
            f"Failed to parse host and port from {text or 'nothing'} for the configuration {key}; "
            f"write host:port with a port from 1 to {MAX_PORT}"
        )
    host = match[1] or match[2]
    if host in ("0.0.0.0", "::"):
        raise OperatorError(
            f"Host string ({host}) of {key} is not routeable; write an address that other nodes can dial"
        )
    return HostPort(host, int(match[3]))
