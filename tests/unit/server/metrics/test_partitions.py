"""Are single partitions shown in short turns, as many as the setting says, and as what they are?"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.broker.partitions import HostedPartition
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.server.metrics.partitions import WORK_A_TURN, PartitionPage
from headrace.server.metrics.service import MetricsService
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.memory_node import DATA, MemoryNode
from tests.support.metrics import shown, shown_of_partitions, watched

LEFT_OUT = "headrace_partitionmetrics_leftout"
MESSAGES = "kafka_server_brokertopicmetrics_messagesin_total"
OF_LOGS = "kafka_log_log_"


def hosting(partitions: int, **changes: Any) -> tuple[MemoryNode, MetricsService]:
    """A node with so many partitions of one topic."""
    node = MemoryNode(**changes)
    service = watched(node)
    node.start()
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
    broker = node.machine.broker
    assert broker is not None
    for _ in range(100):  # very many partitions come in several turns
        node.settle()
        if len(broker.partitions) == partitions:
            return node, service
    raise AssertionError(f"{len(broker.partitions)} of {partitions} partitions")


def page_of(service: MetricsService) -> PartitionPage:
    """What is shown of partitions."""
    assert service.partition_page is not None
    return service.partition_page


def test_very_many_partitions_are_shown_in_short_turns() -> None:
    """B-M09: no turn is longer than so many partitions, or one column of text; what was shown before stays until all is made."""
    _, service = hosting(3 * WORK_A_TURN + 1)
    page = page_of(service)
    assert (len(list(page.turns())), page.text.count(b"kafka_log_log_size{")) == (3 + 12, 3 * WORK_A_TURN + 2)
    before, turns = page.text, page.turns()
    for _ in range(14):
        next(turns)
        assert page.text is before


def test_no_more_partitions_are_shown_than_the_setting_says() -> None:
    """B-M06: names of topics are the clients' choice, so the labels have a bound; how many are left out is shown."""
    _, service = hosting(5, headrace_metrics_partitions_max=2)
    found = shown_of_partitions(service)
    assert found[LEFT_OUT] == 3
    assert len([each for each in found if each.startswith("kafka_cluster_partition_underminisr{")]) == 2
    _, service = hosting(5, headrace_metrics_partitions_max=0)
    assert not page_of(service).is_wanted


def test_a_partition_without_a_log_shows_none_of_it() -> None:
    """B-M06, B-K08: its directory failed."""
    node, service = hosting(2)
    assert len([each for each in shown_of_partitions(service) if each.startswith(OF_LOGS) and '"t"' in each]) == 2 * 5
    node.machine._storage_fault(StorageFault("it is gone", directory=DATA))
    found = shown_of_partitions(service)
    assert [each for each in found if each.startswith(OF_LOGS) and '"t"' in each] == []
    assert found['kafka_cluster_partition_laststableoffsetlag{topic="t",partition="1"}'] == 0


def test_what_the_controller_refused_is_counted() -> None:
    """B-M06: FailedIsrUpdatesPerSec, IsrShrinksPerSec and IsrExpandsPerSec are the broker's own counts, each its own."""
    node, service = hosting(1)
    broker = node.machine.broker
    assert broker is not None
    changes = broker.isr_changes
    changes.failed, changes.shrinks, changes.expands = 2, 3, 4
    found = shown(service)
    names = ("failedisrupdates", "isrshrinks", "isrexpands")
    assert [found[f"kafka_server_replicamanager_{name}_total"] for name in names] == [2, 3, 4]


@pytest.mark.parametrize("most", [10, 0])
def test_a_page_is_made_before_an_answer(most: int) -> None:
    """B-M09: by the first who asks after a while; without partitions to show only the first time."""
    node, service = hosting(2, headrace_metrics_partitions_max=most)

    async def asked() -> bytes:
        if not service._is_prepared():
            await service._prepare()
        return service.render("")[0]

    async def story() -> tuple[bytes, bool, bytes]:
        before = await asked()
        node.clock.now += 1_000
        is_old = not service._is_prepared()
        broker = node.machine.broker
        assert broker is not None
        broker.partitions.remove("t", 1)
        return before, is_old, await asked()

    before, is_old, after = asyncio.run(story())
    line = b'kafka_log_log_size{topic="t",partition="1"} 0\n'
    assert (line in before, is_old, line in after) == (most > 0, most > 0, False)
    openmetrics = service.render("application/openmetrics-text")[0]
    assert (openmetrics.count(b"# EOF\n"), openmetrics[-6:]) == (1, b"# EOF\n")


def test_traffic_is_counted_by_topic_and_kept_in_the_sums() -> None:
    """B-M06: of no more topics than the setting says; those that are deleted stay in what is counted of all, so that no counter falls."""
    node, service = hosting(2, headrace_metrics_topics_max=1)
    broker = node.machine.broker
    assert broker is not None
    table = broker.partitions
    assert not [name for name in shown(service) if name.startswith(f"{MESSAGES}{{")], "nothing was written yet"
    for topic, count in (("a", 3), ("b", 4)):
        for partition in range(2):
            table.add(HostedPartition(topic=topic, topic_id=Uuid(bytes([count]) * 16), partition=partition, log=None))
        assert table.by_name[topic, 0].traffic is table.by_name[topic, 1].traffic
        table.by_name[topic, 1].traffic.messages_in += count
        table.by_name[topic, 1].traffic.produces += 1
    found = shown(service)
    assert {name: found[name] for name in found if name.startswith(MESSAGES)} == {
        MESSAGES: 7,
        f'{MESSAGES}{{topic="a"}}': 3,
    }
    assert found["headrace_topicmetrics_leftout"] == 1
    table.remove("a", 0)
    assert shown(service)[f'{MESSAGES}{{topic="a"}}'] == 3
    table.remove("a", 1)
    found = shown(service)
    assert {name: found[name] for name in found if name.startswith(MESSAGES)} == {
        MESSAGES: 7,
        f'{MESSAGES}{{topic="b"}}': 4,
    }
