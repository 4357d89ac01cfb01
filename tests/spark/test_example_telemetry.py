"""Does the telemetry pipeline answer what an operator asks?"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from headrace.client import admin_topics, offsets
from headrace.client.blocking import BlockingClient
from headrace.core.ids import TopicPartition
from headrace.records.record import NewRecord, build_batch
from headrace.testing import Cluster
from tests.support.example_pipelines import EXAMPLES, done, pipeline
from tests.support.metadata_load import wait_until

pytestmark = pytest.mark.spark


def test_a_clusters_telemetry_answers_what_an_operator_asks(tmp_path: Path) -> None:
    """Three nodes, one is killed: how many leaderships moved and why, who does not answer, and how far a group is behind."""
    project = tmp_path / "telemetry"
    with Cluster(nodes=3).with_metrics() as cluster, BlockingClient(cluster.bootstrap_servers) as client:
        new = admin_topics.NewTopic(name="orders", partitions=6, replication_factor=3)
        made = client.run(admin_topics.create_topics, [new])["orders"]
        assert not isinstance(made, Exception), made
        for partition in range(6):
            client.produce_raw("orders", partition, build_batch([NewRecord(key=None, value=b"x", timestamp=1)] * 10))
        behind = {TopicPartition("orders", each): offsets.CommittedOffset(offset=7) for each in range(6)}
        wait_until(lambda: not any(client.run(offsets.commit_offsets, "billing", behind).values()))
        metrics = ",".join(f"127.0.0.1:{each.metrics_port}" for each in cluster.brokers)
        collect = [str(EXAMPLES / "telemetry" / "collect.py"), "--metrics", metrics, "--bootstrap-server"]
        done(*collect, cluster.bootstrap_servers)
        view = client.topics(["orders"])["orders"]
        victim = 3
        moves = sum(each.leader == victim for each in view.partitions)
        cluster.kill(victim)
        living = ",".join(f"127.0.0.1:{each.port}" for each in cluster.brokers if each.node_id != victim)

        def has_moved() -> bool:
            return all(each.leader not in (victim, -1) for each in client.topics(["orders"])["orders"].partitions)

        wait_until(has_moved)
        done(*collect, living)
        done(str(EXAMPLES / "telemetry" / "lay_out.py"), "--bootstrap-server", living, "--project", str(project))
        said = done(*pipeline(project))
    tables = {
        name: pd.read_parquet(project / "warehouse" / name)
        for name in ("leader_moves", "lag_by_group", "troubles", "leaderships")
    }
    of_orders = tables["leaderships"].query("topic == 'orders'")
    moved = of_orders[of_orders["leader_before"].notna() & (of_orders["leader"] != of_orders["leader_before"])]
    assert (moves, len(moved)) == (2, 2), said
    assert set(moved["leader_before"]) == {victim}
    assert set(moved["cause"]) <= {"CONNECTION_REFUSED", "SESSION_EXPIRED"}
    assert set(moved["cause_broker"]) == {victim}
    by_cause = tables["leader_moves"].groupby("cause")["moves"].sum()
    assert by_cause[list(set(moved["cause"]))].sum() >= moves
    billing = tables["lag_by_group"].query("group == 'billing'")
    assert set(billing["lag_at_the_end"]) == set(billing["worst_lag"]) == {18}
    silent = tables["troubles"].query("metric == 'up'")
    assert list(silent["node"]) == [f"127.0.0.1:{cluster[victim].metrics_port}"]
