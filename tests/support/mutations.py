"""How is a good frame spoilt in the ways that break decoders?"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

_INT32_EDGES = (-(2**31), -2, -1, 0, 1, 2, 127, 128, 2**16, 2**24, 2**31 - 1)
_VARINTS = (
    b"\x00", b"\x01", b"\x7f", b"\x80\x01", b"\xff\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00", b"\x80\x00", b"\xff" * 10,
)  # fmt: skip


class Mutator:
    """Spoils frames. The same `rng` seed and the same calls give the same frames."""

    def __init__(self, rng: random.Random, corpus: Sequence[bytes]) -> None:
        self._rng = rng
        self._corpus = corpus
        self._ways = (
            self._flip_bits,
            self._set_byte,
            self._cut,
            self._int32,
            self._varint,
            self._repeat,
            self._splice,
            self._append,
            self._count_up,
        )

    def spoil(self, frame: bytes) -> bytes:
        """The frame after one to three spoilings."""
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            if frame:
                frame = self._rng.choice(self._ways)(frame)
        return frame

    def noise(self) -> bytes:
        """Bytes that mean nothing: random, all one value, or short."""
        size = self._rng.choice((0, 1, 4, 8, 20, 200, 2000))
        return self._rng.choice((self._rng.randbytes(size), bytes(size), b"\xff" * size, b"\x80" * size))

    def _at(self, frame: bytes) -> int:
        return self._rng.randrange(len(frame))

    def _flip_bits(self, frame: bytes) -> bytes:
        at = self._at(frame)
        return frame[:at] + bytes([frame[at] ^ (1 << self._rng.randrange(8))]) + frame[at + 1 :]

    def _set_byte(self, frame: bytes) -> bytes:
        at = self._at(frame)
        return frame[:at] + bytes([self._rng.choice((0, 1, 0x7F, 0x80, 0xFF))]) + frame[at + 1 :]

    def _cut(self, frame: bytes) -> bytes:
        return frame[: self._at(frame)]

    def _int32(self, frame: bytes) -> bytes:
        at = self._at(frame)
        return frame[:at] + struct.pack(">i", self._rng.choice(_INT32_EDGES)) + frame[at + 4 :]

    def _varint(self, frame: bytes) -> bytes:
        at = self._at(frame)
        return frame[:at] + self._rng.choice(_VARINTS) + frame[at + 1 :]

    def _repeat(self, frame: bytes) -> bytes:
        at = self._at(frame)
        part = frame[at : at + self._rng.choice((1, 2, 4, 8, 30))]
        return frame[:at] + part * self._rng.choice((2, 3, 50)) + frame[at:]

    def _splice(self, frame: bytes) -> bytes:
        other = self._rng.choice(self._corpus)
        return frame[: self._at(frame)] + other[self._rng.randrange(len(other) + 1) :]

    def _append(self, frame: bytes) -> bytes:
        return frame + self._rng.choice((b"\0", b"\x01\x00\x00", self._rng.randbytes(5), bytes(100)))

    def _count_up(self, frame: bytes) -> bytes:
        at = self._at(frame)
        return frame[:at] + bytes([(frame[at] + self._rng.choice((1, -1, 2))) & 0xFF]) + frame[at + 1 :]
