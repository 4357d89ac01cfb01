"""Which messages arrive on the simulated network, and what the sender hears when they do not."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headrace.core.peers import Destination, SendFailure
from headrace.sim.clock import Schedule
from headrace.sim.links import Question
from headrace.sim.network import Network, NetworkQuality
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

THERE = Destination(2, "there", 9093)
ASK = ApiVersionsRequest(client_software_name="x", client_software_version="1")
ANSWER = ApiVersionsResponse()


class Peer:
    """A caller and a server in one."""

    def __init__(self, network: Network, node_id: int) -> None:
        self.network = network
        self.node_id = node_id
        self.run = 1
        self.is_up = True
        self.is_dark = False
        self.heard_of: list[tuple[int, Any]] = []
        self.questions: list[Question] = []
        self.answers_at_once = True
        self.closed: list[int] = []

    def heard(self, correlation: int, outcome: Any, source: Any) -> None:
        """As a caller."""
        self.heard_of.append((correlation, outcome))

    def is_listening(self, port: int) -> bool:
        """As a server."""
        return port == 9093

    def asked(self, question: Question) -> None:
        """As a server."""
        self.questions.append(question)
        if self.answers_at_once:
            self.network.answer(question, ANSWER)

    def link_closed(self, port: int, number: int, run: int) -> None:
        """As a server."""
        self.closed.append(number)


class Bench:
    """Node 1 asks node 2."""

    def __init__(self, quality: NetworkQuality | None = None) -> None:
        self.schedule = Schedule()
        self.network = Network(self.schedule, random.Random(1), quality or NetworkQuality(codec_chance=0))
        self.one, self.two = Peer(self.network, 1), Peer(self.network, 2)
        self.network.add_server("there", 9093, self.two)

    def ask(self, correlation: int = 1, to: Destination = THERE, purpose: str = "x") -> None:
        """A question with a second to answer."""
        self.network.send(self.one, to, purpose, correlation, ASK, timeout_us=1_000_000)

    def run(self, ms: int = 2_000) -> list[tuple[int, Any]]:
        """Let time pass; what was heard."""
        end = self.schedule.now_us + ms * 1_000
        while self.schedule.run_before(end):
            pass
        return self.one.heard_of


def test_an_answer_comes_back_once() -> None:
    """One outcome a question."""
    bench = Bench()
    bench.ask()
    assert bench.run() == [(1, ANSWER)]


def test_messages_of_one_connection_keep_their_order() -> None:
    """B-R28: and a request waits until the one before is answered."""
    bench = Bench()
    for number in range(1, 30):
        bench.ask(number)
    bench.run()
    assert [each.correlation for each in bench.two.questions] == list(range(1, 30))
    assert [number for number, _ in bench.one.heard_of] == list(range(1, 30))


def test_a_living_host_refuses_and_a_dark_one_is_silent() -> None:
    """B-R28: what tells a dead process from a dead host."""
    bench = Bench()
    bench.two.is_up = False
    bench.ask(1)
    assert bench.run() == [(1, SendFailure.REFUSED)]
    bench.two.is_dark = True
    bench.ask(2, purpose="y")
    assert bench.run()[1:] == [(2, SendFailure.TIMED_OUT)]


def test_an_unknown_name_is_no_refusal() -> None:
    """fault:S34."""
    bench = Bench()
    bench.ask(1, Destination(-1, "nowhere", 1))
    assert bench.run() == [(1, SendFailure.DISCONNECTED)]


@pytest.mark.parametrize(("cut", "was_asked"), [((1, 2), 0), ((2, 1), 1)])
def test_a_cut_is_one_way(cut: tuple[int, int], was_asked: int) -> None:
    """fault:S26: requests arrive and answers do not, or the other way round."""
    bench = Bench()
    bench.ask(1)
    bench.run()
    bench.network.cut(*cut)
    bench.ask(2)
    assert bench.run()[1:] == [(2, SendFailure.TIMED_OUT)]
    assert len(bench.two.questions) - 1 == was_asked


def test_what_was_sent_into_a_cut_arrives_when_it_heals() -> None:
    """fault:S28: as TCP sends again and again."""
    bench = Bench()
    bench.ask(1)
    bench.run()
    bench.network.cut(1, 2)
    bench.ask(2)
    bench.run(300)
    bench.network.heal(1, 2)
    assert bench.run()[1:] == [(2, ANSWER)]


def test_an_answer_that_is_kept_comes_when_it_is_let_go() -> None:
    """fault:S29: on its connection, in order; other nodes' answers, and later ones, come in time."""
    bench = Bench()
    bench.network.keep_answers(2, 1)
    bench.network.keep_answers(2, 3)
    bench.ask(1)
    bench.ask(2)
    assert bench.run(500) == []
    assert len(bench.two.questions) == 2
    bench.network.let_go(2, 3)
    assert bench.run(100) == []
    bench.network.let_go(2, 1)
    bench.ask(3)
    assert bench.run(100) == [(1, ANSWER), (2, ANSWER), (3, ANSWER)]


def test_an_answer_that_is_kept_for_too_long_never_comes() -> None:
    """fault:S29: who asked has given the connection up."""
    bench = Bench()
    bench.network.keep_answers(2, 1)
    bench.ask(1)
    assert bench.run() == [(1, SendFailure.TIMED_OUT)]
    bench.network.let_go(2, 1)
    assert bench.run() == [(1, SendFailure.TIMED_OUT)]


def test_a_connection_that_dies_takes_its_questions_with_it() -> None:
    """fault:S31: the outcome is unknown to the asker; the server notices too."""
    bench = Bench()
    bench.two.answers_at_once = False
    bench.ask(1)
    bench.ask(2)
    bench.run(100)
    assert bench.network.reset_some(1.0) == 1
    assert bench.run() == [(1, SendFailure.DISCONNECTED), (2, SendFailure.DISCONNECTED)]
    assert len(bench.two.closed) == 1


def test_the_answer_of_an_earlier_process_goes_nowhere() -> None:
    """A crash throws away all unsent messages, and what comes for the dead."""
    bench = Bench()
    bench.ask(1)
    bench.run(1)
    bench.one.run = 2
    assert bench.run() == []


def test_a_repeated_request_is_asked_again_and_its_answer_goes_nowhere() -> None:
    """fault:S30."""
    bench = Bench(NetworkQuality(codec_chance=0, repeat_chance=1.0, repeat_max_us=500_000))
    bench.ask(1)
    assert bench.run() == [(1, ANSWER)]
    assert [each.link is None for each in bench.two.questions] == [False, True]


def test_what_a_version_cannot_say_is_told_to_the_sender() -> None:
    """B-R28: nothing is sent then."""
    bench = Bench()
    bench.network.newest[18] = 4
    bench.network.versions[2] = {18: 99}
    bench.ask(1)
    assert bench.run() == [(1, ANSWER)]
    assert bench.two.questions[0].api_version == 4
