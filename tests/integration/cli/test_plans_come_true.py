"""Does a cluster of real nodes do what `headrace plan` foretold, and are its replicas compared?"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.blocking import BlockingClient
from headrace.records.crc import crc32c
from headrace.testing.cluster import Cluster
from tests.support.commands import Done, headrace
from tests.support.copies import partitions, same_bytes
from tests.support.peer import batch
from tests.support.roles import until

BROKERS = (101, 102, 103, 104)
PROPERTIES = {"auto.leader.rebalance.enable": "false", "replica.fetch.wait.max.ms": "100"}
TOPIC, PARTITIONS = "planned", 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(controllers=1, brokers=len(BROKERS), properties=PROPERTIES) as running:
        assignment = ",".join(f"{a}:{b}" for a, b in zip(BROKERS, BROKERS[1:] + BROKERS[:1], strict=True))
        made = run(
            running, "topics", "--create", "--topic", TOPIC, "--replica-assignment", f"{assignment},101:103,102:104"
        )
        assert made.code == 0, made
        yield running


def run(cluster: Cluster, tool: str, *arguments: str) -> Done:
    done = headrace(tool, "--bootstrap-server", cluster.bootstrap_servers, *arguments)
    assert "Traceback" not in done.err
    return done


def plan(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    done = run(cluster, "plan", "--json", *arguments)
    assert done.code == 0, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def leaders(cluster: Cluster) -> dict[int, int]:
    alive = next(cluster[each] for each in BROKERS if cluster[each].is_running)
    return {each.partition_index: each.leader_id for each in partitions(alive, TOPIC)}


def expected(before: dict[int, int], foretold: dict[str, Any]) -> dict[int, int]:
    """The leaders that a plan foretells."""
    after = dict(before)
    for each in foretold["leadersMoved"]:
        number = int(each["partition"].rpartition("-")[2])
        assert before[number] == each["from"]
        after[number] = each["to"]
    return after | {int(name.rpartition("-")[2]): -1 for name in foretold["withoutLeader"]}


def write_moves(path: Path, rng: random.Random) -> dict[int, list[int]]:
    """A file that moves some partitions anywhere."""
    numbers = rng.sample(range(PARTITIONS), rng.randint(1, 4))
    targets = {number: rng.sample(BROKERS, rng.randint(1, 3)) for number in numbers}
    rows = [{"topic": TOPIC, "partition": number, "replicas": to} for number, to in targets.items()]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return targets


def in_sync(cluster: Cluster, topic: str = TOPIC) -> bool:
    return all(sorted(each.isr_nodes) == sorted(each.replica_nodes) for each in partitions(cluster[101], topic))


@pytest.mark.parametrize("seed", range(8))
def test_a_reassignment_does_what_was_foretold(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    """KIP-455: leaders, replicas and broker loads after `plan apply` are those of the plan; then the plan is out of date."""
    until(lambda: in_sync(cluster) or None)
    saved = tmp_path / "plan"
    targets = write_moves(tmp_path / "moves.json", random.Random(seed))
    before = leaders(cluster)
    foretold = plan(cluster, "--reassignment", str(tmp_path / "moves.json"), "--save", str(saved))
    applied = run(cluster, "plan", "apply", str(saved), "--wait-ms", "60000")
    assert applied.code == 0, applied
    assert applied.out.splitlines()[-1].startswith("Done: all replicas are where the plan has them"), applied
    until(lambda: in_sync(cluster) or None)
    assert leaders(cluster) == expected(before, foretold)
    now = {each.partition_index: each for each in partitions(cluster[101], TOPIC)}
    assert {number: list(now[number].replica_nodes) for number in targets} == targets
    counted = {str(each): sum(each in part.replica_nodes for part in now.values()) for each in BROKERS}
    assert {name: each["after"]["replicas"] for name, each in foretold["brokers"].items()} == counted
    again = run(cluster, "plan", "apply", str(saved))
    assert (again.code, len(again.err.splitlines())) == (1, 1)
    assert "The cluster has changed since the plan was made, make a new one: partition planned-" in again.err


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_broker_that_goes_does_what_was_foretold(cluster: Cluster, end: str) -> None:
    """C7, B-C24, S1-57: its leaderships go where the plan said."""
    until(lambda: in_sync(cluster) or None)
    broker_id = 104 if end == "kill" else 103
    before = leaders(cluster)
    foretold = plan(cluster, "--broker-gone" if end == "kill" else "--broker-stopped", str(broker_id))
    cluster.kill(broker_id) if end == "kill" else cluster.stop(broker_id)
    try:
        until(lambda: leaders(cluster) == expected(before, foretold) or None)
        until(
            lambda: (
                all(
                    broker_id not in each.isr_nodes or len(each.isr_nodes) == 1
                    for each in partitions(cluster[101], TOPIC)
                )
                or None
            )
        )
        assert leaders(cluster) == expected(before, foretold)
    finally:
        cluster.start(broker_id)


def test_replicas_that_differ_are_found(cluster: Cluster) -> None:
    """B-T12: kafka-replica-verification's lines; the same bytes are nothing to tell, a batch with another checksum and a replica that is away are."""
    assignment = ["--replica-assignment", "101:102,102:101"]
    assert run(cluster, "topics", "--create", "--topic", "compared", *assignment, "--wait-ms", "60000").code == 0
    with BlockingClient(cluster.bootstrap_servers) as client:
        for number in (0, 1, 0):
            client.produce_raw("compared", number, bytes(batch(b"as it was")))
    same_bytes(cluster, "compared")
    arguments = ["--topics-include", "compared", "--once", "--max-wait-ms", "100"]
    verification = run(cluster, "replica-verification", *arguments)
    assert (verification.code, verification.err) == (0, "")
    started, lag = verification.out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: verification process is started", started)
    assert re.search(r": max lag is 0 for partition compared-\d at offset \d among 2 partitions$", lag)
    cluster.stop(102)
    away = run(cluster, "replica-verification", *arguments)
    assert away.code == 1
    assert "partition compared-0: replica 102 cannot be read: the broker does not run" in away.out
    (segment,) = (cluster[102].data / "compared-0").glob("*.log")
    data = bytearray(segment.read_bytes().replace(b"as it was", b"as it is!"))
    at = 0
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12])
        data[at + 17 : at + 21] = crc32c(data[at + 21 : at + size]).to_bytes(4)
        at += size
    segment.write_bytes(data)
    cluster.start(102)
    until(lambda: in_sync(cluster, "compared") or None)
    wrong = run(cluster, "replica-verification", *arguments)
    assert wrong.code == 1
    assert (
        len(
            re.findall(
                r"partition compared-0 has unmatched checksum at offset [01]; replica 101's checksum \d+; replica 102's",
                wrong.out,
            )
        )
        == 2
    )
    assert "compared-1 has" not in wrong.out
    assert run(cluster, "topics", "--delete", "--topic", "compared", "--wait-ms", "60000").code == 0


def test_a_forecast_is_told_to_a_person_too(cluster: Cluster) -> None:
    """B78: through controllers that are named, and of no broker that is not there."""
    told = run(cluster, "plan", "--bootstrap-controller", cluster.bootstrap_controllers, "--broker-gone", "101")
    assert told.code == 0
    assert told.out.startswith("If broker 101 died:\n")
    assert (
        run(cluster, "plan", "--broker-gone", "9").err == "No broker 9 is registered; these are: 101, 102, 103, 104\n"
    )
