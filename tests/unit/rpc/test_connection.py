"""Do replies leave in the order of requests, and is there a bound to what waits behind one that is late?"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.holds import Hold
from headrace.rpc.apis import API_TABLE, ApiRow, row_of
from headrace.rpc.connection import Connection
from headrace.rpc.context import RequestContext
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_work import MOST_HELD_BYTES, LongWork, Steps
from headrace.rpc.output import SendWatcher
from headrace.rpc.reply import (
    NO_REPLY,
    AnyReply,
    CloseConnection,
    Deferred,
    EncodedReply,
    HandlerResult,
    HotResult,
    InSteps,
    Reply,
)
from headrace.rpc.unread import MOST_ANSWER_BYTES
from headrace.wire.codec import encode
from headrace.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from headrace.wire.messages.envelope import EnvelopeRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headrace.wire.versions import ApiKey
from tests.support.broker_bench import Turns
from tests.support.raw import header, request_frame

_BY_KEY = {api.key: api for api in API_TABLE}
PRODUCE = row_of(_BY_KEY[ApiKey.PRODUCE], "tests.support.answers", reads_raw=True)
METADATA = row_of(_BY_KEY[ApiKey.METADATA], "tests.support.answers")
FETCH = row_of(_BY_KEY[ApiKey.FETCH], "tests.support.answers", reads_raw=True)
DESCRIBE_GROUPS = row_of(_BY_KEY[ApiKey.DESCRIBE_GROUPS], "tests.support.answers")
ENVELOPE = row_of(_BY_KEY[ApiKey.ENVELOPE], "tests.support.answers")
BODY = {0: b"any", 1: b"any", 3: encode(MetadataRequest(topics=()), 12)}


class Out:
    """The socket side: remembers."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.pieces: list[Any] = []
        self.closed: list[str] = []
        self.kept = 0
        self.flushes: list[str] = []
        self.stopwatch: Callable[[], float] | None = None
        self.turn_began = 0.0
        self.watchers: list[SendWatcher] = []

    def flush(self) -> None:
        """Everything is in `pieces`."""
        self.flushes.append("now")

    def flush_soon(self) -> None:
        """The same."""
        self.flushes.append("soon")

    def when_sent(self, watcher: SendWatcher) -> None:
        """Remember."""
        self.watchers.append(watcher)

    def keep_frame(self) -> None:
        """Views stay valid anyway."""
        self.kept += 1

    def hold(self, reason: Hold) -> None:
        """Deliver no more."""
        self.holds.add(reason)

    def release(self, reason: Hold) -> None:
        """Deliver again."""
        self.holds.discard(reason)

    def close(self, reason: str) -> None:
        """Remember why."""
        self.closed.append(reason)

    def abort(self, reason: str) -> None:
        """The same."""
        self.closed.append(reason)

    @property
    def answered(self) -> list[int]:
        """The correlation ids of the replies so far."""
        return [struct.unpack_from(">ii", bytes(piece))[1] for piece in self.pieces]


class Setting:
    """A connection; `late` are the produces that wait."""

    def __init__(
        self, *, max_in_flight: int = 1_000, is_shut: Callable[[], bool] | None = None, turns: Turns | None = None
    ) -> None:
        self.out = Out()
        self.late: list[Deferred] = []
        self.now: HotResult = Reply(MetadataResponse(brokers=(), topics=()))
        service = ListenerService(
            listener="L",
            rows={0: PRODUCE, 1: FETCH, 3: METADATA, 15: DESCRIBE_GROUPS, 58: ENVELOPE},
            target=self._answer,
            now_ms=lambda: 5,
            refuses={},
            max_in_flight=max_in_flight,
            is_shut=is_shut,
            long_work=LongWork(soon=None, clock=lambda: 0.0) if turns is None else turns.work,
        )
        self.connection = Connection(service, self.out, client_host="h", connection_id=1)

    def _answer(self, request: object, context: RequestContext) -> HotResult:
        if context.api_key == PRODUCE.key:
            self.late.append(Deferred())
            return self.late[-1]
        return self.now

    def is_held(self) -> bool:
        """Whether no further request is taken in."""
        return Hold.REPLY in self.out.holds

    def ask(self, row: ApiRow, correlation_id: int, body: bytes | None = None) -> bool:
        """A request arrives."""
        asked = BODY[row.key] if body is None else body
        return self.connection.frame(memoryview(header(row, 12, correlation_id) + asked))


