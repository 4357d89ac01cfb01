"""Do answers of real brokers tell the offset of their metadata, and do stock clients not mind?"""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.api_versions import ApiVersionsRequest
from tests.support.roles import create, metadata_offset, topics_of, until


def epoch_at(member: Member) -> int:
    """FinalizedFeaturesEpoch of a broker's answer."""
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    found: int = ask(member.place.host, member.port, request, 3).finalized_features_epoch
    return found


def test_the_offset_grows_on_each_broker_across_a_failover() -> None:
    """S4-55: it grows while nothing happens, never goes back on one broker, and reaches on every broker what one has said."""
    with Cluster(controllers=3, brokers=2) as cluster:
        first, second = cluster.brokers
        said: dict[int, list[int]] = {first.node_id: [], second.node_id: []}

        def look() -> None:
            for member in (first, second):
                said[member.node_id] += [metadata_offset(member), epoch_at(member)]

        look()
        assert create(first, "t0") == [0]
        look()
        cluster.leader().kill()
        assert create(second, "t1") == [0]
        look()
        newest = max(said[first.node_id][-1], said[second.node_id][-1])
        for member in (first, second):
            until(lambda member=member: metadata_offset(member) > newest)  # type: ignore[misc]
        look()
        for offsets in said.values():
            assert offsets == sorted(offsets)
            assert offsets[-1] > newest > offsets[0] >= 0


def test_stock_clients_do_not_mind_the_offset() -> None:
    """S4-55: librdkafka and kafka-python read the same metadata as ever."""
    with Cluster(controllers=1, brokers=1) as cluster:
        [broker] = cluster.brokers
        assert create(broker, "seen") == [0]
        until(lambda: "seen" in topics_of(broker))
        found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=30)
        assert set(found.topics) == {"seen"}
        assert set(found.brokers) == {broker.node_id}
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        try:
            assert admin.list_topics() == ["seen"]
        finally:
            admin.close()
