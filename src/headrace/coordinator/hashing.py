"""The partition of `__consumer_offsets` that owns a group, and the order in which Java walks a hash map."""

from __future__ import annotations

from collections.abc import Iterable

_INT32_MIN = -(2**31)
_SMALLEST_TABLE = 16


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a group id or transactional id, as every Kafka broker computes it."""
    value = java_string_hash(key)
    return (0 if value == _INT32_MIN else abs(value)) % partition_count


def hash_map_order(keys: Iterable[str]) -> list[str]:
    """`keys` as a `java.util.HashMap` with these insertions would give them (buckets of one table; no trees).

    Kafka breaks a tie between two assignment protocols by this order, so we do too.
    """
    names = list(dict.fromkeys(keys))
    size = _SMALLEST_TABLE
    while len(names) > size * 3 // 4:
        size *= 2

    def bucket(name: str) -> int:
        value = java_string_hash(name) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(names, key=bucket)
