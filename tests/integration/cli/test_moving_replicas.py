"""Do our commands for placement tell and do what Kafka's own tools do, on three brokers while replicas move and brokers are away?"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers import kafka
from tests.support.commands import Done, headrace
from tests.support.copies import partitions
from tests.support.peer import batch
from tests.support.roles import until

pytestmark = pytest.mark.java

SLOW = ["--throttle", "1000"]
PROPERTIES = {
    "replica.fetch.max.bytes": "100000",
    "replica.fetch.wait.max.ms": "100",
    "broker.session.timeout.ms": "60000",
    "offsets.topic.replication.factor": "1",
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=1, brokers=3, properties=PROPERTIES) as running:
        yield running


def run(cluster: Cluster, tool: str, *arguments: str) -> Done:
    done = headrace(tool, "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    assert "Traceback" not in done.err
    return done


def ours(cluster: Cluster, tool: str, *arguments: str) -> tuple[int, str]:
    done = run(cluster, tool, *arguments)
    return done.code, done.out


def theirs(cluster: Cluster, tool: str, *arguments: str) -> tuple[int, str]:
    done = kafka.run_tool(f"kafka-{tool}", "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    return done.returncode, done.stdout


def same(cluster: Cluster, tool: str, *arguments: str) -> str:
    """Both tools print the same and end the same; what they print."""
    code, said = ours(cluster, tool, *arguments)
    assert (code, said) == theirs(cluster, tool, *arguments)
    return said


def write(path: Path, **document: Any) -> str:
    path.write_text(json.dumps(document))
    return str(path)


def plan(path: Path, topic: str, *replicas: tuple[int, ...]) -> list[str]:
    """The options with a file that wants these replicas of a topic's partitions."""
    rows = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(replicas)]
    return ["--reassignment-json-file", write(path, version=1, partitions=rows)]


def create(cluster: Cluster, topic: str, assignment: str, *more: str) -> None:
    made = run(cluster, "topics", "--create", "--topic", topic, "--replica-assignment", assignment, *more)
    assert made.code == 0, made


def fill(cluster: Cluster, broker_id: int, topic: str, count: int) -> None:
    data = PartitionProduceData(index=0, records=bytes(batch(b"x" * 50_000)))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
    )
    member = cluster[broker_id]
    for _ in range(count):
        answer = ask(member.place.host, member.port, request, 9, timeout_s=40)
        assert answer.responses[0].partition_responses[0].error_code == 0


