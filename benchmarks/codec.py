"""What does it cost to read and write a message?

    python -m benchmarks.codec

Prints microseconds for the hand-made codecs of Produce and Fetch and for a few compiled ones; the best of several rounds.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire import fetch, produce
from headrace.wire.codec import decode, encode
from headrace.wire.headers import parse_request_header, request_header
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from headrace.wire.reader import compile_reader
from headrace.wire.writer import compile_writer

TOPIC_ID = Uuid(bytes(range(16)))
BATCH = b"r" * 170
Case = tuple[str, Callable[[], object]]


def produce_cases() -> Iterator[Case]:
    """One topic, one partition: as in a closed loop of small batches."""
    for version in (7, 9, 13):
        topic: produce.TopicName = TOPIC_ID if version >= produce.FIRST_WITH_TOPIC_IDS else "bench"
        frame = memoryview(b"".join(produce.encode_produce_request(version, [(topic, 0, BATCH)])))
        yield f"produce v{version}: read", lambda f=frame, v=version: produce.parse_produce(f, 0, v)  # type: ignore[misc]
        yield f"produce v{version}: answer", partial(produce.encode_appended, version, (topic, 0, 1 << 30, -1, 0))


def fetch_cases() -> Iterator[Case]:
    """One topic, one partition."""
    for version in (11, 12, 17):
        by_id = version >= fetch.FIRST_WITH_TOPIC_IDS
        asked = FetchTopic(
            topic="" if by_id else "bench",
            topic_id=TOPIC_ID if by_id else ZERO_UUID,
            partitions=(FetchPartition(fetch_offset=9, partition_max_bytes=1 << 20),),
        )
        frame = memoryview(encode(FetchRequest(max_wait_ms=500, min_bytes=1, topics=(asked,)), version))
        result = fetch.FetchResult(TOPIC_ID if by_id else "bench", 0, 0, 10, 10, 0, BATCH)
        yield f"fetch v{version}: read", lambda f=frame, v=version: fetch.parse_fetch(f, 0, v)  # type: ignore[misc]
        yield f"fetch v{version}: answer", lambda r=result, v=version: fetch.encode_fetch_response(v, [r])  # type: ignore[misc]


def compiled_cases() -> Iterator[Case]:
    """A small message, a large one, a header, and the compiling itself."""
    head = request_header(12, 4, correlation_id=7, client_id="client-1")
    request, answer = HeartbeatRequest(group_id="group", member_id="member-1"), HeartbeatResponse()
    small, smaller = encode(request, 4), encode(answer, 4)
    part = MetadataResponsePartition(replica_nodes=(1, 2, 3), isr_nodes=(1, 2, 3))
    large = MetadataResponse(
        topics=tuple(MetadataResponseTopic(name=f"t{n}", partitions=(part,) * 10) for n in range(100))
    )
    data = encode(large, 12)
    yield "request header: read", lambda: parse_request_header(head)
    yield "heartbeat request: read", lambda: decode(HeartbeatRequest, small, 4)
    yield "heartbeat request: write", lambda: encode(request, 4)
    yield "heartbeat response: read", lambda: decode(HeartbeatResponse, smaller, 4)
    yield "heartbeat response: write", lambda: encode(answer, 4)
    yield "metadata of 100 x 10 partitions: read", lambda: decode(MetadataResponse, data, 12)
    yield "metadata of 100 x 10 partitions: write", lambda: encode(large, 12)
    yield "metadata: compile the reader", lambda: compile_reader(MetadataResponse, 12)
    yield "metadata: compile the writer", lambda: compile_writer(MetadataResponse, 12)


def main() -> None:
    """Measure and print everything."""
    for cases in (produce_cases(), fetch_cases(), compiled_cases()):
        for name, call in cases:
            timer = timeit.Timer(call)
            count, _ = timer.autorange()
            best = min(timer.repeat(5, max(1, count // 4))) / max(1, count // 4)
            sys.stdout.write(f"{name:40} {best * 1e6:10.2f} us\n")


if __name__ == "__main__":
    main()
