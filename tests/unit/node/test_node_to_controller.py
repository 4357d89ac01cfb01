"""Do a node's requests reach the active controller, here or elsewhere, and does each end once?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.peers import Destination, SendFailure
from headrace.node.envelope import decode_host, decode_principal, enclosed_response
from headrace.node.local_controller import LocalController
from headrace.node.node_to_controller import RETRY_MS, NodeToControllerChannel
from headrace.node.outbound import Channel, Outbound, SendRequest
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.codec import decode
from headrace.wire.headers import parse_request_header
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from headrace.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.wire.schema import Message

FIRST, SECOND = Destination(10, "first", 1), Destination(11, "second", 2)
CREATE = CreateTopicsRequest(topics=(CreatableTopic(name="t"),), timeout_ms=5_000)
CREATED = CreateTopicsResponse(topics=(CreatableTopicResult(name="t"),))
ASKER = RequestContext(
    api_key=19, api_version=7, correlation_id=77, client_id="me", principal="User:alice", client_host="10.1.2.3"
)
OWN = RequestContext(api_key=63, api_version=1, is_internal=True)
HEARTBEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=3)


class Bench:
    """Node 1, whose own controller is active when `is_active`."""

    def __init__(self) -> None:
        self.now = 1_000
        self.is_active = False
        self.sent: list[SendRequest] = []
        self.here: list[Any] = []
        self.outbound = Outbound(self.sent.append)
        self.local = LocalController(now_ms=lambda: self.now, step=self.here.append, is_active=lambda: self.is_active)
        self.controller = NodeToControllerChannel(
            node_id=1, local=self.local, outbound=self.outbound, now_ms=lambda: self.now, timeout_ms=2_000
        )

    def ask(self, request: Message = CREATE, context: RequestContext = ASKER) -> Deferred:
        """Ask, with five seconds to answer."""
        return self.controller.send(request, context, deadline_ms=self.now + 5_000)

    def answer(self, outcome: Message | SendFailure) -> None:
        """The outcome of the newest request that was sent."""
        self.outbound.arrived(self.sent[-1].correlation, outcome)

    def wait(self, ms: int) -> None:
        """Time goes by."""
        self.now += ms
        self.controller.tick(self.now)


def message(deferred: Deferred) -> Any:
    """The response that was given."""
    assert isinstance(deferred.reply, Reply)
    return deferred.reply.message


def envelope(response: Message = CREATED) -> EnvelopeResponse:
    """The outer answer."""
    return EnvelopeResponse(response_data=enclosed_response(response, api_version=7, correlation_id=77))


def test_a_clients_request_goes_to_the_leader_in_an_envelope() -> None:
    """B-C28, KIP-590: the whole request in the client's version, who asks and from where; the client sees the inner answer."""
    bench = Bench()
    asked = bench.ask()
    assert bench.sent == []
    bench.controller.leader_changed(10, 4, FIRST)
    [sent] = bench.sent
    assert (sent.to, sent.channel, sent.timeout_ms) == (FIRST, Channel.FORWARDING, 2_000)
    outer = sent.request
    assert isinstance(outer, EnvelopeRequest)
    header = parse_request_header(outer.request_data)
    assert header[:4] == (19, 7, 77, "me")
    assert decode(CreateTopicsRequest, outer.request_data[header.body :], 7) == CREATE
    assert decode_principal(outer.request_principal) == "User:alice"
    assert decode_host(outer.client_host_address) == "10.1.2.3"
    bench.answer(envelope())
    assert message(asked) == CREATED


def test_what_a_node_asks_itself_goes_as_it_is() -> None:
    """B-R28: heartbeats have a connection of their own, so they never wait behind clients' requests."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask(HEARTBEAT, OWN)
    assert (bench.sent[0].request, bench.sent[0].channel) == (HEARTBEAT, Channel.HEARTBEAT)
    bench.answer(BrokerHeartbeatResponse(is_caught_up=True))
    assert message(asked).is_caught_up


@pytest.mark.parametrize(
    "outcome",
    [
        SendFailure.REFUSED,
        SendFailure.DISCONNECTED,
        SendFailure.TIMED_OUT,
        EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER),
        envelope(CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER),))),
    ],
)
def test_a_lost_request_is_tried_again_after_a_moment(outcome: Message | SendFailure) -> None:
    """B-C28, B-K11: until its deadline."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask()
    bench.answer(outcome)
    assert len(bench.sent) == 1
    bench.wait(RETRY_MS)
    assert len(bench.sent) == 2
    bench.answer(envelope())
    assert message(asked) == CREATED


