"""Records of a batch, packed and unpacked, never to more than allowed.

Kafka's codecs: gzip, snappy in the chunks of xerial's stream format (bare snappy too), lz4 frames, zstd. Unpacking writes into a
buffer whose size is bounded (M3), so a few bytes that claim or open to gigabytes cost no more than the bound. A large buffer is memory that the system
clears page by page as it is written: Python's own is cleared at once, and for 256 MB nobody else runs for a tenth of a second and more.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

import cramjam

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike

if TYPE_CHECKING:
    from zstandard import ZstdCompressor, ZstdDecompressor

DEFAULT_MAX_DECOMPRESSED_BYTES = 32 * 1024 * 1024
"""Of batches that the nodes of a cluster write for one another."""
READER_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""Of batches that anybody wrote, for clients that read them: as much as brokers take (`headrace.max.decompressed.bytes`), unless told otherwise by the property of the same name."""
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_CHUNK_BYTES = 32 * 1024
LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
"""Frame magic, version 1 with independent blocks (Java's reader refuses others), 64 KiB blocks, header checksum."""
LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_FIRST_TRY_BYTES = 64 * 1024
_PLAIN_BUFFER_BYTES = 1024 * 1024
_ZSTD_LEVEL = 3
_ZSTD_RUN = 1
"""The type of a block that is one byte, many times."""
_ZSTD_MOST_BLOCKS = 16
_ZSTD_BLOCK_BYTES = 128 * 1024
"""A block opens to so many at most."""
_U32 = Struct(">I")
_U32_LE = Struct("<I")


class Codec(IntEnum):
    """Compression codecs by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CODEC_NAMES = {"none": 0, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""Values of `compression.type` that name a codec."""


