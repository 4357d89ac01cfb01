"""Is the work for a request linear in its size, however often it names the same thing?

Each of these requests is a few hundred kilobytes. Work that grew with the square of their parts would take minutes.
"""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.support.broker_bench import BrokerBench, Client, Turns

MANY = 20_000
TOPIC = 2


def with_groups() -> BrokerBench:
    """A broker that serves groups, and leads a topic."""
    bench = BrokerBench(offsets_topic_num_partitions=1)
    bench.topic("__consumer_offsets")
    bench.topic("here")
    bench.advance(1)
    return bench


def commit_of(*names: str) -> OffsetCommitRequest:
    """A commit of partition 0 of each."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = tuple(OffsetCommitRequestTopic(name=name, partitions=(partition,)) for name in names)
    return OffsetCommitRequest(group_id="g", topics=topics)


def test_a_commit_may_name_an_unknown_topic_again_and_again() -> None:
    """input:B24, input:B25, M6: one entry in the answer holds every partition that was refused."""
    answer = Client(with_groups()).ask(commit_of("here", *["gone"] * MANY), 9)
    codes = {topic.name: [partition.error_code for partition in topic.partitions] for topic in answer.topics}
    assert codes == {"here": [0], "gone": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * MANY}


def test_a_deletion_of_positions_may_name_many_partitions_that_do_not_exist() -> None:
    """input:B25, M6."""
    bench = with_groups()
    client = Client(bench)
    assert client.ask(commit_of("here"), 9).topics[0].partitions[0].error_code == 0
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY))
    asked = (OffsetDeleteRequestTopic(name="here", partitions=partitions),)
    answer = client.ask(OffsetDeleteRequest(group_id="g", topics=asked), 0)
    codes = {partition.partition_index: partition.error_code for partition in answer.topics[0].partitions}
    assert codes == {index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if index else 0 for index in range(MANY)}


def test_settings_of_many_resources_may_be_changed_in_one_request() -> None:
    """input:B24, input:B25, M6: those that stand there once go to the controller, a repeated one is refused twice."""
    bench = BrokerBench()
    client = Client(bench)
    names = [*(f"t{number}" for number in range(MANY)), "t0"]
    resources = tuple(AlterConfigsResource(resource_type=TOPIC, resource_name=name) for name in names)
    client.send(IncrementalAlterConfigsRequest(resources=resources), 1)
    forwarded: list[str] = []
    while len(forwarded) < MANY - 1:  # a few at a time
        asked = bench.controller.answer(IncrementalAlterConfigsResponse())
        forwarded += [one.resource_name for one in asked.resources]
    assert forwarded == names[1:-1]
    (answer,) = client.answers()
    assert [answer.responses[place].error_code for place in (0, -1)] == [ErrorCode.INVALID_REQUEST] * 2


def test_metadata_of_many_topics_that_cannot_be_made_is_answered_once_for_all() -> None:
    """input:B25, M6: each name with its own error; so many are tried as are made in a moment, clients ask again for the others."""
    bench = BrokerBench()
    client = Client(bench)
    names = [f"t{number}" for number in range(MANY)]
    client.send(MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names)), 9)
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    bench.controller.answer(
        CreateTopicsResponse(topics=tuple(CreatableTopicResult(name=name, error_code=code) for name in names[:100]))
    )
    (answer,) = client.answers()
    assert [(topic.name, topic.error_code, topic.topic_id) for topic in answer.topics] == [
        (name, code if place < 100 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Uuid())
        for place, name in enumerate(names)
    ]


def test_who_asks_for_a_topic_that_there_is_does_not_wait_for_all_that_are_made() -> None:
    """PR8, M6: four hundred clients that each had a topic made kept another one's Metadata waiting for 1.4 s, until all were decided."""
    bench, turns = BrokerBench(), Turns(look_s=0.0001)
    bench.topic("known")
    turns.work.spent(1.0)  # as a crowd has
    for number in range(50):
        Client(bench, turns=turns).send(MetadataRequest(topics=(MetadataRequestTopic(name=f"t{number}"),)), 9)
    other = Client(bench, turns=turns)
    other.send(MetadataRequest(topics=(MetadataRequestTopic(name="known"),)), 9)
    while not (answers := other.answers()):
        turns.turn()
    assert [topic.error_code for topic in answers[0].topics] == [ErrorCode.NONE]
    assert len(bench.controller.asked) <= 15
    turns.run()
    assert len(bench.controller.asked) == 50


def test_metadata_that_waited_for_new_topics_is_answered_in_steps() -> None:
    """input:B25, M6: nothing is made of it in the turn in which the controller answers, or time is up; nor for one who has gone."""
    for ending in ("answered", "in vain", "gone"):
        bench, turns = BrokerBench(), Turns()
        client = Client(bench, turns=turns)
        names = tuple(MetadataRequestTopic(name=f"t{number}") for number in range(MANY))
        client.send(MetadataRequest(topics=names), 9)
        turns.run()
        if ending == "gone":
            client.connection.closed()
        if ending == "in vain":
            bench.advance(1_000)
        else:
            bench.controller.answer(CreateTopicsResponse())
        assert client.answers() == []
        assert bool(turns.due) is (ending != "gone")
        count = 0
        while turns.due:
            turns.turn()
            count += 1
        assert count > 10 or ending == "gone"
        assert len(client.answers()) == (ending != "gone")
