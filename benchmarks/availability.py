"""How long does a partition take no record when its leader goes, ours and Apache Kafka's? Three nodes, each broker and controller.

``python -m benchmarks.availability [--rounds 5] [--only headrace] [--events kill,stop]``. A producer of another maker (librdkafka, idempotent,
acks=all) sends a record every 5 ms to one partition with three replicas. Then its leader is

    kill        killed (SIGKILL), while another node is the active controller
    kill-both   killed, being the active controller too
    stop        stopped cleanly (SIGTERM)
    pause       paused (SIGSTOP) until another leads; an idempotent producer waits for the answers of the one that sleeps before it goes on

and the longest time between two acknowledgements is taken. Afterwards everything is read: what was acknowledged must be there, once. Two clients are
measured: `default` has librdkafka's own settings, `eager` shorter back-offs. Besides:

    short-pause each node in turn is paused for 80 % of the session timeout: leaders that change
    busy        all cores are kept busy for a while: leaders that change
    rolling     each node in turn is stopped cleanly and started again, when all replicas are in sync: errors that default clients saw, of librdkafka and of
                Apache Kafka's own (Java), and the longest time without an acknowledgement
    many        2,000 partitions are led by a broker that is stopped: how long until none of them is

The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

import headrace
from benchmarks.availability_load import JavaClients, Load, Reader
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.peers import kafka
from tests.peers.quorum import MixedCluster
from tests.support.copies import create, in_sync, leader, partitions
from tests.support.roles import until

RESULTS: Final = Path(__file__).parent / "results"
NODES: Final = (1, 2, 3)
GAPS: Final = ("kill", "kill-both", "stop", "pause")
OTHERS: Final = ("short-pause", "busy", "rolling", "many")
SESSION_MS: Final = 9_000
MANY: Final = 2_000
SETTINGS: Final = {"offsets.topic.replication.factor": "3", "offsets.topic.num.partitions": "3"}
_STEADY_S: Final = 2.0
_BUSY_S: Final = 25.0
_BURNERS: Final = 4
_BURN = "while True: pass"


def cluster_of(name: str) -> Cluster:
    """Three nodes of one maker."""
    kafkas = NODES if name == "kafka" else ()
    return MixedCluster(kafkas=kafkas, quick=False, controllers=len(NODES), combined=True, properties=SETTINGS)


def gap(cluster: Cluster, event: str, client: str, number: int) -> dict[str, float]:
    """Strike the leader of a new topic's partition once; milliseconds without an acknowledgement, and what was lost or came twice."""
    topic = f"gap-{event}-{client}-{number}"
    create(cluster, topic, [_replicas(cluster, event)], min_insync_replicas="2")
    in_sync(cluster, topic)
    with Load(cluster.bootstrap_servers, topic, client) as load:
        time.sleep(_STEADY_S)
        victim = leader(cluster, topic)
        began = time.monotonic()
        _strike(victim, event)
        if event == "pause":
            until(lambda: _leads(cluster, topic, victim))
            victim.resume()
        load.wait_for_acknowledgements(since=began, leader_changed=lambda: _leads(cluster, topic, victim))
        time.sleep(_STEADY_S)
        found = load.longest_gap_ms(since=began - 0.5)
        _undo(cluster, victim, event)
        in_sync(cluster, topic)
    lost, repeated = load.verdict()
    return {"ms": found, "lost": lost, "repeated": repeated}


def _replicas(cluster: Cluster, event: str) -> tuple[int, ...]:
    """The first is the leader: the active controller for `kill-both`, another one otherwise."""
    active = cluster.leader().node_id
    others = [each for each in NODES if each != active]
    return (active, *others) if event == "kill-both" else (*others, active)


def _leads(cluster: Cluster, topic: str, victim: Member) -> bool:
    for member in cluster.brokers:
        if member is victim or not member.is_running:
            continue
        known = partitions(member, topic)
        if known and known[0].leader_id not in (-1, victim.node_id):
            return True
    return False


def _strike(victim: Member, event: str) -> None:
    match event:
        case "stop":
            victim.terminate()
        case "pause":
            victim.pause()
        case _:
            victim.kill()


def _undo(cluster: Cluster, victim: Member, event: str) -> None:
    if event != "pause":
        victim.wait_until_ended()
        cluster.start(victim.node_id)


def _epochs(cluster: Cluster, topic: str) -> list[int]:
    return [each.leader_epoch for each in partitions(cluster[NODES[0]], topic)]


def changes_of_leader(cluster: Cluster, event: str) -> dict[str, float]:
    """How many leaders of three partitions changed although no node was away for as long as its session lasts."""
    topic = f"steady-{event}"
    create(cluster, topic, [(1, 2, 3), (2, 3, 1), (3, 1, 2)], min_insync_replicas="2")
    in_sync(cluster, topic)
    before = _epochs(cluster, topic)
    with Load(cluster.bootstrap_servers, topic, "default") as load:
        if event == "busy":
            burners = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(_BURNERS)]
            try:
                time.sleep(_BUSY_S)
            finally:
                for each in burners:
                    each.kill()
                    each.wait()
        else:
            for member in cluster.brokers:
                member.pause()
                time.sleep(0.8 * SESSION_MS / 1_000)
                member.resume()
                time.sleep(_STEADY_S)
    lost, repeated = load.verdict()
    after = _epochs(cluster, topic)
    changes = sum(later - earlier for earlier, later in zip(before, after, strict=True))
    return {"changes": changes, "lost": lost, "repeated": repeated}