def compress(codec: int, data: BytesLike, *, level: int | None = None) -> bytes:
    """`data` packed by `codec`; `level` None is the codec's usual one. Level is ignored where a codec has none."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=6 if level is None or level < 0 else level))
    if codec == Codec.SNAPPY:
        return _compress_xerial(data)
    if codec == Codec.LZ4:
        return _compress_lz4(data)
    if codec == Codec.ZSTD:
        return _compress_zstd(data, _ZSTD_LEVEL if level is None else level)
    raise unknown_codec(codec)


def decompress(codec: int, data: BytesLike, *, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> BytesLike:
    """`data` unpacked; never allocates more than `max_bytes` for the result.

    PeerError(CORRUPT_MESSAGE) for damaged bytes, PeerError(MESSAGE_TOO_LARGE) above the bound,
    PeerError(UNSUPPORTED_COMPRESSION_TYPE) for a codec that nobody knows.
    """
    if codec == Codec.NONE:
        return data
    if codec == Codec.GZIP:
        return _grow(cramjam.gzip.decompress_into, data, _gzip_guess(data), max_bytes)
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec == Codec.LZ4:
        return _grow(cramjam.lz4.decompress_into, data, len(data) * 4, max_bytes)
    if codec == Codec.ZSTD:
        return _decompress_zstd(data, max_bytes)
    raise unknown_codec(codec)


_ZSTD_PACKERS: list[tuple[int, ZstdCompressor]] = []
_ZSTD_UNPACKERS: list[ZstdDecompressor] = []
"""What zstd works with, while nobody does: to make and clear it anew takes as long as a batch of 16 KB. There are never more than threads that used one at a time."""


def _compress_zstd(data: BytesLike, level: int) -> bytes:
    """What packs many bytes is not kept: it grows with them, to hundreds of megabytes."""
    from zstandard import ZstdCompressor  # most processes never see the codec

    if len(data) > _PLAIN_BUFFER_BYTES:
        return ZstdCompressor(level=level).compress(data)
    try:
        kept = _ZSTD_PACKERS.pop()
    except IndexError:
        kept = (level, ZstdCompressor(level=level))
    if kept[0] != level:
        kept = (level, ZstdCompressor(level=level))
    packed = kept[1].compress(data)
    _ZSTD_PACKERS.append(kept)
    return packed


def _decompress_zstd(data: BytesLike, max_bytes: int) -> BytesLike:
    """A frame that opens to little at once; large ones, several of them and damaged ones bit by bit."""
    from zstandard import ZstdDecompressor, ZstdError

    try:
        unpacker = _ZSTD_UNPACKERS.pop()
    except IndexError:
        unpacker = ZstdDecompressor()
    try:
        room = _zstd_room(data, max_bytes)
        if room:
            return unpacker.decompress(data, max_output_size=room)
    except ZstdError:
        pass
    finally:
        _ZSTD_UNPACKERS.append(unpacker)
    return _grow(cramjam.zstd.decompress_into, data, len(data) * 4, max_bytes)


def _zstd_room(data: BytesLike, max_bytes: int) -> int:
    """The room that a frame of few blocks needs to be opened at once: what it says that it opens to, or what its blocks do at most (Java's streams do not say it); 0 where it is not to be. Raises ZstdError. Source: RFC 8878, 3.1.1."""
    from zstandard import CONTENTSIZE_ERROR, FRAME_HEADER, frame_header_size, get_frame_parameters

    if data[:4] != FRAME_HEADER:
        return 0
    frame = get_frame_parameters(data)
    at = frame_header_size(data)
    blocks = head = 0
    while blocks < _ZSTD_MOST_BLOCKS and not head & 1:
        head = int.from_bytes(data[at : at + 3], "little")
        at += 3 + (1 if head >> 1 & 3 == _ZSTD_RUN else head >> 3)
        blocks += 1
    if at + 4 * frame.has_checksum != len(data):
        return 0
    if frame.content_size < CONTENTSIZE_ERROR:
        room = frame.content_size if frame.content_size <= max_bytes else 0
    else:
        room = min(blocks * min(frame.window_size, _ZSTD_BLOCK_BYTES), max_bytes)
    return room if room <= _PLAIN_BUFFER_BYTES else 0


def unknown_codec(codec: int) -> PeerError:
    """The refusal of a codec number outside Kafka's five."""
    return PeerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")


def _grow(unpack: Callable[..., int], data: BytesLike, guess: int, max_bytes: int) -> BytesLike:
    """Unpack into a buffer of a guessed size, four times larger at each failure, until it fits or the bound is reached.

    The libraries do not tell *does not fit* from *damaged* reliably, so damaged bytes are tried up to the bound as well: they stop
    at the damage long before.
    """
    size = min(max(guess, _FIRST_TRY_BYTES), max_bytes)
    while True:
        out = _buffer(size, max_bytes)
        try:
            return out[: unpack(data, out)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise _damaged(error) from None
            if size >= max_bytes:
                raise too_large(max_bytes) from None
        size = min(size * 4, max_bytes)


def _buffer(size: int, max_bytes: int) -> memoryview:
    """So much memory to write into. PeerError(MESSAGE_TOO_LARGE) if there is none."""
    if size <= _PLAIN_BUFFER_BYTES:
        return memoryview(bytearray(size))
    try:
        return memoryview(mmap.mmap(-1, size))
    except OSError:
        raise too_large(max_bytes) from None


def too_large(max_bytes: int) -> PeerError:
    """The refusal of a batch that opens to more than the bound."""
    return PeerError(
        ErrorCode.MESSAGE_TOO_LARGE, f"compressed records open to more than headrace.max.decompressed.bytes={max_bytes}"
    )


def _gzip_guess(data: BytesLike) -> int:
    """The length that gzip's trailer claims, if it is credible (deflate reaches at most 1032:1)."""
    if len(data) < 18:
        return 0
    claimed: int = _U32_LE.unpack_from(data, len(data) - 4)[0]
    return claimed if claimed <= len(data) * 1032 else 0


def _compress_xerial(data: BytesLike) -> bytes:
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_CHUNK_BYTES):
        chunk = cramjam.snappy.compress_raw(view[start : start + XERIAL_CHUNK_BYTES])
        out += _U32.pack(len(chunk))
        out += memoryview(chunk)
    return bytes(out)


def _compress_lz4(data: BytesLike) -> bytes:
    view = memoryview(data)
    out = bytearray(LZ4_HEADER)
    for start in range(0, len(view), LZ4_BLOCK_BYTES):
        block = view[start : start + LZ4_BLOCK_BYTES]
        packed = memoryview(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += _U32_LE.pack(len(packed))
            out += packed
        else:
            out += _U32_LE.pack(len(block) | _LZ4_STORED)
            out += block
    out += _U32_LE.pack(0)
    return bytes(out)


def _decompress_snappy(data: BytesLike, max_bytes: int) -> BytesLike:
    view = memoryview(data)
    is_stream = bytes(view[:8]) == XERIAL_MAGIC
    chunks = [(chunk, _snappy_size(chunk)) for chunk in (_xerial_chunks(view) if is_stream else (view,))]
    total = sum(size for _, size in chunks)
    if total > max_bytes:
        raise too_large(max_bytes)
    out = _buffer(total, max_bytes)
    at = 0
    for chunk, size in chunks:
        try:
            opened = cramjam.snappy.decompress_raw_into(chunk, out[at : at + size])
        except cramjam.DecompressionError as error:
            raise _damaged(error) from None
        if opened != size:
            raise PeerError(ErrorCode.CORRUPT_MESSAGE, "snappy chunk opens to another length than it claims")
        at += size
    return out


def _xerial_chunks(view: memoryview) -> Iterator[memoryview]:
    """The packed chunks of xerial's stream format."""
    position = len(XERIAL_HEADER)
    while position < len(view):
        try:
            size: int = _U32.unpack_from(view, position)[0]
        except struct.error:
            raise PeerError(ErrorCode.CORRUPT_MESSAGE, "snappy stream ends inside a chunk's length") from None
        position += 4
        if size > len(view) - position:
            raise PeerError(ErrorCode.CORRUPT_MESSAGE, "snappy chunk is longer than the batch")
        yield view[position : position + size]
        position += size


def _snappy_size(chunk: memoryview) -> int:
    """What a bare snappy block says that it opens to. Snappy opens at most about 22:1, so a larger claim is damage, not a bomb."""
    try:
        size: int = cramjam.snappy.decompress_raw_len(chunk)
    except cramjam.DecompressionError as error:
        raise _damaged(error) from None
    if size > len(chunk) * 64:
        raise PeerError(ErrorCode.CORRUPT_MESSAGE, "snappy chunk claims an impossible length")
    return size


def _damaged(error: Exception) -> PeerError:
    return PeerError(ErrorCode.CORRUPT_MESSAGE, f"compressed records are damaged: {error}")
