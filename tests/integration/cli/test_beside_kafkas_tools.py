"""Do our commands print and end as Kafka's own tools do, asked the same of the same cluster?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers import kafka
from tests.support.commands import headrace

pytestmark = pytest.mark.java

Lines = Callable[[str], object]


def exact(text: str) -> object:
    return text


def any_order(text: str) -> object:
    return sorted(text.splitlines())


def any_pairs(text: str) -> object:
    """Lines whose settings may stand in any order, and topic ids that differ from run to run."""
    return sorted(
        re.sub(r"Configs: (\S*)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text).splitlines()
    )


def numbers_gone(text: str) -> object:
    """The shape of lines whose numbers are measured."""
    return [re.sub(r"\d+(\.\d+)?", "N", line) for line in text.splitlines()]


def json_values(text: str) -> object:
    *prose, document = text.splitlines()
    found = json.loads(document)
    for broker in found["brokers"]:
        for directory in broker["logDirs"]:
            directory["partitions"].sort(key=lambda part: part["partition"])
    return prose, found


def epochs_gone(text: str) -> object:
    return re.sub(r"Epoch: \d+", "Epoch: N", text).splitlines()


@pytest.fixture(scope="module")
def kafka_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Kafka]:
    """A Kafka for this module only: whole lists are compared, and groups of other tests may end between two of them."""
    with kafka.Kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(kafka_alone: kafka.Kafka) -> str:
    """A Kafka with a topic of three partitions, a topic with settings, records, and a group that has read some."""
    server = ["--bootstrap-server", kafka_alone.bootstrap]
    for topic, *more in (("beside.a", "--partitions", "3"), ("beside.b", "--config", "retention.ms=100000000")):
        assert headrace("topics", *server, "--create", "--topic", topic, *more).code == 0
    lines = "".join(f"k{number}\tv{number}\n" for number in range(20))
    done = headrace(
        "console-producer",
        *server,
        "--topic",
        "beside.b",
        "--reader-property",
        "parse.key=true",
        "--timeout",
        "0",
        stdin=lines,
    )
    assert done.code == 0, done
    read = headrace(
        "console-consumer",
        *server,
        "--topic",
        "beside.b",
        "--group",
        "beside-g",
        "--from-beginning",
        "--max-messages",
        "7",
    )
    assert read.code == 0, read
    return kafka_alone.bootstrap


def both(cluster: str, tool: str, *arguments: str, stdin: str | None = None) -> tuple[tuple[int, str], tuple[int, str]]:
    """(exit code, standard output) of our command and of Kafka's tool."""
    ours = headrace(tool, "--bootstrap-server", cluster, *arguments, stdin=stdin)
    theirs = kafka.run_tool(f"kafka-{tool}", "--bootstrap-server", cluster, *arguments, stdin=stdin)
    assert "Traceback" not in ours.err
    return (ours.code, ours.out), (theirs.returncode, theirs.stdout)


