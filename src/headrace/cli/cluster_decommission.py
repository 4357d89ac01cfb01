"""What `headrace cluster decommission` does: move the broker's replicas away, wait, and retire it; or by force, and tell what was lost.

The moves are ordinary reassignments that this command orders, so that everything that shows or stops a reassignment works with them,
and so that it is safe with a Kafka cluster too, which knows nothing of our fields (decision 31).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from time import sleep
from typing import Final

from headrace.client import admin_cluster, admin_placement, admin_topics, draining
from headrace.client.blocking import BlockingClient
from headrace.client.draining import Placed, names
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.metadata.image import MetadataImage

AT_ONCE: Final = 500
"""Partitions on the move at a time: what is cut short leaves little half done."""
_ROUNDS: Final = 5
"""How often new partitions may have come to the broker while it was drained."""
_LOOK_SECONDS: Final = 0.25
_LOOKS: Final = 40
"""How often a broker is asked that may not have heard yet of what was committed."""

Lost = Mapping[str, tuple[int, ...]]
Report = Callable[[int], None]


class Cluster:
    """The partitions and live brokers of the cluster, from brokers or, bootstrapped from controllers, from its metadata log."""

    def __init__(self, client: BlockingClient, image: Callable[[], MetadataImage] | None = None) -> None:
        self.client = client
        self._image = image

    def partitions(self) -> dict[TopicPartition, Placed]:
        """All of them, as they will be when what moves has moved."""
        if self._image is not None:
            return _placed(self._image())
        found = self.client.run(draining.placements)
        for where, moving in self.client.run(admin_topics.list_reassignments).items():
            if where in found:
                rest = tuple(each for each in moving.replicas if each not in moving.removing)
                found[where] = Placed(replicas=rest, leader=found[where].leader)
        return found

    def racks(self) -> dict[int, str | None]:
        """The rack of each live broker."""
        if self._image is not None:
            brokers = self._image().cluster.brokers
            return {each: broker.rack for each, broker in sorted(brokers.items()) if broker.is_active}
        found = self.client.run(admin_cluster.describe_cluster)
        return {each.node_id: each.rack for each in found.end_points}

    def registered(self) -> list[int]:
        """The ids of all brokers in the register, fenced ones too; of Kafka's before 4.0 only the live ones."""
        if self._image is not None:
            return sorted(self._image().cluster.brokers)
        try:
            found = self.client.run(admin_cluster.describe_cluster, is_with_fenced=True)
        except PeerError:
            return sorted(self.racks())
        return sorted(each.node_id for each in found.end_points)

    def present(self) -> dict[TopicPartition, Placed]:
        """All partitions with every replica that they have now."""
        if self._image is None:
            return self.client.run(draining.placements)
        return {
            TopicPartition(topic.name, number): Placed(replicas=partition.replicas, leader=partition.leader)
            for topic in self._image().topics.by_id.values()
            for number, partition in topic.partitions.items()
        }

    def holders(self, broker_id: int) -> list[TopicPartition]:
        """The partitions that list the broker, also those that are still moving away from it."""
        return sorted(where for where, placed in self.present().items() if broker_id in placed.replicas)


def _placed(image: MetadataImage) -> dict[TopicPartition, Placed]:
    return {
        TopicPartition(topic.name, number): Placed(
            replicas=tuple(each for each in partition.replicas if each not in partition.removing_replicas),
            leader=partition.leader,
        )
        for topic in image.topics.by_id.values()
        for number, partition in topic.partitions.items()
    }


def decommission(cluster: Cluster, broker_id: int) -> int:
    """Drain the broker and retire it; how many partitions were moved. Raises OperatorError: it was left as it is, or half drained."""
    moved = 0
    for _ in range(_ROUNDS):
        moved += _drain(cluster, broker_id)
        try:
            cluster.client.run(admin_cluster.unregister_broker, broker_id, is_decommission=True)
        except PeerError as error:
            if error.code is ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS:
                continue  # a topic was created meanwhile
            if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED and moved:
                return moved  # it was unregistered before, and its replicas were still listed
            raise _refused(cluster, broker_id, error, "decommissioned") from None
        _check_gone(cluster, broker_id)
        return moved
    raise OperatorError(
        f"Broker {broker_id} is still registered: it gets new partitions faster than they can be moved away. Stop it and try again."
    )


def decommission_by_force(cluster: Cluster, broker_id: int) -> Lost:
    """Retire it at once, whatever is lost: the partitions that lost their only replica in sync. Raises OperatorError."""
    try:
        lost = cluster.client.run(admin_cluster.unregister_broker, broker_id, is_decommission=True, is_forced=True)
    except PeerError as error:
        raise _refused(cluster, broker_id, error, "decommissioned") from None
    _check_gone(cluster, broker_id)
    return lost


def unregister(cluster: Cluster, broker_id: int) -> None:
    """Take it out of the register only. Raises OperatorError whose message names the broker (S1-68, S1-69)."""
    try:
        cluster.client.run(admin_cluster.unregister_broker, broker_id)
    except PeerError as error:
        raise _refused(cluster, broker_id, error, "unregistered") from None


