"""Do the requests and the groups of a real node show under Kafka's names?"""

from __future__ import annotations

import re

from confluent_kafka import Consumer, TopicPartition

from headrace.client.blocking import BlockingClient
from headrace.testing.asking import ask
from headrace.testing.node import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.peer import batch
from tests.support.roles import until

REQUESTS = "kafka_network_requestmetrics_"
GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATORS = "kafka_server_group_coordinator_metrics_"
STAGES = (
    "totaltimems",
    "requestqueuetimems",
    "localtimems",
    "remotetimems",
    "responsequeuetimems",
    "responsesendtimems",
)


def counted(found: dict[str, float], request: str) -> float:
    """The requests of all versions."""
    pattern = re.compile(rf'{REQUESTS}requests_total{{request="{request}",version="\d+"}}')
    return sum(value for name, value in found.items() if pattern.fullmatch(name))


def test_requests_and_groups_show_under_kafkas_names() -> None:
    """RequestMetrics, GroupMetadataManager, group-coordinator-metrics, DelayedOperationPurgatory: what five produces, a refusal and a consumer's life leave behind."""
    with Node(metrics=True, in_process=True) as node:
        made = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))
        assert ask("127.0.0.1", node.port, made, 7).topics[0].error_code == 0
        with BlockingClient(node.bootstrap_servers) as client:
            for _ in range(5):
                client.produce_raw("t", 0, bytes(batch(b"x" * 100)))
        assert ask("127.0.0.1", node.port, made, 7).topics[0].error_code == 36
        found = node.metrics()
        assert counted(found, "Produce") == 5
        assert 1 <= found[f'{REQUESTS}totaltimems_count{{request="Produce"}}'] <= 5
        assert found[f'{REQUESTS}requestbytes_sum{{request="Produce"}}'] > 100
        assert counted(found, "CreateTopics") == 2
        assert found[f'{REQUESTS}errors_total{{error="TOPIC_ALREADY_EXISTS",request="CreateTopics"}}'] == 1
        for request in ("Produce", "CreateTopics"):
            parts = [found[f'{REQUESTS}{stage}_sum{{request="{request}"}}'] for stage in STAGES]
            assert abs(parts[0] - sum(parts[1:])) < 0.001
        assert found[f'{REQUESTS}remotetimems_sum{{request="CreateTopics"}}'] > 0
        assert found["kafka_server_brokertopicmetrics_totalproducerequests_total"] >= 5
        assert 0 <= found["kafka_network_socketserver_networkprocessoravgidlepercent"] <= 1
        _a_consumers_life(node)


def _a_consumers_life(node: Node) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "g", "enable.auto.commit": False})
    consumer.subscribe(["t"])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 1)
    consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
    waiting = 'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}'
    until(lambda: consumer.poll(0.1) is None and node.metrics()[waiting] == 1)
    found = node.metrics()
    states = ("numgroups", "numgroupsstable", "numgroupsempty", "numoffsets")
    assert [found[GROUPS + name] for name in states] == [1, 1, 0, 1]
    assert found[f'{COORDINATORS}group_count{{protocol="classic"}}'] == 1
    assert found[f'{COORDINATORS}num_partitions{{state="active"}}'] > 0
    assert [found[f"{COORDINATORS}{name}_count"] for name in ("group_completed_rebalance", "offset_commit")] == [1, 1]
    assert found[f"{COORDINATORS}offset_commit_rate"] > 0
    assert counted(found, "FetchConsumer") > 0
    assert counted(found, "FetchFollower") == 0
    consumer.close()
    until(lambda: [node.metrics()[GROUPS + name] for name in states] == [1, 0, 1, 1])