SAME: list[tuple[str, Lines, str, list[str]]] = [
    ("B-T11", any_order, "topics", ["--list", "--exclude-internal", "--topic", "beside.*"]),
    ("B-T11", any_pairs, "topics", ["--describe", "--topic", "beside.a"]),
    ("B-T11", any_pairs, "topics", ["--describe", "--topic", "beside\\..*", "--topics-with-overrides"]),
    ("B-T11", any_pairs, "topics", ["--describe", "--topic", "beside.a", "--under-replicated-partitions"]),
    ("B-T11", any_pairs, "topics", ["--describe", "--topic", "beside.a", "--at-min-isr-partitions"]),
    ("B-T11", any_pairs, "topics", ["--describe", "--topic", "nothing-here", "--if-exists"]),
    ("B-T11", exact, "topics", ["--create", "--topic", "beside.a", "--if-not-exists"]),
    ("B-T12", exact, "configs", ["--describe", "--topic", "beside.b"]),
    ("B-T12", exact, "configs", ["--describe", "--entity-type", "topics", "--entity-name", "beside.b", "--all"]),
    ("B-T12", exact, "configs", ["--describe", "--broker-defaults"]),
    ("B-T12", exact, "configs", ["--describe", "--topic", "nothing-here"]),
    ("B-T12", exact, "configs", ["--describe", "--broker", "9"]),
    ("B-T12", exact, "configs", ["--describe", "--client-metrics", "nothing-here"]),
    ("B-T12", exact, "configs", ["--describe", "--group", "nothing-here"]),
    ("B-T12", exact, "configs", ["--alter", "--topic", "beside.b", "--add-config", "cleanup.policy=[compact,delete],segment.ms=9000000"]),
    ("B-T12", exact, "configs", ["--alter", "--topic", "beside.b", "--delete-config", "segment.ms,cleanup.policy"]),
    ("B-T12", any_order, "get-offsets", ["--topic", "beside.*"]),
    ("B-T12", any_order, "get-offsets", ["--topic-partitions", "beside.a:1-,beside.b:0", "--time", "earliest"]),
    ("B-T12", any_order, "get-offsets", ["--topic", "beside.b", "--time", "-3"]),
    ("B-T12", json_values, "log-dirs", ["--describe", "--topic-list", "beside.a,beside.b"]),
    ("B-T12", exact, "broker-api-versions", []),
    ("B-T12", exact, "consumer-groups", ["--describe", "--group", "beside-g"]),
    ("B-T12", exact, "consumer-groups", ["--describe", "--group", "beside-g", "--verbose"]),
    ("B-T12", exact, "consumer-groups", ["--describe", "--group", "beside-g", "--state"]),
    ("B-T12", exact, "consumer-groups", ["--describe", "--group", "beside-g", "--state", "--verbose"]),
    ("B-T12", exact, "consumer-groups", ["--describe", "--group", "beside-g", "--members", "--verbose"]),
    ("B-T12", exact, "consumer-groups", ["--reset-offsets", "--group", "beside-g", "--topic", "beside.b", "--to-earliest", "--dry-run"]),
    ("B-T12", exact, "consumer-groups", ["--reset-offsets", "--group", "beside-g", "--topic", "beside.b:0", "--to-offset", "99", "--dry-run"]),
    ("B-T12", exact, "consumer-groups", ["--reset-offsets", "--group", "beside-g", "--all-topics", "--shift-by", "-2", "--export", "--dry-run"]),
    ("B-T12", exact, "consumer-groups", ["--reset-offsets", "--group", "beside-g", "--topic", "beside.b", "--by-duration", "PT1H", "--dry-run"]),
    ("B-T12", exact, "consumer-groups", ["--reset-offsets", "--group", "beside-g", "--topic", "beside.b", "--to-offset", "0", "--dry-run"]),
    ("B-T12", exact, "consumer-groups", ["--validate-regex", "beside\\..*"]),
    ("B-T12", exact, "console-consumer", ["--topic", "beside.b", "--from-beginning", "--max-messages", "1", "--formatter-property", "print.value=false"]),
    ("B-T08", epochs_gone, "features", ["describe"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "view", "tool", "arguments"), SAME, ids=[f"{tool} {' '.join(rest)}" for _, _, tool, rest in SAME]
)
def test_output_and_exit_code_are_kafkas(
    cluster: str, source: str, view: Lines, tool: str, arguments: list[str]
) -> None:
    """B-T08, B-T11, B-T12: scripts that read Kafka's tools read ours."""
    (our_code, ours), (their_code, theirs) = both(cluster, tool, *arguments)
    assert view(ours) == view(theirs), source
    assert our_code == their_code


REFUSED: list[tuple[str, list[str], str]] = [
    ("topics", ["--create", "--topic", "beside.a"], "Topic 'beside.a' already exists."),
    ("topics", ["--describe", "--topic", "nothing-here"], "Topic 'nothing-here' does not exist as expected"),
    ("topics", ["--create", "--topic", "a b;rm"], "one or more characters other than"),
    ("topics", ["--create", "--topic", "x", "--config", "nope=1"], "Unknown topic config name: nope"),
    (
        "topics",
        ["--create", "--topic", "x", "--replication-factor", "7"],
        "Unable to replicate the partition 7 time(s)",
    ),
    ("topics", ["--alter", "--topic", "beside.a", "--partitions", "2"], "would not be an increase"),
    ("configs", ["--alter", "--topic", "beside.a", "--add-config", "nope=1"], "Unknown topic config name: nope"),
    ("get-offsets", ["--topic", "nothing-here"], "Could not match any topic-partitions with the specified filters"),
    ("log-dirs", ["--describe", "--broker-list", "9"], "The given brokers do not exist from --broker-list: 9"),
    ("features", ["upgrade", "--feature", "bogus.version=3"], "1 out of 1 operation(s) failed."),
    ("features", ["upgrade", "--release-version", "4.0-IV0", "--feature", "x=1"], "release-version"),
]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"), REFUSED, ids=[f"{tool} {' '.join(rest)}" for tool, rest, _ in REFUSED]
)
def test_what_kafka_refuses_is_refused_with_the_same_words(
    cluster: str, tool: str, arguments: list[str], said: str
) -> None:
    """B78, B-T11, B-T12: exit code 1 as Kafka's tool; the words are the cluster's; ours is one line and no stack trace."""
    ours = headrace(tool, "--bootstrap-server", cluster, *arguments)
    theirs = kafka.run_tool(f"kafka-{tool}", "--bootstrap-server", cluster, *arguments)
    assert ours.code == theirs.returncode == 1
    assert said in " ".join((theirs.stdout + theirs.stderr).split())
    assert said in ours.err
    assert len(ours.err.splitlines()) == 1


