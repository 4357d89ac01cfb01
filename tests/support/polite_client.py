"""A client that asks small things all the time and says how long it waited for the slowest. A program, so that the attacker's work is not in it.

    python polite_client.py PORT TOPIC

It asks until its standard input ends; then it prints one line of JSON.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from headrace.records.record import NewRecord, build_batch
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schema import Message
from tests.support.raw import RawConnection

TIMEOUT_S = 120.0
BREATH_S = 0.001


def requests(topic: str) -> list[tuple[Message, int]]:
    """What it asks, in turn: metadata of one topic, one record, and a fetch of at most a few records."""
    batch = bytes(build_batch([NewRecord(None, b"polite", int(time.time() * 1000))]))
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=batch),)),)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1024)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1024,
        session_epoch=-1,
        topics=(FetchTopic(topic=topic, partitions=(part,)),),
    )
    return [
        (MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False), 9),
        (ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 9),
        (fetch, 12),
    ]


def say(line: str) -> None:
    """One line for whoever started this."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Ask until nobody wants to know more."""
    port, topic = int(sys.argv[1]), sys.argv[2]
    slowest_ms, asked = 0.0, 0
    with RawConnection(port) as connection:
        connection.socket.settimeout(TIMEOUT_S)
        say("ready")
        turns = requests(topic)
        while not select.select([sys.stdin], [], [], BREATH_S)[0]:
            request, version = turns[asked % len(turns)]
            at = time.monotonic()
            connection.ask(request, version, correlation_id=asked)
            slowest_ms = max(slowest_ms, (time.monotonic() - at) * 1000)
            asked += 1
    say(json.dumps({"slowest_ms": slowest_ms, "asked": asked}))


if __name__ == "__main__":
    main()
