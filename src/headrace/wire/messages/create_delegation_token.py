"""The requests and responses of CreateDelegationToken (api key 38).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class CreatableRenewers(Struct):
    """Part of `CreateDelegationTokenRequest`."""

    principal_type: str = field("string 0+", default="")
    principal_name: str = field("string 0+", default="")


class CreateDelegationTokenRequest(Message, kind="request", api_key=38, versions="1-3", flexible="2+"):
    """Request of api key 38."""

    owner_principal_type: str | None = field("string 3+ nullable=3+", default="")
    owner_principal_name: str | None = field("string 3+ nullable=3+", default="")
    renewers: tuple[CreatableRenewers, ...] = field("[]CreatableRenewers 0+", default=())
    max_lifetime_ms: int = field("int64 0+", default=0)


class CreateDelegationTokenResponse(Message, kind="response", api_key=38, versions="1-3", flexible="2+"):
    """Response of api key 38."""

    error_code: int = field("int16 0+", default=0)
    principal_type: str = field("string 0+", default="")
    principal_name: str = field("string 0+", default="")
    token_requester_principal_type: str = field("string 3+", default="")
    token_requester_principal_name: str = field("string 3+", default="")
    issue_timestamp_ms: int = field("int64 0+", default=0)
    expiry_timestamp_ms: int = field("int64 0+", default=0)
    max_timestamp_ms: int = field("int64 0+", default=0)
    token_id: str = field("string 0+", default="")
    hmac: bytes = field("bytes 0+", default=b"")
    throttle_time_ms: int = field("int32 0+", default=0)