def test_s1_75_the_cluster_names_itself_to_both(kafka_alone: kafka.Kafka) -> None:
    """S1-74, S1-75, B-T05: `cluster-id` and its alias, through broker and controller, as kafka-cluster."""
    broker, controller = kafka_alone.bootstrap, f"127.0.0.1:{kafka_alone.controller_port}"
    theirs = kafka.run_tool("kafka-cluster", "cluster-id", "--bootstrap-server", broker).stdout
    for word, option, target in (
        ("cluster-id", "-b", broker),
        ("id", "--bootstrap-server", broker),
        ("id", "-C", controller),
    ):
        assert headrace("cluster", word, option, target).out == theirs == f"Cluster ID: {kafka.CLUSTER_ID}\n"
    for option, target in (("--bootstrap-server", broker), ("--bootstrap-controller", controller)):
        listed = kafka.run_tool("kafka-cluster", "list-endpoints", option, target).stdout
        assert headrace("cluster", "list-endpoints", option, target).out == listed


def test_s1_76_a_broker_that_does_not_exist_cannot_leave(kafka_alone: kafka.Kafka) -> None:
    """S1-69, S1-76: the message names the broker; exit code 1."""
    done = headrace("cluster", "unregister", "-b", kafka_alone.bootstrap, "-i", "77")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert "Broker 77" in done.err
    assert "it is not registered" in done.err
    needs_id = headrace("cluster", "unregister", "-b", kafka_alone.bootstrap)
    assert (needs_id.code, "--id" in needs_id.err) == (1, True)


