"""CRC-32C beside its slow and plain twin."""

from __future__ import annotations

import os

from headrace.records.crc import crc32c


def plain_crc32c(data: bytes) -> int:
    """Bit by bit, polynomial 0x1EDC6F41 reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_crc_is_castagnolis() -> None:
    """B-P01: the check value of RFC 3720, and random bytes of many lengths, also as a writable view."""
    assert crc32c(b"123456789") == 0xE3069283
    for size in (0, 1, 7, 8, 63, 64, 1000):
        data = os.urandom(size)
        assert crc32c(data) == crc32c(memoryview(bytearray(data))) == plain_crc32c(data)
