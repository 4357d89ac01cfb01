"""Do spoilt frames ever do more to a decoder than be refused? A program, so that its memory can be capped.

    python tests/fuzz/decoder_fuzz.py SEED FRAMES

Recorded and generated frames are spoilt and given to every decoder of the wire and of record batches. Anything but a
message or a PeerError, more memory than the cap, or a message that cannot be written again ends the program with a
traceback that names the frame.
"""

from __future__ import annotations

import json
import lzma
import random
import resource
import sys
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from headrace.core.errors import PeerError
from headrace.records.batch import HEADER_SIZE, set_crc
from headrace.records.record import NewRecord, build_batch, read_all_records
from headrace.wire import fetch, produce
from headrace.wire.codec import decode, encode
from headrace.wire.framing import FrameReader
from headrace.wire.group_records import frame as group_frame
from headrace.wire.headers import parse_request_header, parse_response_header
from headrace.wire.json_view import from_json, to_json
from headrace.wire.metadata_records.frame import decode_record, encode_record
from headrace.wire.schema import Message
from headrace.wire.versions import APIS, request_class, response_class
from tests.support.messages import all_versions, sample
from tests.support.mutations import Mutator

GOLDEN = Path(__file__).parents[1] / "golden" / "wire"
MORE_MEMORY = 512 << 20
OPENED_BATCH_BYTES = 1 << 20

Target = Callable[[bytes], object]


def recorded() -> list[tuple[str, int, int, bytes]]:
    """The golden frames: direction, api key, version, frame."""
    rows = (line.split("\t") for line in lzma.decompress((GOLDEN / "frames.tsv.xz").read_bytes()).decode().splitlines())
    return [(row[0], int(row[1]), int(row[2]), b64decode(row[3])) for row in rows]


class DecoderFuzz:
    """Spoils frames and gives each to the decoder that it was made for."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._frames = recorded()
        self._versions = tuple(all_versions())
        self._mutator = Mutator(self._rng, [frame for _, _, _, frame in self._frames])
        self._batches = [
            bytes(build_batch([NewRecord(b"k", b"v" * 300, 5, (("h", b"1"),))] * 3, codec=codec)) for codec in range(5)
        ]
        self._ways = (
            *[self._whole_frame] * 3,
            *[self._message] * 3,
            self._hand_made,
            self._metadata_record,
            self._group_record,
            self._record_batch,
            self._stream,
            self._json,
        )
        self.outcomes: Counter[str] = Counter()
        self.slowest_s = 0.0

    def run(self, frames: int) -> None:
        """Try so many frames."""
        for _ in range(frames):
            data, target = self._rng.choice(self._ways)()
            started = time.perf_counter()
            try:
                target(data)
            except PeerError:
                self.outcomes["refused"] += 1
            except BaseException as error:
                error.add_note(f"the frame: {data[:4000].hex()}")
                raise
            else:
                self.outcomes["read"] += 1
            self.slowest_s = max(self.slowest_s, time.perf_counter() - started)

    def _spoilt(self, frame: bytes) -> bytes:
        if self._rng.random() < 0.03:
            return self._mutator.noise()
        return self._mutator.spoil(frame) if self._rng.random() < 0.97 else frame

    def _whole_frame(self) -> tuple[bytes, Target]:
        direction, key, version, frame = self._rng.choice(self._frames)

        def request(data: bytes) -> None:
            header = parse_request_header(data)
            api = APIS.get(header.api_key)
            if api is not None:
                read_and_write(request_class(api.key), data[header.body :], header.api_version)

        def response(data: bytes) -> None:
            start = parse_response_header(data, api_key=key, api_version=version)[1]
            read_and_write(response_class(key), data[start:], version)

        return self._spoilt(frame), request if direction == "request" else response

    def _message(self) -> tuple[bytes, Target]:
        cls, version = self._rng.choice(self._versions)
        message = sample(cls, version, self._rng, depth_limit=2)
        return self._spoilt(encode(message, version)), lambda data: read_and_write(cls, data, version)

    def _hand_made(self) -> tuple[bytes, Target]:
        wanted = self._rng.choice((0, 1))
        frames = [
            (version, frame)
            for direction, key, version, frame in self._frames
            if (direction, key) == ("request", wanted)
        ]
        version, frame = self._rng.choice(frames)
        start = parse_request_header(frame).body
        parse: Callable[[bytes, int, int], object] = fetch.parse_fetch if wanted else produce.parse_produce
        return self._spoilt(frame[start:]), lambda data: parse(data, 0, version)

    def _metadata_record(self) -> tuple[bytes, Target]:
        records = [(cls, version) for cls, version in self._versions if cls.SCHEMA.kind == "metadata"]
        cls, version = self._rng.choice(records)
        return self._spoilt(encode_record(sample(cls, version, self._rng), version)), decode_record

    def _group_record(self) -> tuple[bytes, Target]:
        keys = [
            cls
            for cls, _ in self._versions
            if cls.SCHEMA.kind == "coordinator-key" and "group_records" in cls.__module__
        ]
        key = sample(self._rng.choice(keys), 0, self._rng)

        def target(data: bytes) -> None:
            found = group_frame.decode_key(data)
            group_frame.decode_value(found, self._mutator.noise())

        return self._spoilt(group_frame.encode_key(key)), target

    def _record_batch(self) -> tuple[bytes, Target]:
        batch = bytearray(self._spoilt(self._rng.choice(self._batches)))
        if len(batch) > HEADER_SIZE and self._rng.random() < 0.7:
            set_crc(batch, 0, len(batch))
        return bytes(batch), lambda data: list(read_all_records(data, max_bytes=OPENED_BATCH_BYTES))

    def _stream(self) -> tuple[bytes, Target]:
        stream = b"".join(len(frame).to_bytes(4, "big") + frame for _, _, _, frame in self._rng.sample(self._frames, 3))
        cut = self._rng.randint(1, 50)

        def target(data: bytes) -> None:
            reader = FrameReader(largest=1 << 16)
            for pos in range(0, len(data), cut):
                reader.feed(data[pos : pos + cut])

        return self._spoilt(stream[:2000]), target

    def _json(self) -> tuple[bytes, Target]:
        cls, version = self._rng.choice(self._versions)
        text = json.dumps(to_json(sample(cls, version, self._rng, depth_limit=2), version)).encode()

        def target(data: bytes) -> None:
            try:
                found = json.loads(data)
            except ValueError:
                return
            from_json(cls, found, version)

        return self._spoilt(text), target


def read_and_write(cls: type[Message], data: bytes, version: int) -> None:
    """A message that was read can be written. Raises PeerError when there is none."""
    encode(decode(cls, data, version), version)


def most_resident_kb() -> int:
    """The most memory that this program has held, in KiB; unlike ru_maxrss it does not count the parent before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("the kernel tells no VmHWM")


def main(seed: int, frames: int) -> None:
    """Run under the memory cap and print what came out, as JSON."""
    fuzz = DecoderFuzz(seed)
    fuzz.run(200)  # modules are imported and codecs compiled before the cap is set
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    fuzz.run(frames - 200)
    peak_kb = most_resident_kb()
    sys.stdout.write(
        json.dumps({"outcomes": fuzz.outcomes, "slowest_s": fuzz.slowest_s, "peak_bytes": peak_kb << 10}) + "\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
