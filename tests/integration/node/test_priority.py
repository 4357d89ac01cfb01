"""Is the quorum served while clients ask for more than a node can do?"""

from __future__ import annotations

import threading

from confluent_kafka import Producer

from headrace.testing.cluster import Cluster
from tests.support.roles import create, metadata_offset, topics_of, unfenced, until

CHANGES = 8


class Flood:
    """Producers that always have more to send than the cluster takes; a context manager."""

    def __init__(self, bootstrap_servers: str, topic: str, *, producers: int) -> None:
        settings = {"bootstrap.servers": bootstrap_servers, "acks": 1, "linger.ms": 0, "batch.num.messages": 10}
        self._topic = topic
        self._producers = [Producer(settings) for _ in range(producers)]
        self._threads = [threading.Thread(target=self._send, args=(each,)) for each in self._producers]
        self._is_over = threading.Event()
        self.failures: list[str] = []
        self.delivered = 0

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        return sum(len(each) for each in self._producers)

    def _send(self, producer: Producer) -> None:
        while not self._is_over.is_set():
            for _ in range(max(0, 2_000 - len(producer))):
                producer.produce(self._topic, b"x" * 500, on_delivery=self._done)
            producer.poll(0.01)
        producer.flush(60)

    def _done(self, error: object, _: object) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failures.append(str(error))


def test_the_quorum_is_served_while_clients_flood_every_node() -> None:
    """S2-22, S2-21, B-R28: nodes with both roles; heartbeats, votes and fetches of the quorum have listeners and connections of their own.

    So while more is produced than is taken, changes are committed and reach every broker, nobody is fenced and the leader stays.
    """
    with Cluster(controllers=3, combined=True) as cluster:
        leader, [first, *_] = cluster.leader(), cluster.brokers
        assert create(first, "flooded", partitions=6) == [0]
        everybody = {each.node_id for each in cluster.brokers}
        until(lambda: unfenced(first) == everybody)
        epoch = cluster.quorum().leader_epoch
        with Flood(cluster.bootstrap_servers, "flooded", producers=2) as flood:
            until(lambda: flood.delivered > 500)
            for number in range(CHANGES):
                until(lambda: flood.waiting > 500)
                offset = metadata_offset(first)
                assert create(cluster.brokers[number % 3], f"t{number}") == [0]
                for member in cluster.brokers:
                    until(lambda member=member, name=f"t{number}": name in topics_of(member))  # type: ignore[misc]
                    until(lambda member=member, offset=offset: metadata_offset(member) > offset)  # type: ignore[misc]
                assert unfenced(first) == everybody
            taken = flood.delivered
        assert taken > 500
        assert flood.failures == []
        assert (cluster.leader().node_id, cluster.quorum().leader_epoch) == (leader.node_id, epoch)
