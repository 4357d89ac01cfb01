"""The command `headrace brokers`: the state of each broker, as the active controller has it, and what it is waited for."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from typing import Any, Final

import click

from headrace.cli.cluster import target_options
from headrace.cli.cluster_decommission import Cluster
from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import connect, read_properties
from headrace.client import admin_cluster, admin_quorum
from headrace.client.admin_quorum import QuorumInfo
from headrace.core.errors import PeerError
from headrace.core.values import value_class
from headrace.wire.messages.describe_quorum import BrokerView

WORDS: Final = ("NOT_REGISTERED", "FENCED", "UNFENCED", "CONTROLLED_SHUTDOWN")
"""Kafka's words by the number of a state (S0-28)."""
COLUMNS: Final = (
    "ID",
    "STATE",
    "EPOCH",
    "INCARNATION",
    "HEARD MS AGO",
    "METADATA LAG",
    "LEADERS",
    "REPLICAS",
    "WAITS FOR",
)


@value_class
class Broker:
    """One line; None: not known."""

    broker_id: int
    state: int
    epoch: int | None = None
    incarnation: str | None = None
    silence_ms: int | None = None
    metadata_lag: int | None = None
    leaders: int = 0
    replicas: int = 0
    waits_for_brokers: tuple[int, ...] = ()

    @property
    def word(self) -> str:
        """Kafka's word for the state."""
        return WORDS[self.state]

    @property
    def waits(self) -> str:
        """What its shutdown waits for."""
        if self.state != 3:
            return ""
        waits = [f"{self.leaders} leaderships to be moved"] if self.leaders else []
        if self.waits_for_brokers:
            waits.append(f"brokers that read of it: {', '.join(map(str, self.waits_for_brokers))}")
        return "; ".join(waits) or "its next heartbeat"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.broker_id,
            "state": self.state,
            "stateName": self.word,
            "epoch": self.epoch,
            "incarnationId": self.incarnation,
            "fenced": None if self.state == 0 else self.state == 1,
            "inControlledShutdown": None if self.state == 0 else self.state == 3,
            "heardMsAgo": self.silence_ms,
            "metadataLag": self.metadata_lag,
            "leaders": self.leaders,
            "replicas": self.replicas,
            "waitsForLeaderships": self.leaders if self.state == 3 else 0,
            "waitsForBrokers": list(self.waits_for_brokers),
        }


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show each broker's state (0 not registered, 1 fenced, 2 serving, 3 stopping), epoch, incarnation, how far it has read the "
    "metadata, what it leads and holds, and what its shutdown waits for.",
)
@target_options
@click.option("--id", "-i", "broker_id", type=int, metavar="ID", help="This broker only.")
def command(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: str | None,
    as_json: bool,
    broker_id: int | None,
) -> int:
    """Ids that are registered, that follow the metadata, or that partitions list."""
    with ExitStack() as stack:
        client = stack.enter_context(
            connect(bootstrap_server, command_config, bootstrap_controller=bootstrap_controller)
        )
        image = None
        if bootstrap_controller:
            from headrace.cli.metadata_follower import QuorumFollower

            properties = read_properties(command_config) if command_config else {}
            image = stack.enter_context(closing(QuorumFollower(bootstrap_controller, properties))).refresh
        cluster = Cluster(client, image)
        info, views = client.run(admin_quorum.describe_brokers)
        found = brokers(info, views or _of_kafka(cluster), cluster)
    if broker_id is not None:
        found = [each for each in found if each.broker_id == broker_id] or [Broker(broker_id=broker_id, state=0)]
    if as_json:
        show_json([each.as_json() for each in found])
        return 0
    rows = [_row(each) for each in found]
    if is_terminal():
        show_table("", [column.lower() for column in COLUMNS], rows, right=(0, 2, 4, 5, 6, 7))
    else:
        print("\n".join("\t".join(cells) for cells in [list(COLUMNS), *rows]))
    return 0


def _of_kafka(cluster: Cluster) -> tuple[BrokerView, ...]:
    """What a cluster of Kafka tells by itself: who is registered, and who is fenced."""
    try:
        found = cluster.client.run(admin_cluster.describe_cluster, is_with_fenced=True)
    except PeerError:  # asked of controllers, or older than KIP-1073
        return ()
    return tuple(
        BrokerView(broker_id=each.node_id, state=1 if each.is_fenced else 2, broker_epoch=-1)
        for each in found.end_points
    )


def brokers(info: QuorumInfo, views: tuple[BrokerView, ...], cluster: Cluster) -> list[Broker]:
    """What is known of each, by id."""
    placed = cluster.present().values()
    leaders = Counter(each.leader for each in placed if each.leader >= 0)
    replicas = Counter(broker_id for each in placed for broker_id in each.replicas)
    end = info.leader.log_end_offset if info.leader is not None else None
    ends = {each.replica_id: each.log_end_offset for each in (*info.voters, *info.observers)}
    observers = {each.replica_id for each in info.observers if each.replica_id >= 0}
    known = {each.broker_id: each for each in views}
    found = []
    for broker_id in sorted({*known, *observers, *replicas}):
        view, read = known.get(broker_id), ends.get(broker_id)
        found.append(
            Broker(
                broker_id=broker_id,
                state=0 if view is None else view.state,
                epoch=None if view is None or view.broker_epoch < 0 else view.broker_epoch,
                incarnation=None if view is None or view.broker_epoch < 0 else str(view.incarnation_id),
                silence_ms=None if view is None or view.silence_ms < 0 else view.silence_ms,
                metadata_lag=None if end is None or read is None else max(0, end - read),
                leaders=leaders[broker_id],
                replicas=replicas[broker_id],
                waits_for_brokers=() if view is None else tuple(view.waits_for_brokers),
            )
        )
    return found


def _row(each: Broker) -> list[str]:
    cells = (each.epoch, each.incarnation, each.silence_ms, each.metadata_lag, each.leaders, each.replicas)
    shown = ["-" if cell is None else str(cell) for cell in cells]
    return [str(each.broker_id), f"{each.state} {each.word}", *shown, each.waits or "-"]
