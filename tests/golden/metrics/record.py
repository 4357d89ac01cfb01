"""Which metrics does Apache Kafka have? `python -m tests.golden.metrics.record`; Java is needed.

Asks a combined node with one topic for its beans by Kafka's own JmxTool, and writes those of Kafka's domains: `bean:attribute`, and
`=value` where that follows from what the node was asked to do, not from time.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from tests.peers import kafka

DOMAINS = ("kafka.", "org.apache.kafka.")
ATTRIBUTE = re.compile(r"[^:]+:.*:[^:]+=")
LEFT_OUT = re.compile(
    r"type=(app-info|kafka-metrics-count|kafka\.Log4jController)\b|type=RequestMetrics,.*request=(?!Produce|Fetch|CreateTopics|ApiVersions)|"
    r":(Min|Max|Mean|StdDev|EventType|(One|Five|Fifteen)MinuteRate|LatencyUnit|RateUnit)$"
)
"""What no dashboard shows, and requests that are not asked for: each has the metrics of the others."""
STEADY = re.compile(
    r"name=\w*(Count|IsrPartitionCount|UnderReplicatedPartitions|ReassigningPartitions|IgnoredStaticVoters|CurrentMetadataVersion|"
    r"CurrentControllerId|PurgatorySize|NumDelayedOperations|GeneratedBytes|BrokerState|BrokerRegistrationState,broker=1):Value|"
    r"type=(Partition|Log),.*topic=a,.*:Value|PerSec:Count|FinalizedLevel,featureName=metadataVersion:Value|"
    r":(current-(state|leader|vote|epoch)|number-[a-z-]+|uncommitted-voter-change|ignored-static-voters|metadata-\w+-error-count)$"
)
TIMELY = ("EventQueueOperationsStartedCount", "yammer-metrics-count")
FILE = Path(__file__).with_name(f"kafka-{kafka.VERSION}.txt")
HEAP = "-Xms128m -Xmx384m"


def beans(directory: Path) -> list[str]:
    """What a node with one topic answers, `bean:attribute=value` each."""
    [port] = kafka.free_ports(1)
    os.environ["KAFKA_HEAP_OPTS"] = HEAP
    node = kafka.Kafka(directory)
    node.format()
    jmx = "-Dcom.sun.management.jmxremote"
    secure = f"{jmx}.authenticate=false {jmx}.ssl=false"
    os.environ["KAFKA_HEAP_OPTS"] = f"{HEAP} {jmx} {jmx}.port={port} {secure} -Djava.rmi.server.hostname=127.0.0.1"
    node.start()
    os.environ["KAFKA_HEAP_OPTS"] = HEAP
    try:
        create = ["--create", "--topic", "a", "--partitions", "3", "--bootstrap-server", node.bootstrap]
        kafka.run_tool("kafka-topics", *create, check=True)
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
        arguments = ["--jmx-url", url, "--one-time", "--report-format", "properties"]
        return kafka.run_tool("org.apache.kafka.tools.JmxTool", *arguments, check=True).stdout.splitlines()
    finally:
        node.stop()


def main() -> None:
    """Record."""
    with tempfile.TemporaryDirectory() as directory:
        lines = (line.replace(directory, "/kafka") for line in beans(Path(directory)))
        found = {line.rpartition("=")[0]: line for line in lines if ATTRIBUTE.match(line)}
    wanted = sorted(name for name in found if name.startswith(DOMAINS) and not LEFT_OUT.search(name))
    FILE.write_text("".join(f"{found[name] if is_steady(name) else name}\n" for name in wanted))


def is_steady(name: str) -> bool:
    """Whether the value is worth keeping."""
    return STEADY.search(name) is not None and not any(each in name for each in TIMELY)


if __name__ == "__main__":
    main()
