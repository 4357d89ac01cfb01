"""Do our commands work on our own node, for scripts (plain and JSON) and for a person at a terminal?"""

from __future__ import annotations

import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.blocking import BlockingClient
from headrace.testing import Node
from tests.support.commands import Done, headrace
from tests.support.peer import batch


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(in_process=True) as running:
        yield running


def run(node: Node, tool: str, *arguments: str, stdin: str | None = None) -> Done:
    done = headrace(tool, "--bootstrap-server", node.bootstrap_servers, *arguments, stdin=stdin)
    assert "Traceback" not in done.err
    return done


def as_json(node: Node, tool: str, *arguments: str) -> Any:
    done = run(node, tool, *arguments, "--json")
    assert done.code == 0, done
    return json.loads(done.out)


def test_b_t11_a_topic_lives_its_life(node: Node) -> None:
    """B-T11, S3-60, S3-61, S3-67, S3-69: create, describe, grow, configure, list, delete; what exists is not made again."""
    made = run(node, "topics", "--create", "--topic", "life", "--partitions", "2", "--config", "retention.ms=9000000")
    assert made == Done(0, "Created topic life.\n", "")
    assert run(node, "topics", "--create", "--topic", "life", "--if-not-exists") == Done(0, "", "")
    again = run(node, "topics", "--create", "--topic", "life", "--partitions", "5")
    assert (again.code, again.out) == (1, "")
    assert "Topic 'life' already exists." in again.err
    assert run(node, "topics", "--alter", "--topic", "life", "--partitions", "3") == Done(0, "", "")
    (described,) = as_json(node, "topics", "--describe", "--topic", "life")
    assert (described["partitionCount"], described["replicationFactor"]) == (3, 1)
    assert described["configs"] == {"retention.ms": "9000000", "min.insync.replicas": "1"}
    assert [part["leader"] for part in described["partitions"]] == [1, 1, 1]
    with BlockingClient(node.bootstrap_servers) as client:
        client.produce_raw("life", 2, bytes(batch(b"in the new one")))
    assert run(node, "get-offsets", "--topic-partitions", "life:2").out == "life:2:1\n"
    (by_id,) = as_json(node, "topics", "--describe", "--topic-id", described["topicId"])
    assert by_id == described
    assert "life" in as_json(node, "topics", "--list")
    assert run(node, "topics", "--delete", "--topic", "life") == Done(0, "", "")
    assert run(node, "topics", "--delete", "--topic", "life").code == 1
    assert run(node, "topics", "--delete", "--topic", "life", "--if-exists") == Done(0, "", "")


def test_b_t11_a_manual_assignment_is_followed(node: Node) -> None:
    """B-T11: `--replica-assignment`."""
    assert run(node, "topics", "--create", "--topic", "manual", "--replica-assignment", "1,1").code == 0
    (described,) = as_json(node, "topics", "--describe", "--topic", "manual")
    assert [part["replicas"] for part in described["partitions"]] == [[1], [1]]
    refused = run(node, "topics", "--create", "--topic", "manual2", "--replica-assignment", "9")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)


def test_b_t12_settings_of_topics_and_brokers_change(node: Node) -> None:
    """B-T12: topics, one broker, all brokers; what is unknown or read-only is refused and nothing is set."""
    run(node, "topics", "--create", "--topic", "settings")
    changed = run(
        node,
        "configs",
        "--alter",
        "--topic",
        "settings",
        "--add-config",
        "cleanup.policy=[compact,delete],segment.ms=9000000",
    )
    assert changed == Done(0, "Completed updating config for topic settings.\n", "")
    (entity,) = as_json(node, "configs", "--describe", "--topic", "settings")
    assert {entry["name"]: entry["value"] for entry in entity["configs"]} == {
        "cleanup.policy": "compact,delete",
        "segment.ms": "9000000",
    }
    assert run(node, "configs", "--alter", "--topic", "settings", "--add-config", "segment.ms=1,nope=2").code == 1
    assert as_json(node, "configs", "--describe", "--topic", "settings") == [entity]
    assert run(node, "configs", "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2").code == 0
    assert run(node, "configs", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=8000000").code == 0
    own, defaults = as_json(node, "configs", "--describe", "--entity-type", "brokers")
    assert [entry["value"] for entry in own["configs"]] == ["2"]
    assert [entry["value"] for entry in defaults["configs"]] == [
        "8000000",
        "1",
    ]  # and min.insync.replicas, with which a cluster begins
    assert run(node, "configs", "--alter", "--broker", "1", "--add-config", "log.dirs=/tmp").code == 1
    assert run(node, "configs", "--describe", "--user", "u").code == 1


def test_b_t12_settings_come_from_a_file(node: Node, tmp_path: Path) -> None:
    """B-T12: `--add-config-file`."""
    run(node, "topics", "--create", "--topic", "filed")
    file = tmp_path / "topic.properties"
    file.write_text("# a comment\nretention.ms = 7000000\ncleanup.policy=compact,delete\n")
    assert run(node, "configs", "--alter", "--topic", "filed", "--add-config-file", str(file)).code == 0
    (entity,) = as_json(node, "configs", "--describe", "--topic", "filed")
    assert {entry["name"]: entry["value"] for entry in entity["configs"]} == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "7000000",
    }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_b_t12_lines_come_back_as_they_went(node: Node, codec: str) -> None:
    """B-T12: console producer and consumer, with every compression."""
    lines = [f"{number}\tvälue {number}" for number in range(3_000)]
    properties = ["--reader-property", "parse.key=true", "--compression-codec", codec]
    sent = run(node, "console-producer", "--topic", f"lines-{codec}", *properties, stdin="\n".join(lines))
    assert sent == Done(0, "", "")
    read = [
        "--topic",
        f"lines-{codec}",
        "--from-beginning",
        "--max-messages",
        "3000",
        "--formatter-property",
        "print.key=true",
    ]
    done = run(node, "console-consumer", *read)
    assert done.out.splitlines() == lines
    assert done.err == "Processed a total of 3000 messages\n"
    one = run(
        node,
        "console-consumer",
        "--topic",
        f"lines-{codec}",
        "--partition",
        "0",
        "--offset",
        "2999",
        "--max-messages",
        "1",
    )
    assert one.out == "välue 2999\n"