def test_behind_a_late_produce_another_kind_of_request_stops_the_connection() -> None:
    """inv:M4, B-W07: its answer is kept until its turn, and nothing more is taken in meanwhile."""
    setting = Setting()
    setting.ask(PRODUCE, 1)
    assert not setting.is_held()
    setting.ask(METADATA, 2)
    assert setting.is_held()
    assert setting.out.answered == []
    setting.late[0].complete(EncodedReply((b"done",)))
    assert setting.out.answered == [1, 2]
    assert not setting.is_held()


def test_replies_that_one_event_completes_leave_together() -> None:
    """While others of the connection wait they are sent at the end of the turn; with the last one, at once."""
    setting = Setting()
    for number in (1, 2, 3):
        setting.ask(PRODUCE, number)
    for late in setting.late:
        late.complete(EncodedReply((b"done",)))
    assert setting.out.flushes == ["soon", "soon", "now"]
    assert setting.out.answered == [1, 2, 3]


def test_so_many_produces_may_be_late_and_no_more() -> None:
    """inv:M4, fault:S99: `headrace.max.requests.in.flight`, whatever becomes of each."""
    setting = Setting(max_in_flight=3)
    for number in (1, 2):
        setting.ask(PRODUCE, number)
    assert not setting.is_held()
    setting.ask(PRODUCE, 3)
    assert setting.is_held()
    for late in setting.late:
        late.complete(NO_REPLY)
    assert not setting.is_held()


@pytest.mark.parametrize("is_late", [False, True])
def test_an_answer_that_cannot_be_written_costs_its_connection_only(*, is_late: bool) -> None:
    """input:B26: whoever completes a reply (the quorum node, say) does not hear of it."""
    setting = Setting()
    if is_late:
        setting.ask(PRODUCE, 1)
    setting.now = Reply(MetadataResponse(brokers=(), topics=(), cluster_id="x" * 32_768))
    setting.ask(METADATA, 2)
    if is_late:
        setting.late[0].complete(EncodedReply((b"done",)))
    assert setting.out.answered == ([1] if is_late else [])
    assert len(setting.out.closed) == 1
    assert "metadata version 12 cannot be written" in setting.out.closed[0]


def test_a_late_refusal_closes_in_its_turn() -> None:
    """B-W07: a failed produce with acks=0 closes the connection after the answers before it."""
    setting = Setting()
    setting.ask(PRODUCE, 1)
    setting.ask(PRODUCE, 2)
    setting.late[1].complete(CloseConnection("acks=0 failed"))
    assert setting.out.closed == []
    setting.late[0].complete(EncodedReply((b"done",)))
    assert setting.out.answered == [1]
    assert setting.out.closed == ["acks=0 failed"]


def test_only_produce_and_fetch_go_on_in_the_same_turn() -> None:
    """inv:M6: after another request, which may have cost much, others have their turn."""
    setting = Setting()
    assert setting.ask(METADATA, 1)
    assert not setting.ask(PRODUCE, 2)
    assert not setting.ask(PRODUCE, 3)


def test_a_broker_without_contact_closes_connections_that_were_served_before() -> None:
    """`headrace.self.fencing=always` (S0-16): no client is served, whatever it asked before; what replicas ask is answered."""
    shut = [False]
    setting = Setting(is_shut=lambda: shut[0])
    setting.ask(PRODUCE, 1)
    setting.ask(FETCH, 2)
    shut[0] = True
    setting.ask(FETCH, 3)
    assert setting.out.closed == []
    setting.ask(PRODUCE, 4)
    assert setting.out.closed == ["this broker has no contact with the controller (headrace.self.fencing=always)"]
    assert len(setting.late) == 1


