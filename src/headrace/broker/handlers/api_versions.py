"""What a broker's listener serves, and the features of the cluster (ApiVersions, KIP-35, KIP-511, KIP-584)."""

from __future__ import annotations

import re

from headrace.broker.broker import Broker
from headrace.broker.served_apis import BROKER_APIS
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import MetadataImage
from headrace.metadata.versions import KRAFT_VERSION, SUPPORTED_FEATURES
from headrace.rpc.apis import ApiRow
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from headrace.wire.versions import ApiKey

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: RequestContext, broker: Broker) -> Reply:
    """Answer for a broker listener."""
    return Reply(
        api_versions(request, context, rows=BROKER_APIS, image=broker.image, kraft_version=broker.kraft_version())
    )


def api_versions(
    request: ApiVersionsRequest,
    context: RequestContext,
    *,
    rows: tuple[ApiRow, ...],
    image: MetadataImage,
    kraft_version: int,
) -> ApiVersionsResponse:
    """The answer for a listener that serves `rows`. `context.api_version` -1 means: a version that we do not know."""
    keys = tuple(
        ApiVersion(api_key=row.key, min_version=row.lowest_advertised, max_version=row.max_version) for row in rows
    )
    if context.api_version < 0:  # as Kafka 4.3.1: it is told how to ask, and asks again
        own = tuple(key for key in keys if key.api_key == ApiKey.API_VERSIONS)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    levels = {**image.features.levels, KRAFT_VERSION: kraft_version}
    return ApiVersionsResponse(
        api_keys=keys,
        supported_features=_supported(context.api_version),
        finalized_features_epoch=image.provenance.last_contained_offset,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=levels[name], min_version_level=levels[name])
            for name in sorted(levels)
            if levels[name] > 0
        ),
    )


def _supported(version: int) -> tuple[SupportedFeatureKey, ...]:
    """Version 3 cannot say a lowest level of 0 (KAFKA-17492): such features are left out."""
    return tuple(
        SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(SUPPORTED_FEATURES.items())
        if version >= 4 or lowest > 0
    )
