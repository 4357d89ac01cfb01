"""What does the operator see of a broker: warnings, and directories by names that hold wherever one looks from?"""

from __future__ import annotations

from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.core.notice import Notice
from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker_bench import BrokerBench, Client


def created(error: ErrorCode, message: str | None) -> CreateTopicsResponse:
    """The controller's answer about the offsets topic."""
    return CreateTopicsResponse(
        topics=(CreatableTopicResult(name="__consumer_offsets", error_code=error, error_message=message),)
    )


def test_a_topic_that_cannot_be_made_by_itself_is_a_warning() -> None:
    """B-P06: groups that never get a coordinator have a reason, and it is told: too few brokers for the offsets topic."""
    bench = BrokerBench()
    said: list[str] = []
    bench.broker.on_warning = said.append
    client = Client(bench)
    for error, reason in ((ErrorCode.INVALID_REPLICATION_FACTOR, "one broker"), (ErrorCode.TOPIC_ALREADY_EXISTS, None)):
        client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
        bench.controller.answer(created(error, reason))
        (answer,) = client.answers()
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert said == ["topic __consumer_offsets cannot be created automatically: one broker"]


def test_many_topics_that_cannot_be_made_are_one_warning_an_error() -> None:
    """input:B25: what one request asks for does not become as many lines for the operator."""
    bench = BrokerBench()
    said: list[str] = []
    bench.broker.on_warning = said.append
    names = [f"t{number}" for number in range(1_000)]
    Client(bench).send(MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names)), 12)
    codes = [ErrorCode.POLICY_VIOLATION, ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION]
    results = tuple(
        CreatableTopicResult(name=name, error_code=codes[number % 4], error_message=f"why {name}")
        for number, name in enumerate(names)
    )
    bench.controller.answer(CreateTopicsResponse(topics=results))
    assert said == [
        "topic t0 cannot be created automatically, nor can 499 more: why t0",
        "topic t2 cannot be created automatically, nor can 249 more: why t2",
    ]


def test_log_directories_are_told_by_their_absolute_names() -> None:
    """B-T12: DescribeLogDirs, as Kafka, also where log.dirs is relative."""
    bench = BrokerBench()
    bench.broker.absolute_path = lambda path: f"/srv{path}"
    answer: Any = Client(bench).ask(DescribeLogDirsRequest(topics=None), 4)
    assert [directory.log_dir for directory in answer.results] == ["/srv/data"]


def test_clients_that_want_what_is_not_built_are_told_of() -> None:
    """B5: transactions (FindCoordinator, InitProducerId) and the consumer protocol; an idempotent producer is no news."""
    bench = BrokerBench()
    told: list[Notice] = []
    bench.broker.on_notice = told.append
    client = Client(bench)
    client.send(FindCoordinatorRequest(key_type=1, coordinator_keys=("tx",)), 4)
    client.send(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1_000), 4)
    client.send(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m"), 1)
    client.send(InitProducerIdRequest(transactional_id=None), 4)
    assert [notice.text.partition(" asks for ")[2] for notice in told] == [
        "transactions, which are not supported yet: leave out transactional.id",
        "transactions, which are not supported yet: leave out transactional.id",
        "the consumer protocol, which is not supported yet: set group.protocol=classic",
    ]
    assert {notice.about for notice in told} == {"unsupported"}
