"""The requests and responses of BrokerHeartbeat (api key 63).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.core.ids import Uuid
from headrace.wire.schema import Message, field


class BrokerHeartbeatRequest(Message, kind="request", api_key=63, versions="0-2", flexible="0+"):
    """Request of api key 63."""

    broker_id: int = field("int32 0+ entity=brokerId", default=0)
    broker_epoch: int = field("int64 0+", default=-1)
    current_metadata_offset: int = field("int64 0+", default=0)
    want_fence: bool = field("bool 0+", default=False)
    want_shut_down: bool = field("bool 0+", default=False)
    offline_log_dirs: tuple[Uuid, ...] = field("[]uuid 1+ tag=0@1+", default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = field("[]uuid 2+ nullable=2+ tag=1@2+", default=None)


class BrokerHeartbeatResponse(Message, kind="response", api_key=63, versions="0-2", flexible="0+"):
    """Response of api key 63."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)
    is_caught_up: bool = field("bool 0+", default=False)
    is_fenced: bool = field("bool 0+", default=True)
    should_shut_down: bool = field("bool 0+", default=False)