def test_b_t12_a_pattern_reads_many_topics(node: Node) -> None:
    """B-T12: `--include`, with and without a group."""
    for name in ("many-a", "many-b", "other"):
        assert run(node, "console-producer", "--topic", name, "--sync", stdin=f"{name}\n").code == 0
    for group in ([], ["--group", "many"]):
        done = run(node, "console-consumer", "--include", "many-.*", "--from-beginning", "--max-messages", "2", *group)
        assert sorted(done.out.splitlines()) == ["many-a", "many-b"]


def test_b_t12_a_record_that_cannot_be_shown_stops_or_is_skipped(node: Node) -> None:
    """B-T12: `--skip-message-on-error`."""
    run(node, "console-producer", "--topic", "shown", stdin="12345678\nshort\n12345678\n")
    read = ["--topic", "shown", "--from-beginning", "--max-messages", "3", "--value-deserializer"]
    number = "org.apache.kafka.common.serialization.LongDeserializer"
    stopped = run(node, "console-consumer", *read, number)
    assert (stopped.code, stopped.out) == (1, "3544952156018063160\n")
    skipped = run(node, "console-consumer", *read, number, "--skip-message-on-error")
    assert (skipped.code, skipped.out) == (0, "3544952156018063160\n" * 2)


def test_b_t12_groups_are_described_reset_and_deleted(node: Node, tmp_path: Path) -> None:
    """B-T12: every strategy of `--reset-offsets`, then delete offsets and the group."""
    run(node, "topics", "--create", "--topic", "reset", "--partitions", "1")
    run(node, "console-producer", "--topic", "reset", stdin="".join(f"{number}\n" for number in range(10)))
    run(node, "console-consumer", "--topic", "reset", "--group", "resetter", "--from-beginning", "--max-messages", "4")

    def offset() -> int:
        (group,) = as_json(node, "consumer-groups", "--describe", "--group", "resetter")
        found: int = group["offsets"][0]["currentOffset"]
        return found

    def reset(*how: str) -> int:
        done = run(node, "consumer-groups", "--reset-offsets", "--group", "resetter", "--execute", *how)
        assert done.code == 0, done
        return offset()

    assert offset() == 4
    csv = tmp_path / "plan.csv"
    csv.write_text("reset,0,6\n")
    scope = ["--topic", "reset:0"]
    assert reset(*scope, "--to-earliest") == 0
    assert reset(*scope, "--to-latest") == 10
    assert reset(*scope, "--shift-by", "-3") == 7
    assert reset("--all-topics", "--shift-by", "-100") == 0
    assert reset(*scope, "--to-offset", "5") == 5
    assert reset(*scope, "--to-current") == 5
    assert reset("--from-file", str(csv)) == 6
    assert reset(*scope, "--to-datetime", "2020-01-01T00:00:00.000") == 0
    assert reset(*scope, "--by-duration", "PT0S") == 10
    exported = run(
        node,
        "consumer-groups",
        "--reset-offsets",
        "--group",
        "resetter",
        "--all-topics",
        "--to-earliest",
        "--export",
        "--dry-run",
    )
    assert exported.out == "reset,0,0\n\n"
    assert offset() == 10
    assert run(node, "consumer-groups", "--delete-offsets", "--group", "resetter", "--topic", "reset").code == 0
    assert run(node, "consumer-groups", "--delete", "--group", "resetter").code == 0
    assert run(node, "consumer-groups", "--describe", "--group", "resetter").code == 1


