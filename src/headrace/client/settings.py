"""The client's settings: where the cluster is, how to log in, and how long to wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.client.login import Login, parse_login
from headrace.client.security_names import check_spelling
from headrace.client.talk import Address
from headrace.client.tls_settings import TlsSettings, parse_tls
from headrace.core.errors import OperatorError
from headrace.records.compression import READER_MAX_DECOMPRESSED_BYTES

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_FRAME_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Everything a client was told. Times are milliseconds, sizes bytes."""

    bootstrap: tuple[Address, ...]
    is_controller: bool = False
    client_id: str = "headrace"
    rack: str = ""
    tls: TlsSettings | None = None
    login: Login | None = None
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_decompressed_bytes: int = READER_MAX_DECOMPRESSED_BYTES
    is_crc_checked: bool = True
    first_contact_ms: int | None = None
    """How long it is tried to reach a cluster that nobody reached before; None: as long as any call."""
    is_cluster_known: bool = False
    """Somebody reached the cluster at these addresses before: where nobody listens now, it is waited for."""

    @classmethod
    def of(
        cls,
        properties: Mapping[str, str],
        *,
        is_controller: bool = False,
        is_cluster_known: bool = False,
        first_contact_ms: int | None = None,
    ) -> ClientSettings:
        """Settings from Kafka's client properties; keys that are not ours are ignored.

        Raises OperatorError for a bad value, and for a security setting with a slip in its name.
        """
        check_spelling(properties)
        key = "bootstrap.controllers" if is_controller else "bootstrap.servers"
        servers = properties.get(key) or ""
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in SECURITY_PROTOCOLS:
            raise OperatorError(f"security.protocol={protocol}: must be one of {', '.join(SECURITY_PROTOCOLS)}")
        return cls(
            bootstrap=parse_servers(servers, key=key),
            is_controller=is_controller,
            client_id=properties.get("client.id") or "headrace",
            rack=properties.get("client.rack", "").strip(),
            tls=parse_tls(properties) if protocol.endswith("SSL") else None,
            login=parse_login(properties) if protocol.startswith("SASL") else None,
            request_timeout_ms=_number(properties, "request.timeout.ms", 30_000),
            default_api_timeout_ms=_number(properties, "default.api.timeout.ms", 60_000),
            connect_timeout_ms=_number(properties, "socket.connection.setup.timeout.ms", 10_000),
            retry_backoff_ms=_number(properties, "retry.backoff.ms", 100),
            retry_backoff_max_ms=_number(properties, "retry.backoff.max.ms", 1_000),
            metadata_max_age_ms=_number(properties, "metadata.max.age.ms", 300_000),
            max_decompressed_bytes=_number(
                properties, "headrace.max.decompressed.bytes", READER_MAX_DECOMPRESSED_BYTES
            ),
            is_crc_checked=_truth(properties, "check.crcs", default=True),
            first_contact_ms=first_contact_ms,
            is_cluster_known=is_cluster_known,
        )

    @property
    def security_protocol(self) -> str:
        """How the client speaks to listeners, as `security.protocol` says it."""
        return ("SASL_" if self.login else "") + ("SSL" if self.tls else "PLAINTEXT")

    def of_first_contact(self) -> ClientSettings:
        """The same with no longer waits than the first contact may take."""
        if self.first_contact_ms is None:
            return self
        return replace(
            self,
            connect_timeout_ms=min(self.connect_timeout_ms, self.first_contact_ms),
            request_timeout_ms=min(self.request_timeout_ms, self.first_contact_ms),
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
