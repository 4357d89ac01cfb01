"""What does the console consumer do for a group, and for a topic that is not there? Where is a group set back to? What is not there has no settings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from headrace.testing import Node
from tests.peers import kafka
from tests.support.commands import Done, headrace, refusal

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(in_process=True) as running:
        yield running


def run(node: Node, tool: str, *arguments: str, stdin: str | None = None) -> Done:
    done = headrace(tool, "--bootstrap-server", node.bootstrap_servers, *arguments, stdin=stdin)
    assert "Traceback" not in done.err
    return done


def committed(node: Node, group: str) -> int | None:
    """What the group has committed for partition 0 of its one topic."""
    done = run(node, "consumer-groups", "--describe", "--group", group, "--json")
    rows = json.loads(done.out)[0]["offsets"]
    found: int | None = rows[0]["currentOffset"] if rows else None
    return found


def read(topic: str, *more: str) -> list[str]:
    return ["--topic", topic, "--max-messages", "2", *more]


def test_a_group_that_a_property_names_commits_as_one_that_the_option_names(node: Node) -> None:
    """B-T12: as in Kafka's tool, unless `enable.auto.commit` says no."""
    assert run(node, "console-producer", "--topic", "named", stdin="a\nb\nc\n").code == 0
    for group, more in (("by-property", []), ("silent", ["--command-property", "enable.auto.commit=false"])):
        named = ["--command-property", f"group.id={group}"]
        done = run(node, "console-consumer", *read("named", "--from-beginning"), *named, *more)
        assert done.out == "a\nb\n"
    assert committed(node, "by-property") == 2
    assert committed(node, "silent") is None


def test_properties_that_contradict_the_options_are_refused(node: Node) -> None:
    """B-T12, B78: Kafka's words; nothing is read."""
    where = ["console-consumer", "--bootstrap-server", node.bootstrap_servers, "--topic", "named"]
    for more, said in (
        (["--group", "a", "--command-property", "group.id=b"], "Detected group ids: 'a', 'b'"),
        (["--partition", "0", "--command-property", "group.id=b"], "Options group and partition cannot be"),
        (["--from-beginning", "--command-property", "auto.offset.reset=latest"], "please remove one option"),
        (["--command-property", "auto.offset.reset=newest"], "auto.offset.reset=newest: must be earliest"),
        (["--group", "a", "--command-property", "enable.auto.commit=maybe"], "must be true or false"),
        (["--command-property", "isolation.level=serial"], "must be read_committed or read_uncommitted"),
    ):
        assert said in refusal(*where, *more)


def test_a_group_without_offsets_and_without_a_reset_says_so(node: Node) -> None:
    """B-T12: `auto.offset.reset=none`."""
    run(node, "topics", "--create", "--topic", "none")
    none = ["--group", "fresh", "--command-property", "auto.offset.reset=none"]
    done = run(node, "console-consumer", *read("none"), *none)
    assert (done.code, "auto.offset.reset=none" in done.err) == (1, True)


def test_who_waits_for_a_topic_reads_its_first_record(node: Node) -> None:
    """B-T12: the consumer has the topic made, as Kafka's does; so nothing is written before it looks."""
    command = [sys.executable, "-m", "headrace", "console-consumer", "--bootstrap-server", node.bootstrap_servers]
    with subprocess.Popen([*command, *read("later", "--max-messages", "1")], stdout=subprocess.PIPE) as waiting:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while "later" not in run(node, "topics", "--list").out.split():
                assert time.monotonic() < deadline
            # where it begins is the end of the topic at a moment that nobody else knows: write until it is behind that
            while waiting.poll() is None:
                assert time.monotonic() < deadline
                assert run(node, "console-producer", "--topic", "later", stdin="hello\n").code == 0
                time.sleep(0.2)
            out, _ = waiting.communicate()
        finally:
            if waiting.poll() is None:
                waiting.send_signal(signal.SIGTERM)
    assert out == b"hello\n"


def test_no_topic_is_made_for_who_does_not_want_it(node: Node) -> None:
    """B-T12: `allow.auto.create.topics=false`, and a pattern makes none either."""
    brief = ["--timeout-ms", "200", "--command-property", "allow.auto.create.topics=false"]
    assert run(node, "console-consumer", "--topic", "never", *brief).code == 0
    assert run(node, "console-consumer", "--include", "never.*", "--timeout-ms", "200").code == 0
    assert "never" not in run(node, "topics", "--list").out.split()


@pytest.mark.parametrize(("how", "offset"), [(["--to-offset", "0"], 0), (["--shift-by", "0"], 2)], ids=str)
def test_a_group_is_set_back_to_offset_0(node: Node, how: list[str], offset: int) -> None:
    """B-T12: 0 is an offset, and a shift, as any other."""
    group = f"back-{how[0][2:]}"
    assert run(node, "console-producer", "--topic", group, stdin="a\nb\nc\n").code == 0
    run(node, "console-consumer", *read(group, "--from-beginning", "--group", group))
    scope = ["--reset-offsets", "--group", group, "--topic", group]
    done = run(node, "consumer-groups", *scope, *how, "--execute")
    assert (done.code, done.err) == (0, "")
    assert committed(node, group) == offset


def test_settings_of_what_is_not_there(node: Node) -> None:
    """B-T12: told as such, with exit code 0 and nothing in JSON; settings that the cluster does not list are shown all the same."""
    for form in (["--broker", "9"], ["--broker-logger", "9"], ["--topic", "nothing"], ["--group", "nothing"]):
        done = run(node, "configs", "--describe", *form)
        kind, name = form[0].removeprefix("--"), form[1]
        assert done == Done(0, f"The {kind} '{name}' doesn't exist and doesn't have dynamic config.\n", "")
        assert run(node, "configs", "--describe", *form, "--json").out == "[]\n"
    metrics = ["--client-metrics", "mine"]
    assert run(node, "configs", "--alter", *metrics, "--add-config", "interval.ms=1000").code == 0
    assert "interval.ms=1000" in run(node, "configs", "--describe", *metrics).out


@pytest.mark.java
def test_kafkas_consumer_goes_on_where_ours_stopped(node: Node) -> None:
    """B-T12: with the group in a property on both sides."""
    assert run(node, "console-producer", "--topic", "handed", stdin="a\nb\nc\nd\n").code == 0
    named = ["--from-beginning", "--command-property", "group.id=handed"]
    assert run(node, "console-consumer", *read("handed"), *named).out == "a\nb\n"
    server = ["--bootstrap-server", node.bootstrap_servers]
    theirs = kafka.run_tool("kafka-console-consumer", *server, *read("handed"), *named)
    assert theirs.stdout == "c\nd\n", theirs.stderr
    assert committed(node, "handed") == 4
