"""Errors in responses, wherever they stand in them."""

from __future__ import annotations

from headrace.wire.schema import Struct


def has_error(message: object, code: int) -> bool:
    """Whether a response says `code` anywhere: for the whole request, or for one of its items."""
    if getattr(message, "error_code", 0) == code:
        return True
    for name in getattr(type(message), "__facts__", ()):
        value = getattr(message, name)
        parts = value if isinstance(value, tuple | list) else (value,)
        if parts and isinstance(parts[0], Struct) and any(has_error(each, code) for each in parts):
            return True
    return False