def test_another_leader_is_asked_at_once() -> None:
    """B-K11: without waiting for the one before, whose late answer changes nothing."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask()
    late = bench.sent[0].correlation
    bench.controller.leader_changed(11, 5, SECOND)
    assert [each.to for each in bench.sent] == [FIRST, SECOND]
    bench.outbound.arrived(late, EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert not asked.is_done
    bench.answer(envelope())
    assert message(asked) == CREATED


def test_the_same_leader_in_another_epoch_is_not_asked_twice() -> None:
    """B-C28: a request on its way to a node that leads again is not sent once more: it would be done twice."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask()
    bench.controller.leader_changed(10, 5, FIRST)
    assert [each.to for each in bench.sent] == [FIRST]
    bench.answer(envelope())
    assert message(asked) == CREATED


def test_a_request_ends_at_its_deadline() -> None:
    """S3-70, B-C27: with the API's own response."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask()
    bench.wait(5_000)
    assert message(asked).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    quorum = bench.ask(DescribeQuorumRequest(), RequestContext(api_key=55, api_version=2))
    bench.wait(5_000)
    assert message(quorum).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert bench.controller.next_deadline_ms() is None


def test_the_controller_of_this_process_is_asked_without_a_connection() -> None:
    """B-K12: also when it becomes active while a request waits; and when it loses leadership the next one is asked."""
    bench = Bench()
    asked = bench.ask()
    bench.controller.leader_changed(1, 4, None)
    assert bench.here == []
    bench.is_active = True
    bench.controller.activity_changed()
    assert (bench.here[0].request, bench.here[0].cause.principal) == (CREATE, "User:alice")
    bench.is_active = False
    refused = CreatableTopicResult(name="t", error_code=ErrorCode.NOT_CONTROLLER)
    bench.local.answered(bench.here[0].token, CreateTopicsResponse(topics=(refused,)))
    bench.controller.leader_changed(10, 5, FIRST)
    bench.answer(envelope())
    assert message(asked) == CREATED


def test_the_controller_of_this_process_is_asked_once() -> None:
    """B-K12: it does a part of the work before the asking returns, and the node then looks who waits to be asked; the same change asked twice is made twice."""
    bench = Bench()
    bench.is_active = True
    bench.controller.leader_changed(1, 4, None)

    def step(event: Any) -> None:
        bench.here.append(event)
        bench.controller.activity_changed()

    bench.local._step = step
    asked = [bench.ask(), bench.ask(DescribeQuorumRequest(), RequestContext(api_key=55, api_version=2))]
    assert [each.request for each in bench.here] == [CREATE, DescribeQuorumRequest()]
    bench.local.answered(bench.here[0].token, CREATED)
    assert (message(asked[0]), asked[1].is_done) == (CREATED, False)


def test_only_the_quorums_leader_is_asked_about_the_quorum() -> None:
    """KIP-595: DescribeQuorum goes to the raft node of the leader."""
    bench = Bench()
    bench.controller.leader_changed(1, 4, None)
    asked = bench.ask(DescribeQuorumRequest(), RequestContext(api_key=55, api_version=2))
    bench.local.answered(bench.here[0].token, DescribeQuorumResponse(error_message="here"))
    assert message(asked).error_message == "here"


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (SendFailure.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(response_data=b"\0\0\0\1nonsense"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_what_cannot_be_mended_is_told(outcome: Message | SendFailure, error: ErrorCode) -> None:
    """KIP-590: the envelope's own errors are not the client's fault."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask()
    bench.answer(outcome)
    assert message(asked).topics[0].error_code == error


def test_who_gave_up_waiting_is_forgotten() -> None:
    """A closed client connection leaves nothing behind."""
    bench = Bench()
    asked = bench.ask()
    asked.abandon()
    bench.controller.leader_changed(10, 4, FIRST)
    assert bench.sent == []
    assert bench.controller.next_deadline_ms() is None


def test_a_node_looks_on_for_its_controller_where_somebody_else_answers() -> None:
    """S4-13, B-K11: the listener of a broker does not know what brokers ask of a controller; the address is wrong, or the leader moves."""
    bench = Bench()
    bench.controller.leader_changed(10, 4, FIRST)
    asked = bench.ask(HEARTBEAT, OWN)
    bench.answer(SendFailure.UNSUPPORTED_VERSION)
    assert not asked.is_done
    bench.wait(RETRY_MS)
    bench.answer(BrokerHeartbeatResponse(is_caught_up=True))
    assert message(asked).is_caught_up