def found_before(cluster: Cluster, broker_id: int) -> tuple[bool, int] | None:
    """Whether a broker is live, and how many partitions list it; None where that cannot be told, which keeps nobody from unregistering it."""
    try:
        return broker_id in cluster.racks(), len(cluster.holders(broker_id))
    except (OperatorError, PeerError):
        return None


def hint_for_a_live_one(broker_id: int, again: str = "decommission") -> str:
    """What is left to do when a broker that was taken out still runs."""
    return (
        f"Broker {broker_id} still runs and registers again in a moment, as a new broker that may get new replicas: "
        f"stop it, then run `headrace cluster {again} --id {broker_id}` again."
    )


def hint_for_fewer_replicas(partitions: int) -> str:
    """What is left to do when a broker was taken out by force."""
    return (
        f"{partitions} partition(s) have one replica fewer now: give them another one by `headrace reassign-partitions` "
        "(`headrace topics --describe` shows which replicas they have)."
    )


def hint_after_unregistering(broker_id: int, is_live: bool, partitions: int) -> str:
    """What is left to do when it was unregistered only; empty for nothing."""
    listed = f"{partitions} partition(s) still list broker {broker_id}, and wait for it"
    if not partitions:
        return hint_for_a_live_one(broker_id, "unregister") if is_live else ""
    if not is_live:
        return f"{listed}: `headrace cluster decommission --id {broker_id}` moves them to others."
    return (
        f"{listed}: it still runs and registers again in a moment. `headrace cluster decommission --id {broker_id}` moves them to "
        "others; then stop it, and run that again."
    )


def refusal(
    broker_id: int, error: PeerError, what: str = "unregistered", *, known: Sequence[int] = ()
) -> OperatorError:
    """One line that names the broker (S1-76), and those that there are when it is not registered."""
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return OperatorError("The target cluster does not support the broker unregistration API.")
    if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED:
        there_are = f"; registered are {', '.join(map(str, known))}" if known else ""
        return OperatorError(f"Broker {broker_id} was not {what}: it is not registered{there_are}")
    return OperatorError(f"Broker {broker_id} was not {what}: {error}")


def _refused(cluster: Cluster, broker_id: int, error: PeerError, what: str) -> OperatorError:
    known = cluster.registered() if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED else []
    return refusal(broker_id, error, what, known=known)


def _check_gone(cluster: Cluster, broker_id: int) -> None:
    """Kafka's controllers skip our fields and unregister only."""
    left = cluster.holders(broker_id)
    for _ in range(_LOOKS):
        if not left:
            return
        sleep(_LOOK_SECONDS)
        left = cluster.holders(broker_id)
    raise OperatorError(
        f"Broker {broker_id} is no longer registered, but it is still a replica of {len(left)} partition(s), as this cluster's "
        f"controllers cannot decommission: reassign {names(left)}"
    )


def _drain(cluster: Cluster, broker_id: int) -> int:
    """Move everything away; how many partitions."""
    partitions, racks = cluster.partitions(), cluster.racks()
    plan = draining.plan_drain(partitions, racks, broker_id)
    left = f"Broker {broker_id} was left as it is"
    can_force = draining.can_be_forced(partitions, racks, broker_id)
    if plan.without_leader:
        forced = ", or use --force and lose their data" if can_force else ""
        raise OperatorError(
            f"{left}: {names(plan.without_leader)} cannot be copied, as nobody leads them. Start the brokers that have their replicas{forced}."
        )
    if plan.without_place:
        where = f"{left}: there is no other live broker for the replicas of {names(plan.without_place)}."
        if not can_force:
            raise OperatorError(f"{where} Start another broker; --force would be refused too.")
        raise OperatorError(
            f"{where} Start more brokers or lower the replication factor; --force retires it all the same."
        )
    remaining = iter(plan.targets.items())
    done = 0
    with _progress(broker_id, len(plan.targets)) as report:
        while some := dict(islice(remaining, AT_ONCE)):
            try:
                _begin(cluster, some)
                for still_moving in _moves(cluster, some):
                    report(done + len(some) - still_moving)
            except PeerError as error:
                raise OperatorError(f"Broker {broker_id} was not drained: {error}") from None
            done += len(some)
    return done


def _begin(cluster: Cluster, targets: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Order these moves. A topic that was deleted meanwhile needs none. Raises OperatorError, PeerError."""
    errors = cluster.client.run(admin_placement.alter_reassignments, targets)
    for where, error in errors.items():
        if error is not None and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise OperatorError(f"{where.topic}-{where.partition} cannot be moved: {error}")


def _moves(cluster: Cluster, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Iterator[int]:
    """How many of these still move, until none does."""
    topics: dict[str, list[int]] = {}
    for where in targets:
        topics.setdefault(where.topic, []).append(where.partition)
    while moving := cluster.client.run(admin_topics.list_reassignments, topics):
        yield len(moving)
        sleep(_LOOK_SECONDS)
    yield 0


@contextmanager
def _progress(broker_id: int, count: int) -> Iterator[Report]:
    """A bar for a person, nothing for a script."""
    if not count or not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"Moving partitions of broker {broker_id}", total=count)
        yield lambda done: bar.update(task, completed=done)
