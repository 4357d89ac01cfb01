"""Are files and options of the commands that move replicas and elect leaders read as by Kafka's tools, and waits told in time?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from headrace.cli import leader_election, reassign_partitions, waiting
from headrace.cli.reassignment_file import (
    check_executable,
    format_reassignment,
    parse_election,
    parse_reassignment,
    parse_topics,
)
from headrace.cli.reassignment_throttles import Move, planned_moves, throttled_replicas
from headrace.cli.waiting import Progress
from headrace.client.admin_placement import ElectionType, Replica
from headrace.client.admin_topics import Reassignment
from headrace.controller.placement import UsableBroker
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ROW: dict[str, Any] = {"topic": "t", "partition": 0, "replicas": [1, 2]}


def refusal(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(OperatorError) as caught:
        call(*arguments, **named)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def document(*rows: Any, **more: Any) -> str:
    return json.dumps({"version": 1, "partitions": list(rows)} | more)


def test_s3_76_a_file_is_read_and_written_in_kafkas_form() -> None:
    """S3-76: version and log_dirs may be left out; `any` names no directory."""
    plan = parse_reassignment(document(ROW | {"log_dirs": ["any", "/d"]}, ROW | {"partition": 1}))
    assert plan.targets == ((T0, (1, 2)), (T1, (1, 2)))
    assert plan.directories == {Replica("t", 0, 2): "/d"}
    assert parse_reassignment('{"partitions": []}').targets == ()
    assert format_reassignment({T1: (2,), T0: (1, 2)}, {Replica("t", 0, 2): "/d"}) == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],"log_dirs":["any","/d"]},'
        '{"topic":"t","partition":1,"replicas":[2],"log_dirs":["any"]}]}'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a valid JSON"),
        ("[" * 100_000, "not a valid JSON"),
        ("[]", "JSON object"),
        (document(ROW, version=2), "Not supported version field value 2"),
        (document(ROW, version=True), "Not supported version field value True"),
        (document("x"), "list of JSON objects"),
        (document({"partition": 0, "replicas": [1]}), '"topic"'),
        (document(ROW | {"partition": "0"}), '"partition"'),
        (document(ROW | {"partition": -1}), '"partition"'),
        (document(ROW | {"replicas": [1, True]}), "broker ids"),
        (document(ROW | {"replicas": None}), "broker ids"),
        (document(ROW | {"replicas": [2**31]}), "broker ids"),
        (document(ROW | {"log_dirs": [1, 2]}), "list of texts"),
        (document(ROW | {"log_dirs": ["any"]}), "is different from size of log dirs list [any] for partition t-0"),
    ],
)
def test_s3_76_what_is_no_reassignment_file_is_refused(text: str, said: str) -> None:
    """S3-76, B78: in one line that says what to change."""
    assert said in refusal(parse_reassignment, text)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((), "Partition reassignment list cannot be empty"),
        ((ROW | {"replicas": []},), "Partition replica list cannot be empty"),
        ((ROW, ROW), "Partition reassignment contains duplicate topic partitions: t-0"),
        (
            (ROW | {"replicas": [1, 2, 1]},),
            "Partition replica lists may not contain duplicate entries: t-0 contains multiple entries for 1",
        ),
    ],
)
def test_s3_76_what_cannot_be_executed_is_refused_before_anything_is_asked(rows: Any, said: str) -> None:
    """S3-76: Kafka's words."""
    assert refusal(check_executable, parse_reassignment(document(*rows))) == said


def test_s3_76_topics_and_elections_have_files_too() -> None:
    """S3-76, S3-77: nothing twice."""
    assert parse_topics('{"topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    assert "duplicate entries: [a]" in refusal(parse_topics, '{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    refusal(parse_topics, '{"topics": [{"topic": 1}]}')
    assert parse_election('{"partitions": [{"topic": "t", "partition": 1}]}') == [T1]
    assert "missing" in refusal(parse_election, "{}")
    assert "duplicate partitions: [t-0]" in refusal(parse_election, document(ROW, ROW))


def test_s3_76_a_throttle_names_the_replicas_that_send_and_those_that_come() -> None:
    """S3-76, KIP-73: of a partition that is on the move already, those that it had before."""
    ongoing = {T1: Reassignment(replicas=(3, 1), adding=(3,), removing=(1,))}
    moves = planned_moves(ongoing, {T0: (2, 3), T1: (4,)}, {T0: (1, 2), T1: (3, 1)})
    assert moves == {T0: Move(frozenset({1, 2}), frozenset({3})), T1: Move(frozenset({1}), frozenset({4}))}
    assert throttled_replicas(moves) == {"t": ("0:1,0:2,1:1", "0:3,1:4")}


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("generate", {"topics_to_move_json_file": "f"}, 'Missing required argument "[broker-list]"'),
        ("execute", {}, 'Missing required argument "[reassignment-json-file]"'),
        ("list", {"timeout": 1}, 'Option "[timeout]" can\'t be used with action "[list]"'),
        ("verify", {"reassignment_json_file": "f", "additional": True}, '"[additional]" can\'t be used'),
        ("execute", {"reassignment_json_file": "f", "preserve_throttles": True}, '"[preserve-throttles]" can\'t'),
        ("execute", {"reassignment_json_file": "f", "bootstrap_controller": "c"}, '"[bootstrap-controller]" can\'t'),
    ],
)
def test_s3_76_options_that_do_not_go_with_an_action_are_refused(action: str, given: dict[str, Any], said: str) -> None:
    """S3-76: Kafka's words."""
    assert said in refusal(reassign_partitions.check_options, action, {action: True} | given)


