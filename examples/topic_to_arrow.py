"""Read a topic into an Arrow table without Spark: whole batches from the socket to columns, no Python per record.

pip install 'headrace[spark]' confluent-kafka
python examples/topic_to_arrow.py
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from headrace.arrow.decode import RangeDecoder
from headrace.arrow.schema import rows_schema
from headrace.client.blocking import BlockingClient
from headrace.client.offsets import EARLIEST, LATEST
from headrace.core.ids import TopicPartition
from headrace.testing import Node


def read_topic(client: BlockingClient, topic: str) -> pa.Table:
    """Everything that each partition holds now."""
    batches: list[pa.RecordBatch] = []
    for partition in client.partitions([topic])[topic]:
        where = TopicPartition(topic, partition)
        start = client.list_offsets({where: EARLIEST})[where].offset
        end = client.list_offsets({where: LATEST})[where].offset
        decoder = RangeDecoder(topic=topic, partition=partition)
        for part in client.fetch_range(topic, partition, start=start, end=end):
            batches.extend(decoder.decode(part.records, start_offset=start, end_offset=end))
    return pa.Table.from_batches(batches, schema=rows_schema(include_headers=False))


def write_readings(bootstrap_servers: str) -> None:
    """A hundred thousand numbers of seven sensors."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 50, "compression.type": "zstd"})
    for number in range(100_000):
        producer.produce("readings", key=b"sensor-%d" % (number % 7), value=b"%d" % number)
        producer.poll(0)
    producer.flush()


def main() -> None:
    """Write, read, and let Arrow sum up."""
    with Node(properties={"num.partitions": "3"}) as node:
        write_readings(node.bootstrap_servers)
        with BlockingClient.from_properties({"bootstrap.servers": node.bootstrap_servers}) as client:
            table = read_topic(client, "readings")
    values = pc.cast(pc.cast(table["value"], pa.string()), pa.int64())
    print(f"{table.num_rows} rows, columns {', '.join(table.column_names)}; sum {pc.sum(values)}")


if __name__ == "__main__":
    main()
