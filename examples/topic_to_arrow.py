"""Read a topic into an Arrow table without Spark: whole batches from the socket to columns, no Python per record.

pip install 'headrace[spark]' confluent-kafka
python examples/topic_to_arrow.py
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer

from headrace.arrow.read import read_table
from headrace.testing import Node


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
        table = read_table(node.bootstrap_servers, "readings")
    values = pc.cast(pc.cast(table["value"], pa.string()), pa.int64())
    print(f"{table.num_rows} rows, columns {', '.join(table.column_names)}; sum {pc.sum(values)}")


if __name__ == "__main__":
    main()
