"""A client that asks small things all the time and says how long it waited for the slowest. A program, so that the attacker's work is not in it.

    python polite_client.py PORT TOPIC NODE_PID

It asks until its standard input ends; then it prints one line of JSON: the slowest response by the wall, and the most CPU that the node's event loop spent
while one response was waited for, which does not grow because others have the machine.
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
BREATH_S = 0.005
"""Between two requests: a tenth of what others may wait. A shorter one finds nothing more, and takes as much of a core as many an attack."""


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


def node_work_ms(pid: int) -> float:
    """CPU that the node's event loop has spent, less what this process has waited for a core: while it does, the node works for others."""
    spent = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    waited = int(Path("/proc/self/schedstat").read_text().split()[1])
    return (spent - waited) / 1e6


def say(line: str) -> None:
    """One line for whoever started this."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Ask until nobody wants to know more."""
    port, topic, pid = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    slowest_ms, most_work_ms, asked = 0.0, 0.0, 0
    with RawConnection(port) as connection:
        connection.socket.settimeout(TIMEOUT_S)
        say("ready")
        turns = requests(topic)
        while not select.select([sys.stdin], [], [], BREATH_S)[0]:
            request, version = turns[asked % len(turns)]
            at, work_ms = time.monotonic(), node_work_ms(pid)
            connection.ask(request, version, correlation_id=asked)
            slowest_ms = max(slowest_ms, (time.monotonic() - at) * 1000)
            most_work_ms = max(most_work_ms, node_work_ms(pid) - work_ms)
            asked += 1
    say(json.dumps({"slowest_ms": slowest_ms, "most_work_ms": most_work_ms, "asked": asked}))


if __name__ == "__main__":
    main()
