"""Hints about peers that speak another protocol."""

from __future__ import annotations

_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI ")


def hint_for(first_bytes: bytes) -> str | None:
    """A sentence for the log about the first bytes of a connection that made no sense, or None."""
    head = first_bytes[:4]
    if head in _HTTP:
        return "the peer speaks HTTP; this port speaks the Kafka protocol"
    if len(head) >= 2 and head[0] == 0x16 and head[1] == 0x03:
        return "the peer opened TLS on a plaintext listener; use security.protocol=PLAINTEXT or the SSL listener's port"
    if head == b"SSH-":
        return "the peer speaks SSH"
    return None
