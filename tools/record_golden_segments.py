"""Record the segment files in tests/golden/storage from a real Apache Kafka: `python tools/record_golden_segments.py`.

Three topics of one partition: `plain` (every codec, idempotent producers, several segments),
`compacted`, and `transactional` (one committed and one aborted transaction). What a reader must find is written beside them as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.peers import kafka

TARGET = Path(__file__).resolve().parents[1] / "tests" / "golden" / "storage" / "kafka-4.3.1"
DAY_MS = 24 * 3600 * 1000
TOPICS = {
    "plain": {"segment.ms": str(DAY_MS), "retention.ms": "-1"},
    "compacted": {"cleanup.policy": "compact", "segment.ms": str(DAY_MS), "min.cleanable.dirty.ratio": "0.01"},
    "transactional": {"retention.ms": "-1"},
}
START_MS = 1_700_000_000_000


def main() -> None:
    """Run a node, write through it, stop it well, and keep what it left."""
    with tempfile.TemporaryDirectory() as scratch:
        node = kafka.Kafka(
            Path(scratch),
            properties={"log.cleaner.backoff.ms": "200"},
            format_arguments=[a for name in kafka.PLAIN_FEATURES for a in ("-f", f"{name}=0")],
        )
        node.start()
        try:
            admin = AdminClient({"bootstrap.servers": node.bootstrap})
            made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()])
            for future in made.values():
                future.result(30)
            write_plain(node.bootstrap)
            write_compacted(node.bootstrap)
            write_transactional(node.bootstrap)
            time.sleep(5)  # the cleaner's turn
            expected = {name: read_all(node.bootstrap, name) for name in TOPICS}
        finally:
            node.stop()
        shutil.rmtree(TARGET, ignore_errors=True)
        for name in TOPICS:
            shutil.copytree(node.data / f"{name}-0", TARGET / f"{name}-0", ignore=shutil.ignore_patterns("*.deleted"))
        for path in node.data.glob("*checkpoint"):
            keep_own_lines(path, TARGET / path.name)
        shutil.copy(node.data / ".kafka_cleanshutdown", TARGET / "kafka_cleanshutdown")
        (TARGET / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def keep_own_lines(source: Path, target: Path) -> None:
    """Copy an offset checkpoint without the partitions that are not kept."""
    if source.name == "bootstrap.checkpoint":
        return
    lines = source.read_text().splitlines()[2:]
    kept = [line for line in lines if line.split(" ")[0] in TOPICS]
    target.write_text("\n".join(["0", str(len(kept)), *kept]) + "\n")


def write_plain(bootstrap: str) -> None:
    """Batches of every codec by idempotent producers, two days apart so that segments roll."""
    for day, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 50}
        )
        for index in range(30):
            key = None if index % 5 == 0 else f"key {index}".encode()
            value = None if index % 7 == 6 else f"value {day} {index} ".encode() * 5
            stamp = START_MS + 2 * day * DAY_MS + index
            producer.produce("plain", value, key, timestamp=stamp, headers=[("codec", codec.encode()), ("none", None)])
            if index % 10 == 9:
                producer.flush()


def write_compacted(bootstrap: str) -> None:
    """Few keys, many values, tombstones."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for day in range(4):
        for index in range(40):
            value = None if index % 10 == 9 else f"{day} {index}".encode()
            producer.produce("compacted", value, f"key {index % 7}".encode(), timestamp=START_MS + 2 * day * DAY_MS)
            if index % 8 == 7:
                producer.flush()


def write_transactional(bootstrap: str) -> None:
    """A committed transaction, an aborted one, and plain records between."""
    plain = Producer({"bootstrap.servers": bootstrap})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "golden", "linger.ms": 5})
    producer.init_transactions(30)
    for name in ("committed", "aborted", "again"):
        producer.begin_transaction()
        for index in range(5):
            producer.produce("transactional", f"{name} {index}".encode(), timestamp=START_MS + index)
        producer.flush()
        if name == "aborted":
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
        plain.produce("transactional", f"after {name}".encode(), timestamp=START_MS)
        plain.flush()


def read_all(bootstrap: str, topic: str) -> list[dict[str, object]]:
    """What a read-uncommitted consumer sees: bytes as Latin-1 text."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "golden",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
        }
    )
    partition = TopicPartition(topic, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, 10)
    consumer.assign([partition])
    found: list[dict[str, object]] = []
    idle = 0
    while idle < 3 and (not found or found[-1]["offset"] != end - 1):
        message = consumer.poll(1)
        if message is None:
            idle += 1
            continue
        headers = message.headers() or []
        found.append(
            {
                "offset": message.offset(),
                "timestamp": message.timestamp()[1],
                "key": text(message.key()),
                "value": text(message.value()),
                "headers": [[name, text(value)] for name, value in headers],
            }
        )
    consumer.close()
    return found


def text(data: bytes | None) -> str | None:
    """Bytes as JSON can hold them."""
    return None if data is None else data.decode("latin-1")


if __name__ == "__main__":
    main()
