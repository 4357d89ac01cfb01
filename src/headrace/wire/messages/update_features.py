"""The requests and responses of UpdateFeatures (api key 57).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class FeatureUpdateKey(Struct):
    """Part of `UpdateFeaturesRequest`."""

    feature: str = field("string 0+ key", default="")
    max_version_level: int = field("int16 0+", default=0)
    allow_downgrade: bool = field("bool 0", default=False)
    upgrade_type: int = field("int8 1+", default=1)


class UpdateFeaturesRequest(Message, kind="request", api_key=57, versions="0-2", flexible="0+"):
    """Request of api key 57."""

    timeout_ms: int = field("int32 0+ name=timeoutMs", default=60000)
    feature_updates: tuple[FeatureUpdateKey, ...] = field("[]FeatureUpdateKey 0+", default=())
    validate_only: bool = field("bool 1+", default=False)


class UpdatableFeatureResult(Struct):
    """Part of `UpdateFeaturesResponse`."""

    feature: str = field("string 0+ key", default="")
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")


class UpdateFeaturesResponse(Message, kind="response", api_key=57, versions="0-2", flexible="0+"):
    """Response of api key 57."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    error_message: str | None = field("string 0+ nullable=0+", default="")
    results: tuple[UpdatableFeatureResult, ...] = field("[]UpdatableFeatureResult 0-1 ignorable", default=())