def rolling(cluster: Cluster) -> dict[str, float]:
    """Restart all nodes under load; errors that clients with default settings were told of."""
    topic = "rolling"
    create(cluster, topic, [(1, 2, 3), (2, 3, 1), (3, 1, 2)], min_insync_replicas="2")
    in_sync(cluster, topic)
    began = time.monotonic()
    with (
        Load(cluster.bootstrap_servers, topic, "default") as load,
        Reader(cluster.bootstrap_servers, topic) as reader,
        JavaClients(cluster.bootstrap_servers, topic) as java,
    ):
        time.sleep(_STEADY_S)
        for member in cluster.brokers:
            member.terminate()
            member.wait_until_ended()
            cluster.start(member.node_id)
            in_sync(cluster, topic)
        time.sleep(_STEADY_S)
        longest_ms = load.longest_gap_ms(since=began + 1)
    for error in (*load.errors, *reader.errors, *java.errors):
        sys.stderr.write(f"    {error}\n")
    lost, repeated = load.verdict()
    return {
        "errors": len(load.errors) + len(reader.errors) + len(java.errors),
        "acknowledged to Java": java.acknowledged,
        "read by Java": java.read,
        "ms": longest_ms,
        "lost": lost,
        "repeated": repeated,
    }


def many(cluster: Cluster) -> dict[str, float]:
    """Milliseconds from SIGTERM until another broker knows that none of many partitions is led by the node that stops."""
    topic = "many"
    active = cluster.leader().node_id
    victim, other = (cluster[each] for each in NODES if each != active)
    create(cluster, topic, [(victim.node_id, other.node_id)] * MANY)
    in_sync(cluster, topic)
    began = time.monotonic()
    victim.terminate()
    until(lambda: all(each.leader_id == other.node_id for each in partitions(other, topic)))
    moved_ms = (time.monotonic() - began) * 1_000
    victim.wait_until_ended()
    ended_ms = (time.monotonic() - began) * 1_000
    cluster.start(victim.node_id)
    return {"ms": moved_ms, "ended ms": ended_ms}


def measure(name: str, events: Sequence[str], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All that was asked of one system, by event and client."""
    results: dict[str, dict[str, float]] = {}
    with cluster_of(name) as cluster:
        for event in events:
            if event in GAPS:
                rounds = options.pauses if event == "pause" else options.rounds
                for client in options.clients.split(","):
                    found = [gap(cluster, event, client, number) for number in range(rounds)]
                    if found:
                        results[f"{event} {client}"] = summary(found)
                        _say(name, f"{event} {client}", results)
            else:
                once: dict[str, Callable[[], dict[str, float]]] = {
                    "rolling": lambda: rolling(cluster),
                    "many": lambda: many(cluster),
                }
                result = once[event]() if event in once else changes_of_leader(cluster, event)
                results[event] = {key: round(value) for key, value in result.items()}
                _say(name, event, results)
    return results


def _say(name: str, what: str, results: dict[str, dict[str, float]]) -> None:
    sys.stderr.write(f"{name:9} {what:18} {results[what]}\n")


def summary(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Median, least and most, in milliseconds; what was lost or repeated in all rounds."""
    times = [each["ms"] for each in found]
    return {
        "ms": round(statistics.median(times)),
        "least": round(min(times)),
        "most": round(max(times)),
        "lost": sum(each["lost"] for each in found),
        "repeated": sum(each["repeated"] for each in found),
        "rounds": len(found),
    }


def show(results: dict[str, dict[str, dict[str, float]]]) -> None:
    """The table."""
    table = Table(title="Milliseconds without an acknowledgement: median (least to most), and counts")
    table.add_column("what happens")
    for name in results:
        table.add_column(name)
    for what in dict.fromkeys(what for found in results.values() for what in found):
        table.add_row(what, *(_cell(found.get(what)) for found in results.values()))
    Console().print(table)


def _cell(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    if "most" in found:
        told = f"{found['ms']:.0f} ({found['least']:.0f} to {found['most']:.0f})"
        return told + (
            f", {found['lost']:.0f} lost, {found['repeated']:.0f} repeated"
            if found["lost"] or found["repeated"]
            else ""
        )
    return ", ".join(f"{key} {value:.0f}" for key, value in found.items())


def write(results: dict[str, dict[str, dict[str, float]]]) -> Path:
    """The result file."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    content = {
        "headrace": headrace.__version__,
        "commit": commit.stdout.strip(),
        "kafka": kafka.VERSION,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "found": results,
    }
    path = RESULTS / f"availability-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def main(arguments: Sequence[str]) -> None:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.availability",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each event but `pause`")
    parser.add_argument("--pauses", type=int, default=2, help="rounds of `pause`")
    parser.add_argument("--events", default=",".join((*GAPS, *OTHERS)), help="apart by commas")
    parser.add_argument("--clients", default="default,eager", help="apart by commas")
    parser.add_argument("--only", choices=("headrace", "kafka"), action="append", help="one system")
    parser.add_argument("--dry", action="store_true", help="write no result file")
    options = parser.parse_args(arguments)
    events = options.events.split(",")
    if unknown := [each for each in events if each not in (*GAPS, *OTHERS)]:
        parser.error(f"{', '.join(unknown)}: an event is one of {', '.join((*GAPS, *OTHERS))}")
    results = {name: measure(name, events, options) for name in options.only or ("headrace", "kafka")}
    show(results)
    if not options.dry:
        sys.stdout.write(f"{write(results)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
