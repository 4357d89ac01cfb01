"""The partition of a record."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.ports import Rng

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Murmur2, 32 bits, with the seed all Kafka clients use; unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of a key among `partitions`, as every Kafka client computes it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyChoice:
    """Partition for records without a key: stays with one until `batch_bytes` went there, then picks another by chance (KIP-794)."""

    __slots__ = ("_batch_bytes", "_current", "_rng", "_sent")

    def __init__(self, *, batch_bytes: int, rng: Rng) -> None:
        self._batch_bytes = batch_bytes
        self._rng = rng
        self._current = -1
        self._sent = 0

    def choose(self, available: Sequence[int], size: int) -> int:
        """One of `available` (partitions with a leader; not empty) for a record of `size` bytes."""
        if self._current not in available or self._sent >= self._batch_bytes:
            others = [number for number in available if number != self._current] or list(available)
            self._current = others[self._rng.randrange(0, len(others))]
            self._sent = 0
        self._sent += size
        return self._current