def test_b_t12_offsets_disks_and_deleted_records_agree(node: Node, tmp_path: Path) -> None:
    """B-T12: get-offsets, delete-records and log-dirs."""
    run(node, "topics", "--create", "--topic", "disk", "--partitions", "1")
    run(node, "console-producer", "--topic", "disk", stdin="a\nb\nc\n")
    assert run(node, "get-offsets", "--topic", "disk").out == "disk:0:3\n"
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": "disk", "partition": 0, "offset": 2}]}))
    assert as_json(node, "delete-records", "--offset-json-file", str(file)) == [
        {"topic": "disk", "partition": 0, "lowWatermark": 2}
    ]
    assert run(node, "get-offsets", "--topic", "disk", "--time", "earliest").out == "disk:0:2\n"
    found = as_json(node, "log-dirs", "--describe", "--topic-list", "disk")
    (part,) = found["brokers"][0]["logDirs"][0]["partitions"]
    assert (part["partition"], part["offsetLag"], part["size"] > 0) == ("disk-0", 0, True)


def test_b_t05_the_cluster_names_itself_and_its_nodes(node: Node) -> None:
    """B-T05, S1-74, S1-75: cluster-id, its alias and list-endpoints, through broker and controller."""
    controller = f"127.0.0.1:{node.controller_port}"
    first = headrace("cluster", "cluster-id", "-b", node.bootstrap_servers)
    assert first.out.startswith("Cluster ID: ")
    assert headrace("cluster", "id", "-C", controller).out == first.out
    (listed,) = json.loads(headrace("cluster", "list-endpoints", "-b", node.bootstrap_servers, "--json").out)
    assert (listed["id"], listed["fenced"], listed["type"]) == (1, False, "broker")
    (quorum,) = json.loads(headrace("cluster", "list-endpoints", "-C", controller, "--json").out)
    assert (quorum["id"], quorum["port"], quorum["type"]) == (1, node.controller_port, "controller")


@pytest.mark.parametrize("command", [["unregister"], ["decommission"], ["decommission", "-f"]])
def test_s1_76_an_unknown_broker_cannot_leave(node: Node, command: list[str]) -> None:
    """S1-76, S1-69: it ends with 1 and one line that names the broker; without an id, or with a word too many, it says what is missing."""
    done = headrace("cluster", *command, "-b", node.bootstrap_servers, "--id", "77")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"Broker 77 was not {command[0]}ed: it is not registered; registered are 1\n"
    for wrong in (["-b", node.bootstrap_servers], ["-i", "77", "-x"], ["-i", "x"]):
        done = headrace("cluster", *command, *wrong)
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)


def test_s1_76_only_decommission_knows_force(node: Node) -> None:
    """S1-76: `unregister` has the same options but `-f`, and each has its help."""
    assert headrace("cluster", "unregister", "-b", node.bootstrap_servers, "-i", "77", "-f").code == 1
    for word, has_force in (("unregister", False), ("decommission", True)):
        told = headrace("cluster", word, "-h")
        assert told.code == 0
        assert all(each in told.out for each in ("--bootstrap-server", "--bootstrap-controller", "--config", "--id"))
        assert ("--force" in told.out) is has_force


@pytest.mark.parametrize("more", [[], ["--force"]])
def test_the_only_broker_is_not_decommissioned(node: Node, more: list[str]) -> None:
    """S1-70, S1-71, S1-76: one line, exit code 1, by either listener; it stays registered with all that it has."""
    run(node, "topics", "--create", "--topic", "only", "--if-not-exists")
    before = run(node, "cluster", "list-endpoints", "--json").out
    for where in (["-b", node.bootstrap_servers], ["-C", f"127.0.0.1:{node.controller_port}"]):
        done = headrace("cluster", "decommission", *where, "-i", "1", *more)
        assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
        wanted = (
            "no other broker is active to take them over"
            if more
            else "there is no other live broker for the replicas of "
        )
        assert wanted in done.err
        assert "roker 1 " in done.err
    assert run(node, "cluster", "list-endpoints", "--json").out == before


def test_b_t08_features_are_described_and_moved(node: Node) -> None:
    """B-T08: describe, dry run, and what cannot be."""
    levels = {each["feature"]: each for each in as_json_features(node, "describe")}
    assert levels["metadata.version"]["finalizedVersionLevel"] == 30
    done = headrace(
        "features",
        "--bootstrap-server",
        node.bootstrap_servers,
        "downgrade",
        "--feature",
        "metadata.version=29",
        "--dry-run",
    )
    assert "metadata.version" in done.out
    refused = headrace("features", "--bootstrap-server", node.bootstrap_servers, "upgrade", "--feature", "no.such=1")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)


