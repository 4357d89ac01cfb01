"""The requests and responses of ApiVersions (api key 18).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class ApiVersionsRequest(Message, kind="request", api_key=18, versions="0-4", flexible="3+"):
    """Request of api key 18."""

    client_software_name: str = field("string 3+ ignorable", default="")
    client_software_version: str = field("string 3+ ignorable", default="")


class FinalizedFeatureKey(Struct):
    """Part of `ApiVersionsResponse`."""

    name: str = field("string 3+ key", default="")
    max_version_level: int = field("int16 3+", default=0)
    min_version_level: int = field("int16 3+", default=0)


class SupportedFeatureKey(Struct):
    """Part of `ApiVersionsResponse`."""

    name: str = field("string 3+ key", default="")
    min_version: int = field("int16 3+", default=0)
    max_version: int = field("int16 3+", default=0)


class ApiVersion(Struct):
    """Part of `ApiVersionsResponse`."""

    api_key: int = field("int16 0+ key", default=0)
    min_version: int = field("int16 0+", default=0)
    max_version: int = field("int16 0+", default=0)


class ApiVersionsResponse(Message, kind="response", api_key=18, versions="0-4", flexible="3+"):
    """Response of api key 18."""

    error_code: int = field("int16 0+", default=0)
    api_keys: tuple[ApiVersion, ...] = field("[]ApiVersion 0+", default=())
    throttle_time_ms: int = field("int32 1+ ignorable", default=0)
    supported_features: tuple[SupportedFeatureKey, ...] = field(
        "[]SupportedFeatureKey 3+ tag=0@3+ ignorable", default=()
    )
    finalized_features_epoch: int = field("int64 3+ tag=1@3+ ignorable", default=-1)
    finalized_features: tuple[FinalizedFeatureKey, ...] = field(
        "[]FinalizedFeatureKey 3+ tag=2@3+ ignorable", default=()
    )
    zk_migration_ready: bool = field("bool 3+ tag=3@3+ ignorable", default=False)