def test_s3_76_a_proposal_spreads_each_topic_over_the_brokers() -> None:
    """S3-76: as many replicas as the first partition has; racks apart."""
    current = {TopicPartition("t", number): (1, 2) for number in range(6)}
    brokers = [UsableBroker(broker_id, "ab"[broker_id % 2], is_fenced=False) for broker_id in (1, 2, 3, 4)]
    found = reassign_partitions.propose(current, brokers)
    assert set(found) == set(current)
    assert all(len({replica % 2 for replica in replicas}) == len(replicas) == 2 for replicas in found.values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "election-type"),
        ({"election_type": "other", "topic": "t", "partition": 0}, "expected preferred or unclean"),
        ({"election_type": "preferred"}, "One and only one of the following options is required"),
        (
            {"election_type": "preferred", "topic": "t", "partition": 0, "all_topic_partitions": True},
            "One and only one",
        ),
        ({"election_type": "preferred", "topic": "t"}, "Missing required option(s): partition"),
        ({"election_type": "preferred", "partition": 1, "all_topic_partitions": True}, "only allowed if topic is used"),
    ],
)
def test_s3_77_elections_need_a_kind_and_one_way_to_name_partitions(given: dict[str, Any], said: str) -> None:
    """S3-77: Kafka's words."""
    names = ("election_type", "topic", "partition", "path_to_json_file", "all_topic_partitions")
    assert said in refusal(leader_election.parse_options, dict.fromkeys(names) | given)


def test_s3_77_outcomes_are_sorted_by_what_they_mean(capsys: pytest.CaptureFixture[str]) -> None:
    """S3-77: elected, not needed (84), and not possible (80, 83), which is exit code 1."""
    results: dict[TopicPartition, PeerError | None] = {
        T0: None,
        T1: PeerError(ErrorCode.ELECTION_NOT_NEEDED, "not needed"),
        TopicPartition("t", 2): PeerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        ),
        TopicPartition("t", 3): PeerError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "none"),
    }
    assert refusal(leader_election.show, ElectionType.PREFERRED, results) == "2 replica(s) could not be elected"
    exceptions = "org.apache.kafka.common.errors."
    assert capsys.readouterr().out == (
        "Successfully completed leader election (PREFERRED) for partitions t-0\n"
        "Valid replica already elected for partitions t-1\n"
        f"Error completing leader election (PREFERRED) for partition: t-2: {exceptions}PreferredLeaderNotAvailableException: "
        "The preferred leader was not available.\n"
        f"Error completing leader election (PREFERRED) for partition: t-3: {exceptions}EligibleLeadersNotAvailableException: none\n"
    )


def test_s3_68_a_wait_ends_when_nothing_is_left_and_at_its_time() -> None:
    """S3-68: looked at once at least, and once more at the end."""
    looks: list[int] = []

    def look(left_ms: int) -> Progress:
        looks.append(left_ms)
        return Progress(len(looks), 2, ["broker 2 does not answer"] if len(looks) < 2 else [])

    waiting.wait_for(look, 60_000, "it")
    assert len(looks) == 2
    assert looks[0] <= 60_000
    late = refusal(waiting.wait_for, lambda _left_ms: Progress(0, 1, ["broker 2 does not answer"]), 0, "it")
    assert late == "it: not done after 0 ms: broker 2 does not answer"


class Terminal(io.StringIO):
    """A standard error that a person looks at."""

    def isatty(self) -> bool:
        return True


def test_s3_68_a_person_sees_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3-68: how much is done of how much, and who is missing; a text of a broker is no markup."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    looks = iter([Progress(1, 3, ["broker 2 [/]has not t-0 yet"]), Progress(3, 3, [])])
    waiting.wait_for(lambda _left_ms: next(looks), 60_000, "replicas of t")
    shown = terminal.getvalue()
    assert "replicas of t" in shown
    assert "1/3" in shown
    assert "broker 2 [/]has not t-0 yet" in shown


def test_s3_68_what_a_broker_lacks_is_said_in_a_line() -> None:
    """S3-68: replicas that it has not made, and those that it has not deleted."""
    wanted = {TopicPartition("t", number) for number in range(5)}
    lacking = list(
        waiting._missing(3, frozenset({T0, TopicPartition("x", 0)}), wanted, lambda where, _id: where.topic == "x")
    )
    assert lacking == ["broker 3 has not t-1 yet, has not t-2 yet, has not t-3 yet, still has x-0 and 1 more"]
    assert list(waiting._missing(3, None, set(), lambda _where, _id: False)) == ["broker 3 does not answer"]
    assert list(waiting._missing(3, frozenset(wanted), wanted, lambda _where, _id: False)) == []
