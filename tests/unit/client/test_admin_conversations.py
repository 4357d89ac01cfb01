"""Are administrative requests put as the cluster expects them, in each version, and their answers taken apart?"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from headrace.client import admin_cluster, admin_configs, admin_topics
from headrace.client.admin_cluster import UpgradeType
from headrace.client.admin_configs import Operation, Resource, ResourceType, alter
from headrace.client.admin_topics import NewTopic, TopicDescription
from headrace.client.cluster_view import NodeView
from headrace.client.session import Session
from headrace.client.talk import Answered, Ask, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from headrace.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from headrace.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from headrace.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.messages.unregister_broker import EmptiedTopic, UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from tests.support.conversation import FIRST, SECOND, TOPIC_ID, Cluster, knowing, message_of, session


def answers(known: Session, *responses: Any, version: int = 5) -> Cluster:
    left = iter(responses)
    return Cluster(known, lambda ask: Answered(response=next(left), version=version))


def test_topics_are_created_with_defaults_assignments_and_settings() -> None:
    """B-T11: -1 stands for the cluster's defaults; a manual assignment leaves both numbers to it."""
    known = knowing()
    made = CreatableTopicResult(name="a", topic_id=TOPIC_ID)
    refused = CreatableTopicResult(
        name="b", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="Topic 'b' already exists."
    )
    cluster = answers(known, CreateTopicsResponse(topics=(made, refused)))
    wanted = [NewTopic(name="a", partitions=3, configs={"k": "v"}), NewTopic(name="b", assignment=((1, 2), (2, 1)))]
    found = cluster.hold(admin_topics.create_topics(known, wanted))
    assert found["a"] == TOPIC_ID
    assert str(found["b"]) == "Topic 'b' already exists."
    first, second = message_of(cluster.asked[0], 7).topics
    assert (first.num_partitions, first.replication_factor, first.configs[0].value) == (3, -1, "v")
    assert (second.num_partitions, [each.broker_ids for each in second.assignments]) == (-1, [(1, 2), (2, 1)])


def test_b29_what_an_answer_leaves_out_or_makes_up_is_an_error_of_what_was_asked_for() -> None:
    """B29: such answers ended tools with a traceback, or were taken for success."""
    known = knowing()
    topic = Resource(ResourceType.TOPIC, "t")
    odd = DescribeConfigsResult(resource_type=99, resource_name="t")
    changed = AlterConfigsResourceResponse(resource_type=99, resource_name="t")
    cluster = answers(
        known,
        CreateTopicsResponse(topics=(CreatableTopicResult(name="other", topic_id=TOPIC_ID),)),
        DeleteTopicsResponse(),
        DescribeTopicPartitionsResponse(),
        DescribeConfigsResponse(results=(odd,)),
        IncrementalAlterConfigsResponse(responses=(changed,)),
    )
    results: list[tuple[Any, Any]] = [
        *cluster.hold(admin_topics.create_topics(known, [NewTopic(name="t")])).items(),
        *cluster.hold(admin_topics.delete_topics(known, ["t"])).items(),
        *cluster.hold(admin_topics.describe_topics(known, ["t"])).items(),
        *cluster.hold(admin_configs.describe_configs(known, [topic])).items(),
        *cluster.hold(admin_configs.alter_configs(known, {topic: alter({"k": "v"})})).items(),
    ]
    assert [asked for asked, _ in results] == ["t", "t", "t", topic, topic]
    assert {str(error) for _, error in results} == {"the node's answer leaves it out"}


def test_a_broker_that_lost_its_controller_is_asked_again() -> None:
    """NOT_CONTROLLER in every row means: ask again."""
    known = knowing()
    moved = DeleteTopicsResponse(responses=(DeletableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER),))
    gone = DeleteTopicsResponse(responses=(DeletableTopicResult(name="t"),))
    cluster = answers(known, moved, gone)
    assert cluster.hold(admin_topics.delete_topics(known, ["t"])) == {"t": None}
    assert "t" not in known.cluster.topics
    assert message_of(cluster.asked[0], 5).topic_names == ("t",)
    assert message_of(cluster.asked[0], 6).topics[0].name == "t"