def replicas_of(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [tuple(each.replica_nodes) for each in partitions(cluster[101], topic)]


def test_s3_76_a_reassignment_is_begun_told_and_cancelled_as_by_kafkas_tool(cluster: Cluster, tmp_path: Path) -> None:
    """S3-76, S3-100, S3-101, B-T12, B-T14: each action of kafka-reassign-partitions on the same state, while replicas are copied slowly."""
    create(cluster, "moves", "101:102")
    fill(cluster, 101, "moves", 30)
    file = plan(tmp_path / "plan.json", "moves", (101, 103))
    tool = "reassign-partitions"
    assert same(cluster, tool, "--list") == "No partition reassignments found.\n"
    assert "rather than 101,103" in same(cluster, tool, "--verify", *file)
    begun = run(cluster, tool, "--execute", *file, *SLOW)
    assert (begun.code, begun.err) == (0, "")
    assert same(cluster, tool, "--list") == (
        "Current partition reassignments:\nmoves-0: replicas: 101,103,102. adding: 103. removing: 102.\n"
    )
    assert "Reassignment of partition moves-0 is still in progress." in same(cluster, tool, "--verify", *file)
    assert run(cluster, tool, "--verify", *file).err == "moves-0 waits for 103: not in sync yet\n"
    late = run(cluster, tool, "--verify", *file, "--wait-ms", "300")
    assert (late.code, late.out) == (1, "")
    assert "partition reassignment: not done after 300 ms: moves-0 waits for 103: not in sync yet" in late.err
    refused = run(cluster, tool, "--execute", *file)
    code, said = theirs(cluster, tool, "--execute", *file)
    assert (refused.code, code) == (1, 1)
    assert refused.err == " ".join(said.split()) + "\n"
    more = plan(tmp_path / "more.json", "moves", (103, 101))
    code, said = theirs(cluster, tool, "--execute", "--additional", *more, *SLOW)
    again = run(cluster, tool, "--execute", "--additional", *more, *SLOW)
    assert code == again.code == 0
    assert [line for line in again.out.splitlines() if "{" not in line] == [
        line for line in said.splitlines() if "{" not in line
    ]
    cancelled = ours(cluster, tool, "--cancel", *file)
    assert replicas_of(cluster, "moves") == [(101, 102)]
    assert run(cluster, tool, "--execute", *file, *SLOW).out == begun.out
    assert cancelled == theirs(cluster, tool, "--cancel", *file)
    assert "Successfully cancelled partition reassignment for: moves-0" in cancelled[1]
    assert "None of the specified partition reassignments are active." in same(cluster, tool, "--cancel", *file)
    whole = run(cluster, tool, "--execute", *file, "--wait-ms", "60000")
    assert (whole.code, replicas_of(cluster, "moves")) == (0, [(101, 103)])
    assert not list((cluster[102].data).glob("moves-0"))
    code, said = theirs(cluster, tool, "--execute", *file)
    assert (code, run(cluster, tool, "--execute", *file).out) == (0, said)
    assert "Reassignment of partition moves-0 is completed." in same(cluster, tool, "--verify", *file)


def test_s3_76_a_proposal_has_kafkas_form(cluster: Cluster, tmp_path: Path) -> None:
    """S3-76: --generate; where replicas go is drawn, and spread over the brokers of the list."""
    create(cluster, "shape", "101:102,102:103,103:101")
    topics = ["--topics-to-move-json-file", write(tmp_path / "t.json", version=1, topics=[{"topic": "shape"}])]
    arguments = ["--generate", *topics, "--broker-list", "102,103"]
    mine = run(cluster, "reassign-partitions", *arguments)
    code, said = theirs(cluster, "reassign-partitions", *arguments)
    assert (mine.code, mine.out.splitlines()[:4]) == (code, said.splitlines()[:4])
    proposed = [json.loads(text.splitlines()[-1]) for text in (mine.out, said)]
    for document in proposed:
        assert [(each["topic"], each["partition"]) for each in document["partitions"]] == [
            ("shape", n) for n in range(3)
        ]
        assert all(sorted(each["replicas"]) == [102, 103] for each in document["partitions"])
        assert all(each["log_dirs"] == ["any", "any"] for each in document["partitions"])
    assert list(proposed[0]) == list(proposed[1])


def test_s3_76_files_that_kafkas_tool_refuses(cluster: Cluster, tmp_path: Path) -> None:
    """S3-76, B78: the same words, in one line."""
    row = {"topic": "shape", "partition": 0, "replicas": [101]}
    for rows in (
        [],
        [row, row],
        [row | {"replicas": []}],
        [row | {"replicas": [101, 101]}],
        [row | {"replicas": [9]}],
        [row | {"topic": "nothing-here"}],
        [row | {"partition": 77}],
        [row | {"log_dirs": ["any", "any"]}],
    ):
        file = ["--reassignment-json-file", write(tmp_path / "bad.json", version=1, partitions=rows)]
        mine = run(cluster, "reassign-partitions", "--execute", *file)
        code, said = theirs(cluster, "reassign-partitions", "--execute", *file)
        assert (mine.code, code, len(mine.err.splitlines())) == (1, 1, 1)
        words = mine.err.strip().partition(": the brokers that run are")[0]  # this is ours
        assert words in " ".join(said.split()), said


def test_s3_77_elections_are_told_as_by_kafkas_tool(cluster: Cluster, tmp_path: Path) -> None:
    """S3-77: preferred and unclean, one partition, a file, all; what is not needed and what fails."""
    create(cluster, "chosen", "101:102")
    one = ["--topic", "chosen", "--partition", "0"]
    assert "Valid replica already elected for partitions chosen-0" in same(
        cluster, "leader-election", "--election-type", "preferred", *one
    )
    assert "Valid replica" in same(cluster, "leader-election", "--election-type", "UNCLEAN", *one)
    unknown = ["--election-type", "preferred", "--topic", "nothing-here", "--partition", "0"]
    assert "UnknownTopicOrPartitionException" in same(cluster, "leader-election", *unknown)
    said: list[tuple[int, str]] = []
    for turn, tool in enumerate((ours, theirs)):
        first, second = ((102, 101), (101, 102))[turn], ((101, 102), (102, 101))[turn]
        order = plan(tmp_path / "order.json", "chosen", first)
        assert run(cluster, "reassign-partitions", "--execute", *order, "--wait-ms", "30000").code == 0
        assert partitions(cluster[101], "chosen")[0].leader_id == second[0]
        file = write(tmp_path / "elect.json", partitions=[{"topic": "chosen", "partition": 0}])
        done = tool(cluster, "leader-election", "--election-type", "preferred", "--path-to-json-file", file)
        said.append(done)
        assert partitions(cluster[101], "chosen")[0].leader_id == first[0]
    assert said[0] == said[1] == (0, "Successfully completed leader election (PREFERRED) for partitions chosen-0\n")
    everywhere = ["--election-type", "preferred", "--all-topic-partitions"]
    assert run(cluster, "leader-election", *everywhere).code == 0
    assert same(cluster, "leader-election", *everywhere) == ""


def lines_of(text: str) -> list[str]:
    """Lines with settings in one order."""
    return sorted(
        re.sub(r"Configs: (\S*)", lambda found: "Configs: " + ",".join(sorted(found[1].split(","))), text).splitlines()
    )


def test_b_t11_partitions_in_trouble_are_listed_as_by_kafkas_tool(cluster: Cluster) -> None:
    """B-T11, S3-65, D-04: each filter while one broker is away, to which no new replica goes; --topic-id, --exclude-internal, --topics-with-overrides, small pages."""
    create(cluster, "low", "103:101,101:102", "--config", "min.insync.replicas=2")
    create(cluster, "alone", "103")
    cluster.stop(103)
    try:
        until(lambda: partitions(cluster[101], "alone")[0].leader_id == -1 or None)
        shown: dict[str, list[str]] = {}
        for given in (
            ["--under-replicated-partitions"],
            ["--unavailable-partitions"],
            ["--under-min-isr-partitions"],
            ["--at-min-isr-partitions"],
            ["--topics-with-overrides"],
            ["--exclude-internal"],
            ["--exclude-internal", "--partition-size-limit-per-response", "1"],
        ):
            arguments = ["--describe", "--topic", "low,alone", *given]
            done = run(cluster, "topics", *arguments)
            code, said = theirs(cluster, "topics", *arguments)
            assert (done.code, lines_of(done.out)) == (code, lines_of(said)), given
            shown[given[0]] = [line.split("\tLeader")[0].strip() for line in lines_of(done.out)]
        assert shown["--unavailable-partitions"] == ["Topic: alone\tPartition: 0"]
        assert shown["--under-min-isr-partitions"] == ["Topic: alone\tPartition: 0", "Topic: low\tPartition: 0"]
        assert shown["--at-min-isr-partitions"] == ["Topic: low\tPartition: 1"]
        made = run(cluster, "topics", "--create", "--topic", "spread", "--partitions", "6", "--replication-factor", "2")
        assert made.code == 0
        assert all(103 not in each for each in replicas_of(cluster, "spread"))
        refused = run(cluster, "topics", "--create", "--topic", "three", "--replication-factor", "3")
        assert (refused.code, "cannot be reached because only 2" in refused.err) == (1, True)
        whole = same(cluster, "topics", "--describe", "--topic", "alone")
        found = re.search(r"TopicId: (\S+)", whole)
        assert found is not None
        by_id = same(cluster, "topics", "--describe", "--topic-id", found[1])
        assert by_id == re.sub(r"Elr: [\d,]*", "Elr: N/A", whole)
    finally:
        cluster.start(103)


def test_s3_68_a_change_is_waited_for_and_brokers_that_are_late_are_named(cluster: Cluster, tmp_path: Path) -> None:
    """S3-68, S3-70, S3-72: create, alter and delete wait for every live broker; one that is paused makes it exit code 1."""
    made = run(
        cluster, "topics", "--create", "--topic", "waits", "--replica-assignment", "101:102", "--wait-ms", "30000"
    )
    assert made == Done(0, "Created topic waits.\n", "")
    assert all((cluster[each].data / "waits-0").is_dir() for each in (101, 102))
    cluster[102].pause()
    try:
        arguments = ["--alter", "--topic", "waits", "--partitions", "2", "--replica-assignment", "101:102,101:102"]
        (tmp_path / "client.properties").write_text("request.timeout.ms=1000\n")  # it may ask the paused one first
        server = f"127.0.0.1:{cluster[101].port}"
        client = ("--bootstrap-server", server, "--command-config", str(tmp_path / "client.properties"))
        late = headrace("topics", *client, *arguments, "--wait-ms", "1500")
        assert (late.code, late.out) == (1, "")
        assert re.fullmatch(r"replicas of waits: not done after 1500 ms: broker 102 does not answer(; .*)?\n", late.err)
        assert len(partitions(cluster[101], "waits")) == 2
        gone = headrace("topics", *client, "--delete", "--topic", "waits", "--wait-ms", "1500")
        assert gone.code == 1
        assert re.fullmatch(r"deletion of waits: not done after 1500 ms: broker 102 does not answer(; .*)?\n", gone.err)
    finally:
        cluster[102].resume()
    assert run(cluster, "topics", "--list", "--topic", "waits").out == ""
    until(lambda: not list(cluster[102].data.glob("waits-?")) or None)


def test_s3_73_a_dead_broker_is_not_waited_for(cluster: Cluster) -> None:
    """S3-73: deletion ends at its commit, and --wait-ms counts live brokers only."""
    create(cluster, "half", "101:102", "--wait-ms", "30000")
    cluster.stop(102)
    try:
        assert run(cluster, "topics", "--delete", "--topic", "half", "--wait-ms", "30000") == Done(0, "", "")
        assert (cluster[102].data / "half-0").is_dir()
    finally:
        cluster.start(102)
    until(lambda: not (cluster[102].data / "half-0").exists() or None)


def test_b_t14_kafkas_tool_compares_our_replicas(cluster: Cluster) -> None:
    """B-T14: kafka-replica-verification reads followers as a debugging consumer, and finds nothing; it runs until it is stopped."""
    create(cluster, "read.twice", "101:102", "--wait-ms", "30000")
    fill(cluster, 101, "read.twice", 3)
    options = ["--topics-include", "read.twice", "--time", "-2", "--report-interval-ms", "200", "--max-wait-ms", "100"]
    command = kafka.java_command(
        "org.apache.kafka.tools.ReplicaVerificationTool", "--broker-list", cluster.bootstrap_servers, *options
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
        try:
            assert tool.stdout is not None
            lines = [next(tool.stdout) for _ in range(2)]
            while "max lag is 0" not in lines[-1]:
                lines.append(next(tool.stdout))
                assert len(lines) < 300
        finally:
            tool.kill()
    assert "verification process is started" in lines[0]
    assert all("max lag is" in line for line in lines[1:])
    assert "for partition read.twice-0 at offset 3 among 1 partitions" in lines[-1]