def test_records_go_from_each_console_to_the_other(cluster: str) -> None:
    """B-T12: what one tool writes the other reads, byte for byte."""
    show = [f"print.{name}=true" for name in ("timestamp", "partition", "offset", "key", "headers")]
    lines = "h:1,i:\tk\tvälue\n" + "\t\t\n"
    write = [
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "parse.headers=true",
        "--reader-property",
        "ignore.error=true",
    ]
    for name in ("beside.ours", "beside.theirs"):
        produce = ["--bootstrap-server", cluster, "--topic", name, *write]
        if name == "beside.ours":
            headrace("console-producer", *produce, stdin=lines)
        else:
            kafka.run_tool("kafka-console-producer", *produce, stdin=lines)
        read = ["--topic", name, "--from-beginning", "--max-messages", "2"]
        options = [word for each in show for word in ("--formatter-property", each)]
        (our_code, ours), (their_code, theirs) = both(cluster, "console-consumer", *read, *options)
        assert ours == theirs
        assert our_code == their_code == 0
        assert ours.count("\n") == 2


def test_perf_tests_print_kafkas_lines(cluster: str) -> None:
    """B-T12: the same columns, whatever was measured."""
    produce = ["--topic", "beside.perf", "--num-records", "2000", "--record-size", "50", "--throughput", "-1"]
    (our_code, ours), (their_code, theirs) = both(cluster, "producer-perf-test", *produce)
    assert numbers_gone(ours) == numbers_gone(theirs)
    consume = ["--topic", "beside.perf", "--num-records", "4000", "--timeout", "20000"]
    (our_second, seen), (their_second, wanted) = both(cluster, "consumer-perf-test", *consume)
    assert numbers_gone(seen) == numbers_gone(wanted)
    assert [line.split(", ")[4] for line in (seen.splitlines()[1], wanted.splitlines()[1])] == ["4000", "4000"]
    assert (our_code, our_second) == (their_code, their_second) == (0, 0)


def test_records_are_deleted_up_to_the_offsets_of_a_file(cluster: str, tmp_path: Path) -> None:
    """B-T12: kafka-delete-records; one partition's error is told, and makes our exit code 1."""
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "beside.b", "partition": 0, "offset": 3}]}))
    (our_code, ours), (their_code, theirs) = both(cluster, "delete-records", "--offset-json-file", str(file))
    assert (our_code, ours) == (their_code, theirs)
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "beside.b", "partition": 0, "offset": 99}]}))
    refused = headrace("delete-records", "--bootstrap-server", cluster, "--offset-json-file", str(file))
    assert (refused.code, "error: " in refused.out) == (1, True)


def test_groups_are_listed_reset_and_deleted(cluster: str) -> None:
    """B-T12: kafka-groups and the acts of kafka-consumer-groups, each seen by the other tool."""
    server = ["--bootstrap-server", cluster]
    read = [
        "--topic",
        "beside.b",
        "--group",
        "beside-d",
        "--from-beginning",
        "--max-messages",
        "1",
        "--timeout-ms",
        "20000",
    ]
    assert kafka.run_tool("kafka-console-consumer", *server, *read).returncode == 0
    ours, theirs = headrace("groups", *server, "--list").out, kafka.run_tool("kafka-groups", *server, "--list").stdout
    assert any_order(ours) == any_order(theirs)
    reset = ["--reset-offsets", "--group", "beside-d", "--topic", "beside.b", "--to-latest", "--execute"]
    (our_code, first), (their_code, second) = both(cluster, "consumer-groups", *reset)
    assert (our_code, first) == (their_code, second)
    described = kafka.run_tool("kafka-consumer-groups", *server, "--describe", "--group", "beside-d").stdout
    assert re.search(r"beside\.b +0 +20 +20 +0 ", described)
    assert (
        "Successful"
        in headrace("consumer-groups", *server, "--delete-offsets", "--group", "beside-d", "--topic", "beside.b").out
    )
    gone = headrace("consumer-groups", *server, "--delete", "--group", "beside-d")
    assert (gone.code, gone.out) == (0, "Deletion of requested consumer groups ('beside-d') was successful.\n")
    again = headrace("consumer-groups", *server, "--delete", "--group", "beside-d")
    assert (again.code, "could not be deleted due to" in again.err) == (1, True)