def described(numbers: range) -> DescribeTopicPartitionsResponseTopic:
    parts = tuple(DescribeTopicPartitionsResponsePartition(partition_index=number, leader_id=1) for number in numbers)
    return DescribeTopicPartitionsResponseTopic(name="t", topic_id=TOPIC_ID, partitions=parts)


def test_kip_966_large_topics_are_described_page_by_page() -> None:
    """KIP-966: the cursor of an answer starts the next request."""
    known = knowing()
    first = DescribeTopicPartitionsResponse(
        topics=(described(range(2)),), next_cursor=ResponseCursor(topic_name="t", partition_index=2)
    )
    last = DescribeTopicPartitionsResponse(topics=(described(range(2, 3)),))
    cluster = answers(known, first, last)
    found = cluster.hold(admin_topics.describe_topics(known, ["t"]))["t"]
    assert isinstance(found, TopicDescription)
    assert [part.partition for part in found.partitions] == [0, 1, 2]
    assert message_of(cluster.asked[1]).cursor.partition_index == 2


def test_b29_a_cursor_that_does_not_move_ends_the_paging() -> None:
    """B29: a peer that sends the same cursor for ever must not hold us."""
    known = knowing()
    same = DescribeTopicPartitionsResponse(
        topics=(described(range(1)),), next_cursor=ResponseCursor(topic_name="t", partition_index=1)
    )
    cluster = Cluster(known, lambda ask: Answered(response=same, version=0))
    cluster.hold(admin_topics.describe_topics(known, ["t"]))
    assert len(cluster.asked) == 2


def test_b29_a_cursor_that_always_moves_ends_with_the_calls_time() -> None:
    """B29: a page that tells a partition again replaces what was told, and a next page for ever is an error when the call's time is up."""
    known = knowing()
    numbers = count(1)

    def answer(_: Ask) -> Answered:
        known.now_ms += 5_000
        cursor = ResponseCursor(topic_name="t", partition_index=next(numbers))
        return Answered(
            response=DescribeTopicPartitionsResponse(topics=(described(range(1)),), next_cursor=cursor), version=0
        )

    cluster = Cluster(known, answer)
    with pytest.raises(PeerError, match="one more page"):
        cluster.hold(admin_topics.describe_topics(known, ["t"]))
    assert len(cluster.asked) == known.settings.default_api_timeout_ms / 5_000
    twice = DescribeTopicPartitionsResponse(topics=(described(range(2)), described(range(1, 3))))
    found = answers(known, twice).hold(admin_topics.describe_topics(known, ["t"]))["t"]
    assert isinstance(found, TopicDescription)
    assert [part.partition for part in found.partitions] == [0, 1, 2]


def test_a_cluster_without_the_paging_api_is_asked_for_metadata() -> None:
    """DescribeTopicPartitions came with 3.7; its answer has eligible leaders, metadata has none."""
    known = knowing()

    def answer(ask: Ask) -> Any:
        if isinstance(message_of(ask, 12), DescribeTopicPartitionsRequest):
            return Unsupported(api_key=75, reason="no")
        from tests.unit.client.test_routing_conversations import metadata

        return metadata({0: 2})

    found = Cluster(known, answer).hold(admin_topics.describe_topics(known, ["t"]))["t"]
    assert isinstance(found, TopicDescription)
    assert [(part.leader, part.elr) for part in found.partitions] == [(2, None)]


def test_a_brokers_settings_are_asked_of_itself_and_topics_of_any() -> None:
    """Only a broker knows its static settings."""
    known = knowing()
    resources = [Resource(ResourceType.BROKER, "2"), Resource(ResourceType.TOPIC, "t")]

    def answer(ask: Ask) -> Answered:
        rows = tuple(
            DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=(DescribeConfigsResourceResult(name="k", value="v", config_source=99),),
            )
            for each in message_of(ask).resources
        )
        return Answered(response=DescribeConfigsResponse(results=rows), version=4)

    cluster = Cluster(known, answer)
    found = cluster.hold(admin_configs.describe_configs(known, resources))
    assert set(found) == set(resources)
    assert cluster.asked[0].address == SECOND
    entries = found[resources[1]]
    assert not isinstance(entries, PeerError)
    assert entries[0].source.name == "UNKNOWN"


