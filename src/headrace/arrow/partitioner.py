"""The partition of a keyed record: the one that Kafka's own producer chooses, so that keys stay together.

Kafka's default: the key's 32-bit murmur2 hash with the sign bit cleared, modulo the partition count (KIP-480). Computed here for all keys at
once, one pass for every four bytes of the longest key.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint32]

_SEED: Final = np.uint32(0x9747B28C)
_M: Final = np.uint32(0x5BD1E995)


def binary_parts(column: pa.Array) -> tuple[memoryview, NDArray[np.int64]]:
    """The data buffer of a binary or string column and its `len + 1` bounds within it."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    return memoryview(data if data is not None else b"").cast("B"), bounds.astype(np.int64)


def murmur2(keys: pa.Array) -> Words:
    """The murmur2 hash of each key (binary, no nulls), as Kafka's clients compute it."""
    data, bounds = binary_parts(keys)
    starts, lengths = bounds[:-1], np.diff(bounds)
    hashes: Words = _SEED ^ lengths.astype(np.uint32)
    buffer = np.frombuffer(data, dtype=np.uint8)
    words = lengths // 4
    for index in range(int(words.max(initial=0))):
        chosen = np.flatnonzero(words > index)
        at = starts[chosen] + 4 * index
        word = np.zeros(len(chosen), dtype=np.uint32)
        for byte in range(4):
            word |= buffer[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        word *= _M
        word ^= word >> np.uint32(24)
        word *= _M
        hashes[chosen] = (hashes[chosen] * _M) ^ word
    _mix_tail(hashes, buffer, starts, lengths)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _mix_tail(hashes: Words, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """The one to three bytes after the last whole word."""
    tails = lengths % 4
    for byte in (2, 1, 0):
        chosen = np.flatnonzero(tails > byte)
        at = starts[chosen] + lengths[chosen] - tails[chosen] + byte
        hashes[chosen] ^= buffer[at].astype(np.uint32) << np.uint32(8 * byte)
    chosen = np.flatnonzero(tails)
    hashes[chosen] *= _M


def choose_partitions(
    keys: pa.Array | None, rows: int, *, count: int, sticky: int, sticky_rows: int
) -> NDArray[np.int32]:
    """A partition (0 to `count` - 1) for each row: by key hash, and without a key in blocks of `sticky_rows` rows, from `sticky` on in turn."""
    blocks = np.arange(rows, dtype=np.int64) // max(sticky_rows, 1)
    chosen = ((sticky + blocks) % count).astype(np.int32)
    if keys is None or keys.null_count == rows:
        return chosen
    with_key = np.flatnonzero(keys.is_valid().to_numpy(zero_copy_only=False))
    hashes = murmur2(keys if keys.null_count == 0 else keys.drop_null())
    chosen[with_key] = (hashes & np.uint32(0x7FFF_FFFF)) % np.uint32(count)
    return chosen
