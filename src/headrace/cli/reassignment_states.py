"""How far reassignments are: told in the words of Kafka's tool, and waited for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from headrace.cli.reassignment_file import name_of
from headrace.cli.waiting import Progress, impatient, wait_for, wait_for_replicas
from headrace.client import admin_placement, admin_topics
from headrace.client.admin_placement import Replica, ReplicaDirs
from headrace.client.admin_topics import Reassignment, TopicDescription
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition

Targets = Sequence[tuple[TopicPartition, Sequence[int]]]


def print_states(client: BlockingClient, targets: Targets) -> bool:
    """Print the state of each partition; whether any reassignment goes on, of these or of others (S3-101)."""
    ongoing = client.run(admin_topics.list_reassignments)
    waiting = [where for where, _ in targets if where in ongoing]
    described = _described(client, targets)
    print("Status of partition reassignment:")
    for where, target in sorted(targets):
        topic = described.get(where.topic)
        parts = {part.partition: part for part in topic.partitions} if topic else {}
        if where in ongoing:
            print(f"Reassignment of partition {name_of(where)} is still in progress.")
            continue
        replicas = parts[where.partition].replicas if where.partition in parts else ()
        if tuple(replicas) == tuple(target):
            print(f"Reassignment of partition {name_of(where)} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {name_of(where)}, but replica set is {_comma(replicas)} "
                f"rather than {_comma(target)}."
            )
    for where in sorted(waiting):
        print(f"{name_of(where)} {_waits(ongoing[where], _isr(described, where))}", file=sys.stderr)
    return bool(ongoing)


def _described(client: BlockingClient, targets: Targets) -> dict[str, TopicDescription]:
    """The topics that exist. Raises PeerError."""
    names = sorted({where.topic for where, _ in targets})
    found: dict[str, TopicDescription] = {}
    for name, topic in client.run(admin_topics.describe_topics, names).items() if names else ():
        if isinstance(topic, TopicDescription):
            found[name] = topic
        elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise topic
    return found


def _isr(described: Mapping[str, TopicDescription], where: TopicPartition) -> tuple[int, ...]:
    topic = described.get(where.topic)
    return next((part.isr for part in topic.partitions if part.partition == where.partition), ()) if topic else ()


def _waits(move: Reassignment, isr: Sequence[int]) -> str:
    """What an unfinished reassignment waits for."""
    lagging = [each for each in move.replicas if each not in move.removing and each not in isr]
    return (
        f"waits for {_comma(lagging)}: not in sync yet"
        if lagging
        else "waits for its leader to say that all are in sync"
    )


def wait_for_moves(client: BlockingClient, targets: Mapping[TopicPartition, Sequence[int]], wait_ms: int) -> None:
    """Wait until the reassignments are over and each live broker has made or deleted its replicas. Raises OperatorError (S3-68)."""
    names: dict[str, list[int]] = {}
    for where in targets:
        names.setdefault(where.topic, []).append(where.partition)
    left_over = 0

    def look(left_ms: int) -> Progress:
        nonlocal left_over
        left_over = left_ms
        ongoing = client.run(admin_topics.list_reassignments, names)
        described = _described(client, list(targets.items())) if ongoing else {}
        left = [f"{name_of(where)} {_waits(ongoing[where], _isr(described, where))}" for where in sorted(ongoing)]
        return Progress(len(targets) - len(left), len(targets), left)

    with impatient(client, wait_ms):
        wait_for(look, wait_ms, "partition reassignment")
    wait_for_replicas(
        client,
        left_over,
        "replicas of the reassignment",
        present=targets,
        absent=lambda where, broker_id: where in targets and broker_id not in targets[where],
    )


def print_directory_states(client: BlockingClient, directories: Mapping[Replica, str]) -> bool:
    """Print where each replica is that was to move to another directory (an empty line without any); whether one is on its way."""
    places = client.run(admin_placement.replica_dirs, directories)
    ordered = sorted(places.items(), key=lambda item: (item[0].broker_id, item[0]))
    print("\n".join(_directory_state(replica, dirs, directories[replica]) for replica, dirs in ordered))
    return any(dirs.future is not None for dirs in places.values())


def _directory_state(replica: Replica, dirs: ReplicaDirs, wanted: str) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if dirs.current is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker_id}. There is likely an offline log directory on "
            "the broker."
        )
    if dirs.future is None:
        if dirs.current == wanted:
            return f"Reassignment of replica {replica} completed successfully."
        return f"{partition} on broker {replica.broker_id} is not being moved from log dir {dirs.current} to {wanted}."
    if dirs.future == wanted:
        return f"Reassignment of replica {replica} is still in progress."
    return f"{partition} on broker {replica.broker_id} is being moved to log dir {dirs.future} instead of {wanted}."


def _comma(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