def test_kip_339_changes_are_sent_one_by_one() -> None:
    """KIP-339: what is not named stays."""
    known = knowing()
    where = Resource(ResourceType.TOPIC, "t")
    row = AlterConfigsResourceResponse(
        resource_type=2, resource_name="t", error_code=ErrorCode.INVALID_CONFIG, error_message="bad"
    )
    cluster = answers(known, IncrementalAlterConfigsResponse(responses=(row,)))
    found = cluster.hold(admin_configs.alter_configs(known, {where: alter({"a": "1"}, ["b"])}))
    assert str(found[where]) == "bad"
    sent = message_of(cluster.asked[0]).resources[0].configs
    assert [(each.name, each.config_operation, each.value) for each in sent] == [
        ("a", Operation.SET, "1"),
        ("b", Operation.DELETE, None),
    ]


@pytest.mark.parametrize(
    ("is_decommission", "is_forced"),
    [(False, False), (True, False), (True, True)],
    ids=["unregister", "decommission", "force"],
)
def test_s1_63_decommission_is_unregister_with_project_tags(is_decommission: bool, is_forced: bool) -> None:
    """S1-63, S1-66, S1-71: tags 10000 and 10001 of UnregisterBroker; what was lost is in tag 10000 of the answer."""
    known = knowing()
    lost = (EmptiedTopic(name="t", partitions=(0, 2)),)
    cluster = answers(known, UnregisterBrokerResponse(emptied_topics=lost))
    talk = admin_cluster.unregister_broker(known, 3, is_decommission=is_decommission, is_forced=is_forced)
    assert cluster.hold(talk) == {"t": (0, 2)}
    wanted = UnregisterBrokerRequest(broker_id=3, remove_from_assignments=is_decommission, force=is_forced)
    assert message_of(cluster.asked[0]) == wanted


def test_b_t08_features_are_updated_and_each_ones_error_is_told() -> None:
    """B-T08: version 0 says allow_downgrade, later ones the kind of upgrade; from version 2 on there are no rows."""
    known = knowing()
    row = UpdatableFeatureResult(feature="b", error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message="no")
    cluster = answers(
        known, UpdateFeaturesResponse(results=(UpdatableFeatureResult(feature="a"), row)), UpdateFeaturesResponse()
    )
    talk = admin_cluster.update_features(known, {"a": 1, "b": 2}, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
    found = cluster.hold(talk)
    assert (found["a"], str(found["b"])) == (None, "no")
    old, new = message_of(cluster.asked[0], 0).feature_updates[0], message_of(cluster.asked[0], 2).feature_updates[0]
    assert (old.allow_downgrade, new.upgrade_type) == (True, UpgradeType.SAFE_DOWNGRADE)
    dry = cluster.hold(
        admin_cluster.update_features(known, {"a": 1}, upgrade_type=UpgradeType.UPGRADE, is_dry_run=True)
    )
    assert dry == {"a": None}
    assert cluster.asked[1].request.at_least == 1


def test_s1_75_controllers_are_found_through_themselves() -> None:
    """S1-75, KIP-919: bootstrapped from controllers, the active one is asked."""
    known = session(is_controller=True)
    brokers = (
        DescribeClusterBroker(broker_id=1, host="one", port=9092),
        DescribeClusterBroker(broker_id=2, host="two", port=9092),
    )
    listing = DescribeClusterResponse(endpoint_type=2, cluster_id="c", controller_id=2, brokers=brokers)
    cluster = answers(known, listing, UnregisterBrokerResponse(), version=2)
    cluster.hold(admin_cluster.unregister_broker(known, 3))
    assert [ask.address for ask in cluster.asked] == [FIRST, SECOND]
    assert message_of(cluster.asked[0]).endpoint_type == 2
    assert known.cluster.nodes[2] == NodeView(node_id=2, address=SECOND)
