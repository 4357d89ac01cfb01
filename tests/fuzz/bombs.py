"""Does a batch of a few bytes ever cost more memory than it may open to? A program, so that its memory can be capped.

    python tests/fuzz/bombs.py

Each codec is given bytes that open to gigabytes, or claim to. Memory of the codecs' own counts too, which Python's does not see: one that
asks for more than the cap ends the program.
"""

from __future__ import annotations

import gzip
import json
import resource
import struct
import sys
from pathlib import Path

import cramjam

from headrace.core.errors import PeerError
from headrace.records.compression import XERIAL_HEADER, Codec, compress, decompress

MIB = 1 << 20
MAY_OPEN_TO = 4 * MIB
MORE_MEMORY = 48 * MIB
TIMES = 32


def bombs() -> dict[str, tuple[Codec, bytes]]:
    """At most a few MiB each, that open to 2 GiB or say so."""
    zeros = bytes(64 * MIB)
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    run = struct.pack("<I", (128 * 1024 << 3) | 3)[:3] + b"\0"  # the last block: 128 KiB of one byte
    return {
        "gzip": (Codec.GZIP, gzip.compress(zeros) * TIMES),
        "gzip, forged length": (Codec.GZIP, gzip.compress(zeros)[:-4] + b"\xff\xff\xff\x7f"),
        "lz4": (Codec.LZ4, compress(Codec.LZ4, zeros) * TIMES),
        "lz4, forged length": (Codec.LZ4, b"\x04\x22\x4d\x18\x68\x40" + struct.pack("<Q", 1 << 40) + b"\0" + bytes(9)),
        "zstd": (Codec.ZSTD, compress(Codec.ZSTD, zeros) * TIMES),
        "zstd, forged length": (Codec.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 40) + run * 40),
        "zstd, forged window": (Codec.ZSTD, b"\x28\xb5\x2f\xfd\x00\xa8" + run),
        "snappy": (Codec.SNAPPY, XERIAL_HEADER + (struct.pack(">I", len(block)) + block) * 64),
        "snappy, forged length": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + block[3:]),
        "snappy, forged chunk": (Codec.SNAPPY, XERIAL_HEADER + struct.pack(">I", 2**31 - 1) + block),
    }


def main() -> None:
    """Open each under the memory cap, and print with which error it was refused, as JSON."""
    given = bombs()
    for codec in Codec:  # what a codec loads once is not the bomb's
        decompress(codec, compress(codec, b"x" * 100_000))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    outcomes = {}
    for name, (codec, data) in given.items():
        try:
            outcomes[name] = f"opened to {len(decompress(codec, data, max_bytes=MAY_OPEN_TO))} bytes"
        except PeerError as refused:
            outcomes[name] = refused.code.name
    sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main()
