"""Several fetchers of one leader on real brokers (`num.replica.fetchers`)."""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.copies import FAST, create, in_sync, leader, same_bytes
from tests.support.numbered_load import Load, judge, read_all
from tests.support.roles import until

BROKER, SET = 4, 0
ESTABLISHED = "01"
THREE = [(101, 102, 103), (102, 103, 101), (103, 101, 102)]


def connections(to: Member) -> int:
    """TCP connections that somebody made to a broker."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    remote = f":{to.port:04X}"
    return sum(each.split()[2].endswith(remote) and each.split()[3] == ESTABLISHED for each in lines)


def fetchers(broker: Member) -> int:
    """How many of a leader a broker says it has."""
    resource = DescribeConfigsResource(
        resource_type=BROKER, resource_name=str(broker.node_id), configuration_keys=("num.replica.fetchers",)
    )
    (answer,) = ask(broker.place.host, broker.port, DescribeConfigsRequest(resources=(resource,)), 4).results
    (config,) = answer.configs
    return int(config.value or "")


def set_fetchers(cluster: Cluster, count: int) -> None:
    """Of every broker, while they run; told when the brokers have heard of it: the next count is judged by what they run with."""
    config = AlterableConfig(name="num.replica.fetchers", config_operation=SET, value=str(count))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(config,))
    broker = cluster.brokers[0]
    answer = ask(broker.place.host, broker.port, IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    assert [(each.error_code, each.error_message) for each in answer.responses] == [(0, None)]
    until(lambda: {fetchers(each) for each in cluster.brokers} == {count} or None)


def test_more_fetchers_have_more_connections_and_copy_the_same() -> None:
    """S3-102, KIP-226: two fetchers of a leader instead of one, while the brokers run."""
    with Cluster(controllers=1, brokers=2, properties=FAST) as cluster:
        create(cluster, "t", [(101, 102)] * 4)
        in_sync(cluster, "t")
        until(lambda: connections(cluster[101]) > 0 or None)
        before = connections(cluster[101])
        set_fetchers(cluster, 2)
        until(lambda: connections(cluster[101]) == before + 1 or None)
        in_sync(cluster, "t")


def test_nothing_is_lost_while_fetchers_come_and_go_and_a_leader_dies() -> None:
    """inv:PR1 inv:PR4 S3-52, KIP-226: partitions move between fetchers under load."""
    with Cluster(controllers=1, brokers=3, properties={**FAST, "num.replica.fetchers": "2"}) as cluster:
        create(cluster, "numbers", THREE, min_insync_replicas="2")
        load = Load(cluster.bootstrap_servers, "numbers")
        thread = threading.Thread(target=load.run)
        thread.start()
        try:
            for count in (4, 2, 1):
                set_fetchers(cluster, count)
                in_sync(cluster, "numbers")
            victim = leader(cluster, "numbers", 0)
            victim.kill()
            leader(cluster, "numbers", 0, other_than=victim.node_id)
            cluster.start(victim.node_id)
            set_fetchers(cluster, 2)
            in_sync(cluster, "numbers")
        finally:
            load.stopped.set()
            thread.join()
        assert load.failed == []
        judge(load, read_all(cluster.bootstrap_servers, "numbers"), told="fetchers come and go")
        assert all(same_bytes(cluster, "numbers"))
