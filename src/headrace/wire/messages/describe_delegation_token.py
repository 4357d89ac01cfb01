"""The requests and responses of DescribeDelegationToken (api key 41).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribeDelegationTokenOwner(Struct):
    """Part of `DescribeDelegationTokenRequest`."""

    principal_type: str = field("string 0+", default="")
    principal_name: str = field("string 0+", default="")


class DescribeDelegationTokenRequest(Message, kind="request", api_key=41, versions="1-3", flexible="2+"):
    """Request of api key 41."""

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = field(
        "[]DescribeDelegationTokenOwner 0+ nullable=0+", default=()
    )


class DescribedDelegationTokenRenewer(Struct):
    """Part of `DescribeDelegationTokenResponse`."""

    principal_type: str = field("string 0+", default="")
    principal_name: str = field("string 0+", default="")


class DescribedDelegationToken(Struct):
    """Part of `DescribeDelegationTokenResponse`."""

    principal_type: str = field("string 0+", default="")
    principal_name: str = field("string 0+", default="")
    token_requester_principal_type: str = field("string 3+", default="")
    token_requester_principal_name: str = field("string 3+", default="")
    issue_timestamp: int = field("int64 0+", default=0)
    expiry_timestamp: int = field("int64 0+", default=0)
    max_timestamp: int = field("int64 0+", default=0)
    token_id: str = field("string 0+", default="")
    hmac: bytes = field("bytes 0+", default=b"")
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = field("[]DescribedDelegationTokenRenewer 0+", default=())


class DescribeDelegationTokenResponse(Message, kind="response", api_key=41, versions="1-3", flexible="2+"):
    """Response of api key 41."""

    error_code: int = field("int16 0+", default=0)
    tokens: tuple[DescribedDelegationToken, ...] = field("[]DescribedDelegationToken 0+", default=())
    throttle_time_ms: int = field("int32 0+", default=0)