def as_json_features(node: Node, *arguments: str) -> Any:
    return json.loads(headrace("features", "--bootstrap-server", node.bootstrap_servers, "--json", *arguments).out)


def test_b_t12_every_advertised_api_is_usable(node: Node) -> None:
    """B-T12: broker-api-versions against our node: nothing that we could not speak ourselves."""
    (answer,) = as_json(node, "broker-api-versions")
    rows = {row["name"]: row for row in answer["apis"]}
    assert (rows["Produce"]["versions"], rows["InitProducerId"]["versions"]) == ("0 to 13", "0 to 5")
    assert all(row["usable"] is not None for row in answer["apis"] if row["versions"] != "UNSUPPORTED")


def test_perf_tests_count_every_record(node: Node) -> None:
    """B-T12: what was sent is what was acknowledged and read."""
    produce = [
        "--topic",
        "perf",
        "--num-records",
        "5000",
        "--record-size",
        "100",
        "--throughput",
        "-1",
        "--producer-props",
        "linger.ms=5",
        "acks=all",
    ]
    sent = json.loads(run(node, "producer-perf-test", *produce, "--json").out)
    assert sent["records"] == 5_000
    read = json.loads(run(node, "consumer-perf-test", "--topic", "perf", "--num-records", "5000", "--json").out)
    assert (read["records"], round(read["megabytes"] * 1024 * 1024)) == (5_000, 500_000)


def test_a_person_at_a_terminal_sees_tables(node: Node) -> None:
    """Tables with `rich` where standard output is a terminal; Kafka's plain text where it is not."""
    run(node, "topics", "--create", "--topic", "table", "--partitions", "2")
    controller, terminal = pty.openpty()
    server = ["--bootstrap-server", node.bootstrap_servers]
    commands = [
        ["topics", *server, "--describe", "--topic", "table"],
        ["configs", *server, "--describe", "--topic", "table", "--all"],
        ["get-offsets", *server, "--topic", "table"],
        ["features", *server, "describe"],
        ["groups", *server, "--list"],
        ["log-dirs", *server, "--describe", "--topic-list", "table"],
    ]
    for command in commands:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "headrace", *command],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, terminal, 1), (os.POSIX_SPAWN_DUP2, terminal, 2)],
        )
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, command
        shown = os.read(controller, 1 << 20).decode()
        assert "Traceback" not in shown
        assert "\x1b[1m" in shown, (command, shown)  # the head of a table is bold, plain text is not
    os.close(controller)
    os.close(terminal)


def test_shells_are_told_how_to_complete() -> None:
    """Completion scripts, and the answer to one question of bash."""
    for shell in ("bash", "zsh", "fish"):
        assert "headrace" in headrace("completion", shell).out
    asked = headrace(_HEADRACE_COMPLETE="bash_complete", COMP_WORDS="headrace topics --under-", COMP_CWORD="2")
    assert asked.out.split() == ["plain,--under-replicated-partitions", "plain,--under-min-isr-partitions"]


def test_topics_and_groups_are_completed_by_their_names(node: Node) -> None:
    """The cluster that the command line names is asked; internal topics are offered when they are begun, and nothing where no cluster is."""
    server = node.bootstrap_servers
    for name in ("tab-one", "tab-two"):
        assert headrace("topics", "--bootstrap-server", server, "--create", "--topic", name).code == 0
    commit = ["--group", "tab-readers", "--topic", "tab-one", "--reset-offsets", "--to-latest", "--execute"]
    assert headrace("consumer-groups", "--bootstrap-server", server, *commit).code == 0

    def offered(*words: str) -> list[str]:
        line = ["headrace", *words]
        return headrace(
            _HEADRACE_COMPLETE="bash_complete", COMP_WORDS=" ".join(line), COMP_CWORD=str(len(line) - 1)
        ).out.split()

    at = ("--bootstrap-server", server)
    assert offered("topics", *at, "--describe", "--topic", "tab-") == ["plain,tab-one", "plain,tab-two"]
    assert offered("console-producer", *at, "--topic", "__consumer") == ["plain,__consumer_offsets"]
    assert offered("consumer-groups", *at, "--describe", "--group", "tab-r") == ["plain,tab-readers"]
    assert offered("topics", "--bootstrap-server", "127.0.0.1:1", "--topic", "tab-") == []


def test_b_t01_help_lists_every_command_and_ends_well() -> None:
    """B-T01: `headrace --help`, `headrace COMMAND --help`, `--version`."""
    assert headrace("--help").code == 0
    assert headrace("--version").out.startswith("headrace ")
    for tool in ("topics", "configs", "console-consumer", "cluster", "consumer-groups", "producer-perf-test"):
        done = headrace(tool, "--help")
        assert (done.code, "Usage: headrace " + tool in done.out) == (0, True)
