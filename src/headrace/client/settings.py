"""The client's settings: where the cluster is, how to log in, and how long to wait."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.client.talk import Address
from headrace.core.errors import OperatorError

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_FRAME_BYTES = 256 << 20
_JAAS = re.compile(
    r"^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\s+(?P<options>.*?);\s*$", re.S
)
_JAAS_OPTION = re.compile(
    r"""(?P<key>[\w.]+)\s*=\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"';]+))"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLogin:
    """User and password for SASL PLAIN (RFC 4616)."""

    username: str
    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How to reach a TLS listener: PEM material by path or inline text, and whether the host's name is checked."""

    ca_path: str | None = None
    ca_text: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None
    key_password: str | None = None
    is_host_checked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Everything a client was told. Times are milliseconds, sizes bytes."""

    bootstrap: tuple[Address, ...]
    is_controller: bool = False
    client_id: str = "headrace"
    tls: TlsSettings | None = None
    login: PlainLogin | None = None
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    max_frame_bytes: int = MAX_FRAME_BYTES
    is_crc_checked: bool = True
    is_cluster_known: bool = False
    """Somebody reached the cluster at these addresses before: where nobody listens now, it is waited for."""

    @classmethod
    def of(
        cls, properties: Mapping[str, str], *, is_controller: bool = False, is_cluster_known: bool = False
    ) -> ClientSettings:
        """Settings from Kafka's client properties; keys that are not ours are ignored. Raises OperatorError for a bad value."""
        key = "bootstrap.controllers" if is_controller else "bootstrap.servers"
        servers = properties.get(key) or ""
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise OperatorError(f"security.protocol={protocol}: must be one of {', '.join(SECURITY_PROTOCOLS)}")
        return cls(
            bootstrap=parse_servers(servers, key=key),
            is_controller=is_controller,
            client_id=properties.get("client.id") or "headrace",
            tls=_tls(properties) if protocol.endswith("SSL") else None,
            login=_login(properties) if protocol.startswith("SASL") else None,
            request_timeout_ms=_number(properties, "request.timeout.ms", 30_000),
            default_api_timeout_ms=_number(properties, "default.api.timeout.ms", 60_000),
            connect_timeout_ms=_number(properties, "socket.connection.setup.timeout.ms", 10_000),
            retry_backoff_ms=_number(properties, "retry.backoff.ms", 100),
            retry_backoff_max_ms=_number(properties, "retry.backoff.max.ms", 1_000),
            metadata_max_age_ms=_number(properties, "metadata.max.age.ms", 300_000),
            is_crc_checked=_truth(properties, "check.crcs", default=True),
            is_cluster_known=is_cluster_known,
        )


def parse_servers(servers: str | Iterable[str], *, key: str = "bootstrap.servers") -> tuple[Address, ...]:
    """`host:port,host:port` (IPv6 hosts in brackets, a `PROTOCOL://` in front allowed). Raises OperatorError."""
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = tuple(_address(part.strip(), key) for part in parts if part.strip())
    if not addresses:
        raise OperatorError(f"No resolvable bootstrap urls given in {key}: expected host:port")
    return addresses


def _address(text: str, key: str) -> Address:
    rest = text.split("://", 1)[-1]
    host, colon, port = rest.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise OperatorError(f"Invalid url in {key}: {text} (expected host:port)")
    return Address(host=host, port=int(port))


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    try:
        value = int(str(text).strip())
    except ValueError:
        value = -1
    if not 0 <= value <= 2**31 - 1:
        raise OperatorError(f"{key}={text}: must be a whole number of 0 to 2147483647")
    return value


def _truth(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = str(properties.get(key, default)).strip().lower()
    if text not in ("true", "false"):
        raise OperatorError(f"{key}={text}: must be true or false")
    return text == "true"


def _login(properties: Mapping[str, str]) -> PlainLogin:
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism != "PLAIN":
        raise OperatorError(
            f"sasl.mechanism={mechanism}: this client logs in with PLAIN only; set sasl.mechanism=PLAIN"
        )
    if "sasl.username" in properties:
        return PlainLogin(username=properties["sasl.username"], password=properties.get("sasl.password", ""))
    return parse_jaas(properties.get("sasl.jaas.config", ""))


def parse_jaas(text: str) -> PlainLogin:
    """User and password of a `sasl.jaas.config` line for Kafka's PlainLoginModule. Raises OperatorError."""
    match = _JAAS.match(text)
    if match is None or not match["module"].endswith("PlainLoginModule"):
        raise OperatorError(
            'sasl.jaas.config: expected \'...PlainLoginModule required username="..." password="...";\''
        )
    options = {
        found["key"]: re.sub(r"\\(.)", r"\1", found["double"])
        if found["double"] is not None
        else found["single"] or found["bare"] or ""
        for found in _JAAS_OPTION.finditer(match["options"])
    }
    if "username" not in options or "password" not in options:
        raise OperatorError("sasl.jaas.config: username and password are both needed for PLAIN")
    return PlainLogin(username=options["username"], password=options["password"])


def _tls(properties: Mapping[str, str]) -> TlsSettings:
    for role in ("truststore", "keystore"):
        kind = properties.get(f"ssl.{role}.type", "PEM" if f"ssl.{role}.location" not in properties else "JKS")
        if kind.upper() != "PEM":
            raise OperatorError(
                f"ssl.{role}.type={kind}: this client reads PEM; convert the store and set ssl.{role}.type=PEM"
            )
    inline_key = properties.get("ssl.keystore.key")
    if inline_key:
        raise OperatorError("ssl.keystore.key: give the key and chain as a PEM file in ssl.keystore.location")
    return TlsSettings(
        ca_path=properties.get("ssl.truststore.location") or properties.get("ssl.ca.location"),
        ca_text=properties.get("ssl.truststore.certificates"),
        certificate_path=properties.get("ssl.keystore.location") or properties.get("ssl.certificate.location"),
        key_path=properties.get("ssl.key.location"),
        key_password=properties.get("ssl.key.password"),
        is_host_checked=properties.get("ssl.endpoint.identification.algorithm", "https") != "",
    )