def test_the_log_says_which_client_asks_for_what_is_not_there() -> None:
    """One line names API, client and version: a client of a protocol that is not supported is found by it."""
    setting = Setting()
    setting.connection.software_name, setting.connection.software_version = "apache-kafka-java", "4.3.1"
    setting.connection.frame(memoryview(struct.pack(">hhih", 68, 0, 1, -1)))
    assert setting.out.closed == [
        "api key 68 (CONSUMER_GROUP_HEARTBEAT) is not served on listener L; asked by apache-kafka-java 4.3.1"
    ]


def steps_of(reply: AnyReply | Deferred) -> Steps[HandlerResult]:
    """An answer that takes a step."""
    yield None
    return reply


def test_an_answer_in_steps_may_wait_and_what_comes_then_may_be_made_in_steps_too() -> None:
    """inv:M6: a long produce that waits for its replicas, and is answered at length at its deadline."""
    setting, waits = Setting(), Deferred()
    setting.now = InSteps(steps_of(waits), holds_back=True)
    setting.ask(METADATA, 1)
    assert (setting.is_held(), setting.out.answered) == (True, [])
    waits.complete(InSteps(steps_of(EncodedReply((b"done",)))))
    assert (setting.is_held(), setting.out.answered) == (False, [1])


def test_what_an_answer_in_steps_waits_for_is_abandoned_with_its_connection() -> None:
    """inv:M4: also when the steps outlive it, because what they do must be done."""
    for outlives in (False, True):
        setting, waits = Setting(), Deferred()
        setting.now = InSteps(steps_of(waits), outlives_asker=outlives)
        setting.ask(METADATA, 1)
        setting.connection.closed()
        assert waits.is_done


def test_a_large_request_is_refused_while_as_large_ones_wait_for_their_turn() -> None:
    """inv:M1: those that wait lie in memory whole; this one is not begun, nor is its frame kept."""
    setting, begun = Setting(), list[bool]()

    def steps() -> Steps[HandlerResult]:
        begun.append(True)
        yield None
        return EncodedReply((b"done",))

    setting.now = InSteps(steps(), size=MOST_HELD_BYTES + 1)
    setting.ask(METADATA, 1)
    assert (begun, setting.out.answered, len(setting.out.closed)) == ([], [], 1)
    assert "wait for their turn" in setting.out.closed[0]
    setting.now = InSteps(steps(), size=MOST_HELD_BYTES)
    setting.ask(METADATA, 2)
    assert (begun, setting.out.answered) == ([True], [2])


def test_a_crowd_of_connections_is_answered_in_turns() -> None:
    """PR8, M6: hundreds that ask at once for what takes a millisecond; who comes in the next turn does not wait for all of them."""
    turns = Turns()
    crowd = [Setting(turns=turns) for _ in range(20)]
    for each in crowd:
        each.ask(METADATA, 1)
    answered = [each.out.answered for each in crowd]
    assert answered == [[1]] * 5 + [[]] * 15
    assert [each.is_held() for each in crowd] == [False] * 5 + [True] * 15
    turns.turn()
    late = Setting(turns=turns)
    late.ask(METADATA, 1)
    assert (late.out.answered, crowd[-1].out.answered) == ([1], [])
    turns.run()
    assert [each.out.answered for each in crowd] == [[1]] * 20
    assert not any(each.is_held() for each in crowd)


def test_who_names_what_it_wants_does_not_wait_for_a_crowd_that_asks_for_all() -> None:
    """PR8, M6: of the same API, in the same turn, and last: it is among the first two that are begun in the next turn."""
    turns = Turns()
    crowd = [Setting(turns=turns) for _ in range(20)]
    for each in crowd:
        each.ask(METADATA, 1, encode(MetadataRequest(topics=None), 12))
    other = Setting(turns=turns)
    other.ask(METADATA, 1, encode(MetadataRequest(topics=(MetadataRequestTopic(name="t"),)), 12))
    assert other.out.answered == []
    turns.turn()
    assert (other.out.answered, crowd[-1].out.answered) == ([1], [])


