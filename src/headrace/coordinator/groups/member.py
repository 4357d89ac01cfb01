"""What a group knows about one member."""

from __future__ import annotations

from collections.abc import Iterable

_MEMBER_BYTES = 1_500
_PROTOCOL_BYTES = 200


class Member:
    """One member of a classic group, and the requests of it that wait for an answer. Changed by its group's steps only.

    `protocols` maps protocol names to metadata in the member's order of preference. `join_token` and `sync_token` are the waiting JoinGroup and
    SyncGroup; `is_new` says that it never finished a join. Timeouts are milliseconds.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
    )

    def __init__(
        self,
        member_id: str,
        *,
        client: tuple[str, str],
        timeouts_ms: tuple[int, int],
        protocol_type: str,
        protocols: Iterable[tuple[str, bytes]],
        group_instance_id: str | None = None,
    ) -> None:
        """`client` is (client id, host), `timeouts_ms` is (rebalance timeout, session timeout)."""
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id, self.client_host = client
        self.rebalance_timeout_ms, self.session_timeout_ms = timeouts_ms
        self.protocol_type = protocol_type
        self.protocols = unique_protocols(protocols)
        self.assignment = b""
        self.join_token: int | None = None
        self.sync_token: int | None = None
        self.is_new = False

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return size_of_member(self.protocols.items())

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place over restarts (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        """Whether a JoinGroup of it waits for the group."""
        return self.join_token is not None

    @property
    def is_excused(self) -> bool:
        """Whether a missed heartbeat is no sign of death: it waits for us. A new member gets no such grace."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def supports_just(self, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether these protocols, order and metadata included, are what the member has already."""
        return list(self.protocols.items()) == list(unique_protocols(protocols).items())

    def vote(self, candidates: set[str]) -> str:
        """The member's first choice among `candidates`, of which it supports at least one."""
        for name in self.protocols:
            if name in candidates:
                return name
        return min(candidates)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it sent for this protocol; empty when it has none."""
        return self.protocols.get(protocol_name, b"") if protocol_name is not None else b""


def size_of_member(protocols: Iterable[tuple[str, bytes]]) -> int:
    """About how many bytes a member takes that supports these protocols."""
    return _MEMBER_BYTES + sum(_PROTOCOL_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def unique_protocols(protocols: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """The protocols by name; of a name that comes twice the first counts."""
    found: dict[str, bytes] = {}
    for name, metadata in protocols:
        found.setdefault(name, metadata)
    return found
