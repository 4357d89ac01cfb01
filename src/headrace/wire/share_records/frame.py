"""Keys and values of `__share_group_state` as bytes."""

from __future__ import annotations

from typing import Final

from headrace.wire.coordinator_frame import CoordinatorFrame
from headrace.wire.share_records.registry import KEY_TYPES, VALUE_TYPES

_FRAME: Final = CoordinatorFrame(KEY_TYPES, VALUE_TYPES)

encode_key: Final = _FRAME.encode_key
encode_value: Final = _FRAME.encode_value
decode_key: Final = _FRAME.decode_key
decode_value: Final = _FRAME.decode_value
version_of: Final = _FRAME.version_of
