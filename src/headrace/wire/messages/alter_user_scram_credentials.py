"""The requests and responses of AlterUserScramCredentials (api key 51).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ScramCredentialUpsertion(Struct):
    """Part of `AlterUserScramCredentialsRequest`."""

    name: str = field("string 0+", default="")
    mechanism: int = field("int8 0+", default=0)
    iterations: int = field("int32 0+", default=0)
    salt: bytes = field("bytes 0+", default=b"")
    salted_password: bytes = field("bytes 0+", default=b"")


class ScramCredentialDeletion(Struct):
    """Part of `AlterUserScramCredentialsRequest`."""

    name: str = field("string 0+", default="")
    mechanism: int = field("int8 0+", default=0)


class AlterUserScramCredentialsRequest(Message, kind="request", api_key=51, versions="0", flexible="0+"):
    """Request of api key 51."""

    deletions: tuple[ScramCredentialDeletion, ...] = field("[]ScramCredentialDeletion 0+", default=())
    upsertions: tuple[ScramCredentialUpsertion, ...] = field("[]ScramCredentialUpsertion 0+", default=())


class AlterUserScramCredentialsResult(Struct):
    """Part of `AlterUserScramCredentialsResponse`."""

    user: str = field("string 0+", default="")
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")


class AlterUserScramCredentialsResponse(Message, kind="response", api_key=51, versions="0", flexible="0+"):
    """Response of api key 51."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[AlterUserScramCredentialsResult, ...] = field("[]AlterUserScramCredentialsResult 0+", default=())