def test_a_forwarded_request_that_waits_for_its_turn_is_not_overtaken() -> None:
    """KIP-590: those of a broker are decided in their order, though the next is begun before the answer to the first."""
    turns = Turns()
    setting = Setting(turns=turns)
    body = encode(EnvelopeRequest(request_data=b"", request_principal=None, client_host_address=bytes(4)), 0)
    held = []
    for is_crowded in (False, True):
        if is_crowded:
            turns.work.spent(1.0)
        setting.now = Deferred()
        setting.connection.frame(memoryview(header(ENVELOPE, 0, 1) + body))
        held.append(setting.is_held())
    assert held == [False, True]


def described(count: int, *, turns: Turns, of_bytes: int) -> Setting:
    """So many groups, asked for by a request of less than a kilobyte; each answer has so many bytes."""
    setting = Setting(turns=turns)
    group = DescribedGroup(group_id="g", protocol_data="x" * of_bytes)
    setting.now = Reply(DescribeGroupsResponse(groups=(group,)))
    data = request_frame(DescribeGroupsRequest(groups=("g",) * count), 0)
    setting.connection.frame(memoryview(data)[4:])
    return setting


def test_a_short_request_that_names_much_is_answered_in_steps() -> None:
    """PR8, M6: 16 KB name thousands of things, each of which may take a millisecond."""
    turns = Turns()
    setting = described(100, turns=turns, of_bytes=1)
    assert setting.out.answered == []
    taken = 0
    while turns.due:
        turns.turn()
        taken += 1
    assert (len(setting.out.pieces), setting.out.answered[0], taken > 50) == (2, 1, True)


def test_an_answer_that_is_much_longer_than_any_is_not_made() -> None:
    """PR8, M2: the same group again and again, whose members said much of themselves."""
    turns = Turns()
    setting = described(MOST_ANSWER_BYTES // 30_000 + 2, turns=turns, of_bytes=30_000)
    turns.run()
    assert [reason.partition(" has")[0] for reason in setting.out.closed] == ["the answer to describe_groups"]
    assert turns.work.unread.bytes == 0


def test_a_huge_request_is_copied_in_another_turn_than_its_last_bytes() -> None:
    """M6: 32 MB take tens of milliseconds, and so do they when their buffer grew for the last time."""
    turns = Turns()
    setting = Setting(turns=turns)
    names = tuple(f"a-group-with-a-name-of-forty-bytes-{number:06d}" for number in range(50_000))
    data = memoryview(request_frame(DescribeGroupsRequest(groups=names), 0))[4:]
    tracemalloc.start()
    setting.connection.frame(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(data) > 2 << 20, most < 100_000, setting.out.kept) == (True, True, 1)
    setting.now = Reply(DescribeGroupsResponse())
    turns.run()
    assert (len(setting.out.pieces), setting.out.closed) == (2, [])


def test_an_answer_with_one_long_value_is_made_of_short_pieces() -> None:
    """M6: a copy of all of it would be a turn of tens of milliseconds."""
    turns = Turns()
    setting = Setting(turns=turns)
    setting.now = Reply(
        DescribeGroupsResponse(
            groups=(DescribedGroup(members=(DescribedGroupMember(member_assignment=bytes(5 << 20)),)),)
        )
    )
    setting.connection.frame(memoryview(request_frame(DescribeGroupsRequest(groups=("g",)), 0))[4:])
    turns.run()
    sizes = [len(piece) for piece in setting.out.pieces]
    assert (sum(sizes) > 5 << 20, max(sizes) < 2 << 20, turns.work.unread.bytes > 5 << 20) == (True, True, True)


def test_an_answer_of_too_many_parts_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """PR8, M2: parts take memory before they are bytes."""
    monkeypatch.setattr("headrace.rpc.splitting.MOST_ANSWER_PARTS", 50)
    turns = Turns()
    setting = described(60, turns=turns, of_bytes=1)
    turns.run()
    assert setting.out.closed == ["an answer of more than 50 parts to one request"]
