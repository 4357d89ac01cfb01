"""Packing and unpacking: right, interoperable, and never more than allowed."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import cramjam
import pytest
import zstandard

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records import compression
from headrace.records.compression import LZ4_HEADER, XERIAL_MAGIC, Codec, compress, decompress

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    "data", [b"", b"x", b"hello " * 50_000, os.urandom(200_000)], ids=["empty", "one", "like", "random"]
)
def test_round_trip(codec: Codec, data: bytes) -> None:
    """Every codec of Kafka's, small and large, compressible and not."""
    assert bytes(decompress(codec, compress(codec, data))) == data


def test_other_makers_read_ours_and_we_theirs() -> None:
    """A client can't tell: gzip of the standard library, bare snappy blocks, zstd and lz4 frames with other options.

    Java's side of it: tests/golden/storage and tests/integration/storage.
    """
    data = b"some text, some text, " * 5000
    assert gzip.decompress(compress(Codec.GZIP, data)) == data
    assert bytes(decompress(Codec.GZIP, gzip.compress(data))) == data
    assert bytes(decompress(Codec.LZ4, bytes(cramjam.lz4.compress(data)))) == data
    assert bytes(decompress(Codec.ZSTD, bytes(cramjam.zstd.compress(data, level=19)))) == data
    assert bytes(decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(data)))) == data


def test_zstd_frames_of_all_kinds_are_read() -> None:
    """Frames that do not say what they open to, as Java's streams write them; several, in whatever order; frames to be skipped."""
    data = b"some text, some text, " * 500
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    assert zstandard.frame_content_size(silent) == -1
    said = compress(Codec.ZSTD, data)
    skipped = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    large = zstandard.ZstdCompressor(write_content_size=False).compress(data * 200)
    assert bytes(decompress(Codec.ZSTD, silent)) == data
    assert bytes(decompress(Codec.ZSTD, silent + said + silent)) == data * 3
    assert bytes(decompress(Codec.ZSTD, said + compress(Codec.ZSTD, b"") + said)) == data * 2
    assert bytes(decompress(Codec.ZSTD, compress(Codec.ZSTD, b"") + said)) == data
    assert bytes(decompress(Codec.ZSTD, skipped + said + skipped)) == data
    assert bytes(decompress(Codec.ZSTD, large)) == data * 200
    idle_blocks = silent[:6] + bytes(3 * 1000) + silent[6:]  # 2 bytes of header, then blocks of nothing
    assert bytes(decompress(Codec.ZSTD, idle_blocks)) == data
    assert bytes(decompress(Codec.ZSTD, zstandard.ZstdCompressor(write_checksum=True).compress(data))) == data


@pytest.mark.parametrize("size", [60_000, 130_000, 900_000])
def test_zstd_frames_of_streams_are_opened_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that does not say what it opens to was opened up to three times, each time a little further, where it opens to more than four times its size."""
    data = b"some text, some text, " * (size // 22)
    stream = zstandard.ZstdCompressor().compressobj()
    packed = stream.compress(data) + stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert len(data) > 4 * len(packed)
    monkeypatch.setattr(compression, "_grow", lambda *_: pytest.fail("opened again"))
    assert bytes(decompress(Codec.ZSTD, packed)) == data


def test_zstd_keeps_levels_and_threads_apart() -> None:
    """What is kept between calls is of one thread and of one level."""
    data = os.urandom(2_000) * 8
    plain = {level: zstandard.ZstdCompressor(level=level).compress(data) for level in (1, 3, 19)}

    def work(level: int) -> bool:
        return all(
            compress(Codec.ZSTD, data, level=level) == plain[level]
            and bytes(decompress(Codec.ZSTD, plain[level])) == data
            for _ in range(50)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [1, 3, 19, 3] * 4))


def test_lz4_frames_have_independent_blocks() -> None:
    """Java's reader refuses linked blocks."""
    assert compress(Codec.LZ4, b"x" * 200_000).startswith(LZ4_HEADER)


def bombs() -> dict[str, tuple[Codec, bytes]]:
    """Small bytes that open to 64 MiB, or claim more."""
    zeros = bytes(64 * MIB)
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    chunks = XERIAL_MAGIC + b"\x00\x00\x00\x01" * 2 + (len(block).to_bytes(4, "big") + block) * 64
    return {
        "gzip": (Codec.GZIP, gzip.compress(zeros)),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros)),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros)),
        "snappy chunks": (Codec.SNAPPY, chunks),
        "snappy, forged length": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + block[3:]),
    }


@pytest.mark.parametrize("name", sorted(bombs()))
def test_bombs_are_refused_within_the_bound(name: str) -> None:
    """B51, inv:M3, defect:K46: refused, and no larger buffer is made. The codecs' own memory is measured by tests/fuzz/test_bombs.py."""
    codec, data = bombs()[name]
    tracemalloc.start()
    with pytest.raises(PeerError) as refused:
        decompress(codec, data, max_bytes=4 * MIB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)
    assert peak < 12 * MIB


@pytest.mark.parametrize("codec", PACKED)
def test_damaged_bytes_are_refused(codec: Codec) -> None:
    """B51: cut off, empty, random bytes."""
    good = compress(codec, b"some text " * 1000)
    for bad in (good[:-5], good[: len(good) // 2], b"", os.urandom(100)):
        with pytest.raises(PeerError) as refused:
            decompress(codec, bad)
        assert refused.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)


@pytest.mark.parametrize(
    "tail",
    [
        b"\0\0",
        b"\x00\x00\x00\x09abc",
        b"\xff\xff\xff\xffabc",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x03\x05\x00a",
        b"\x00\x00\x00\x03\x00\x00a",
    ],
    ids=["half a length", "past the end", "negative", "empty chunk", "opens to less", "opens to more"],
)
def test_wrong_chunks_of_snappy_are_refused(tail: bytes) -> None:
    """B51: xerial's stream with a good chunk and one that is none."""
    with pytest.raises(PeerError) as refused:
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"good") + tail)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """B45: E(UNSUPPORTED_COMPRESSION_TYPE)."""
    with pytest.raises(PeerError) as refused:
        compress(codec, b"")
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(PeerError) as refused:
        decompress(codec, b"")
    assert refused.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
