"""The addresses at which a node listens, and the other nodes that its configuration names."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class SecurityProtocol(IntEnum):
    """How a listener speaks; the numbers are those of registrations (RegisterBrokerRecord)."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class HostPort(NamedTuple):
    """An address to dial. An IPv6 host is without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class QuorumVoter(NamedTuple):
    """One entry of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int


class Listener(NamedTuple):
    """A named address with its protocol. An empty host is every interface; port 0 lets the system choose."""

    name: str
    host: str
    port: int
    security_protocol: SecurityProtocol

    def __str__(self) -> str:
        return f"{self.name}://{HostPort(self.host, self.port)}"
