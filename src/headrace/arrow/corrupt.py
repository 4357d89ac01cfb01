"""The error for record bytes that cannot be right."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError


class CorruptRecords(DecodeError):
    """Fetched record batches that cannot be right; no row is made of them (B40-B53)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.CORRUPT_MESSAGE)
