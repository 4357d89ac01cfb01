"""The requests and responses of DescribeUserScramCredentials (api key 50).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class UserName(Struct):
    """Part of `DescribeUserScramCredentialsRequest`."""

    name: str = field("string 0+", default="")


class DescribeUserScramCredentialsRequest(Message, kind="request", api_key=50, versions="0", flexible="0+"):
    """Request of api key 50."""

    users: tuple[UserName, ...] | None = field("[]UserName 0+ nullable=0+", default=())


class CredentialInfo(Struct):
    """Part of `DescribeUserScramCredentialsResponse`."""

    mechanism: int = field("int8 0+", default=0)
    iterations: int = field("int32 0+", default=0)


class DescribeUserScramCredentialsResult(Struct):
    """Part of `DescribeUserScramCredentialsResponse`."""

    user: str = field("string 0+", default="")
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    credential_infos: tuple[CredentialInfo, ...] = field("[]CredentialInfo 0+", default=())


class DescribeUserScramCredentialsResponse(Message, kind="response", api_key=50, versions="0", flexible="0+"):
    """Response of api key 50."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    results: tuple[DescribeUserScramCredentialsResult, ...] = field(
        "[]DescribeUserScramCredentialsResult 0+", default=()
    )
