"""Write what a cluster tells of itself into two topics: its nodes' metrics, and how far each consumer group is behind.

    python examples/telemetry/collect.py --bootstrap-server 127.0.0.1:9092 --metrics 127.0.0.1:9404,127.0.0.1:9405 --times 60 --every 10

Needs: pip install headrace
"""

import argparse
import json
import sys
import time
import urllib.request
from collections.abc import Iterator

from headrace.client import groups, offsets
from headrace.client.admin_topics import NewTopic, create_topics
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.records.record import NewRecord, build_batch

METRICS, LAGS = "telemetry-metrics", "telemetry-lags"


def collect(client: BlockingClient, nodes: list[str], at_ms: int) -> int:
    """One look at everything; how many records it gave."""
    sent = 0
    for topic, rows in ((METRICS, list(metrics(nodes))), (LAGS, list(lags(client)))):
        if rows:
            values = [json.dumps({"at": at_ms, **row}).encode() for row in rows]
            client.produce_raw(
                topic, 0, build_batch([NewRecord(key=None, value=each, timestamp=at_ms) for each in values])
            )
            sent += len(rows)
    return sent


def metrics(nodes: list[str]) -> Iterator[dict[str, object]]:
    """Each sample of each node; one that does not answer is `up` 0."""
    for node in nodes:
        try:
            with urllib.request.urlopen(f"http://{node}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            yield {"node": node, "metric": "up", "labels": "", "value": 0.0}
            continue
        yield {"node": node, "metric": "up", "labels": "", "value": 1.0}
        for line in lines:
            name, _, value = line.rpartition(" ")
            metric, _, labels = name.partition("{")
            if not line.startswith("#") and value not in ("NaN", "+Inf", "-Inf"):
                yield {"node": node, "metric": metric, "labels": labels.rstrip("}"), "value": float(value)}


def lags(client: BlockingClient) -> Iterator[dict[str, object]]:
    """Of each group and partition: what it has committed, and the log's end."""
    for group in client.run(groups.list_groups):
        committed = client.run(offsets.fetch_committed, group.group_id)
        known = {where: each.offset for where, each in committed.items() if not isinstance(each, Exception)}
        ends = client.list_offsets(dict.fromkeys(known, offsets.LATEST))
        for where, offset in known.items():
            yield {
                "group": group.group_id, "topic": where.topic, "partition": where.partition, "committed": offset, "end": ends[where].offset,
            }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--metrics", default="", help="nodes that answer GET /metrics, HOST:PORT,...")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--every", type=float, default=10.0, help="seconds")
    options = parser.parse_args()
    with BlockingClient(options.bootstrap_server) as client:
        client.run(create_topics, [NewTopic(name=METRICS), NewTopic(name=LAGS)])
        for number in range(options.times):
            if number:
                time.sleep(options.every)
            nodes = [each for each in options.metrics.split(",") if each]
            print(f"{collect(client, nodes, time.time_ns() // 1_000_000)} records", flush=True)


if __name__ == "__main__":
    try:
        main()
    except OperatorError as error:  # no node there, say
        sys.exit(str(error))
