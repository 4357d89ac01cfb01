"""Do the metrics of brokers follow their copies: in step, left behind, caught up?"""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.support.copies import create, fill
from tests.support.roles import until

PROPERTIES = {
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "120000",
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.max.bytes": "100000",
}
FIRST, SECOND, THIRD = 101, 102, 103
TRAFFIC = "kafka_server_brokertopicmetrics_"
MANAGER = "kafka_server_replicamanager_"
FETCHERS = "kafka_server_replicafetchermanager_"
GAUGES = ("underreplicated", "insyncreplicascount", "replicascount", "underminisr", "atminisr")
LED = ("underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount")


def of_partition(member: Member, topic: str = "t", partition: int = 0) -> tuple[float, ...]:
    """The gauges of `Partition` in the order of `GAUGES`."""
    found, labels = member.metrics(), f'{{topic="{topic}",partition="{partition}"}}'
    return tuple(found[f"kafka_cluster_partition_{name}{labels}"] for name in GAUGES)


def led(member: Member) -> tuple[float, ...]:
    """Those of ReplicaManager, in the order of `LED`."""
    found = member.metrics()
    return tuple(found[f"{MANAGER}{name}"] for name in LED)


def shrunk(member: Member) -> float:
    """How often ISRs got smaller rather than larger; a broker counts what the controller has answered, which it may hear after the change itself."""
    found = member.metrics()
    return found[f"{MANAGER}isrshrinks_total"] - found[f"{MANAGER}isrexpands_total"]


def lag(member: Member, leader_id: int) -> float | None:
    """ConsumerLag of partition 0 as its fetcher has it; None: nobody fetches it."""
    client = f"ReplicaFetcherThread-0-{leader_id}"
    return member.metrics().get(
        f'kafka_server_fetcherlagmetrics_consumerlag{{clientId="{client}",topic="t",partition="0"}}'
    )


def end(member: Member) -> float | None:
    """LogEndOffset of partition 0."""
    return member.metrics().get('kafka_log_log_logendoffset{topic="t",partition="0"}')


def _traffic(cluster: Cluster) -> None:
    """25 records of 50 kB were written to the first broker, two copied them, and now a consumer reads them."""
    first, second, _ = cluster.brokers
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    read: list[object] = []

    def is_all_read() -> bool:
        read.extend(each for each in consumer.consume(25, 1.0) if not each.error())
        return len(read) == 25

    until(is_all_read)
    consumer.close()
    # A page is given again for a moment, and bytes that were just sent are counted when the kernel has taken them.
    until(lambda: first.metrics()[f"{TRAFFIC}bytesout_total"] > 1_250_000)
    until(lambda: first.metrics()[f"{TRAFFIC}replicationbytesout_total"] > 2_500_000)
    until(lambda: second.metrics()[f"{TRAFFIC}replicationbytesin_total"] > 1_250_000)
    leads, follows = first.metrics(), second.metrics()
    assert leads[f'{TRAFFIC}messagesin_total{{topic="t"}}'] == leads[f"{TRAFFIC}messagesin_total"] == 25
    for name in ("bytesin", "bytesout"):
        assert leads[f'{TRAFFIC}{name}_total{{topic="t"}}'] == leads[f"{TRAFFIC}{name}_total"] > 1_250_000
        assert follows[f"{TRAFFIC}{name}_total"] == 0, "it leads another topic, of which nobody wants anything"
    assert follows[f"{TRAFFIC}replicationbytesin_total"] > 1_250_000
    assert leads[f"{TRAFFIC}replicationbytesout_total"] >= 2 * follows[f"{TRAFFIC}replicationbytesin_total"]


def test_copies_that_fall_behind_and_catch_up_show() -> None:
    """B-M06, B-M07, S2-22: each metric of ReplicaManager, Partition, Log, the fetchers and of what topics are written and read moves when that happens of which it tells, and back; who follows has 0, as in Kafka."""
    with Cluster(controllers=1, brokers=3, properties=PROPERTIES).with_metrics() as cluster:
        first, second, third = cluster[FIRST], cluster[SECOND], cluster[THIRD]
        create(
            cluster,
            "t",
            [(FIRST, SECOND, THIRD)],
            min_insync_replicas="2",
            leader_replication_throttled_replicas=f"0:{THIRD}",
        )
        create(cluster, "other", [(SECOND, FIRST)])
        fill(first, "t", batches=3)
        until(lambda: end(third) == 3)
        until(lambda: [of_partition(each) for each in (first, second)] == [(0, 3, 3, 0, 0), (0, 0, 0, 0, 0)])
        until(lambda: (led(first), lag(first, FIRST), lag(second, FIRST)) == ((0, 0, 0), None, 0))
        shown = first.metrics()
        assert shown[f"{MANAGER}partitioncount"] == 2
        assert shown['kafka_log_log_size{topic="t",partition="0"}'] > 150_000
        assert shown['kafka_log_log_numlogsegments{topic="t",partition="0"}'] == 1
        assert shown['kafka_log_log_logendoffset{topic="__cluster_metadata",partition="0"}'] > 0
        until(lambda: third.metrics()[f'{FETCHERS}minfetchrate{{clientId="Replica"}}'] > 0)

        third.pause()
        fill(first, "t", batches=1)  # who has all that there is stays in sync, however silent
        until(lambda: of_partition(first) == (1, 2, 3, 0, 1))
        until(lambda: (led(first), led(second), shrunk(first)) == ((1, 0, 1), (0, 0, 0), 1))
        second.pause()
        fill(first, "t", batches=1)
        until(lambda: of_partition(first) == (1, 1, 3, 1, 0))
        until(lambda: (led(first), shrunk(first)) == ((1, 1, 0), 2))
        second.resume()
        until(lambda: of_partition(first) == (1, 2, 3, 0, 1))

        fill(first, "t", batches=20)
        third.resume()
        until(lambda: of_partition(first) == (0, 3, 3, 0, 0))
        until(lambda: shrunk(first) == 0)
        assert first.metrics()[f"{MANAGER}isrexpands_total"] >= 2
        until(lambda: (end(third), lag(third, FIRST)) == (25, 0))
        until(lambda: third.metrics()[f'{FETCHERS}maxlag{{clientId="Replica"}}'] == 0)
        _traffic(cluster)
