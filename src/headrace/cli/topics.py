"""The command `headrace topics`: topics, made, grown, shown and taken away."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.output import is_terminal, show_json
from headrace.cli.shell import compiled, connect, connection_options, exactly_one, json_option
from headrace.cli.topic_view import PartitionFilter, TopicSheet, collect, show, without_elr
from headrace.cli.waiting import Progress, impatient, replicas_made, wait_for, wait_for_replicas, wait_option
from headrace.client import admin_placement, admin_topics
from headrace.client.admin_topics import NewTopic, TopicDescription
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import ZERO_UUID, TopicPartition, Uuid

COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
DELETE_CONFIG_IS_GONE = (
    "delete-config option has no effect: `headrace configs --alter --delete-config` deletes settings."
)
ACTIONS = "--list, --describe, --create, --alter, --delete or --delete-partition"
_ONLY_WITH: dict[str, tuple[str, ...]] = {
    "config": ("create",),
    "partitions": ("alter", "create"),
    "replication_factor": ("create",),
    "replica_assignment": ("alter", "create"),
    "if_exists": ("alter", "delete", "describe"),
    "if_not_exists": ("create",),
    "exclude_internal": ("list", "describe"),
    "topic_id": ("describe",),
    "under_replicated_partitions": ("describe",),
    "unavailable_partitions": ("describe",),
    "under_min_isr_partitions": ("describe",),
    "at_min_isr_partitions": ("describe",),
    "topics_with_overrides": ("describe",),
    "wait_ms": ("create", "alter", "delete", "delete-partition"),
}
_FILTERS = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


class Wanted(NamedTuple):
    """The options of one call, by name."""

    action: str
    options: dict[str, Any]

    @property
    def topic(self) -> str | None:
        """The topic, or a pattern of topics."""
        found: str | None = self.options["topic"]
        return found

    def check(self) -> None:
        """Refuse options that do not go with the action or with each other. Raises OperatorError."""
        for name, actions in _ONLY_WITH.items():
            is_given = self.options[name] not in ((), None) and self.options[name] is not False
            if is_given and self.action not in actions:
                raise OperatorError(
                    f'Option "--{name.replace("_", "-")}" can only be used with {", ".join(f"--{each}" for each in actions)}'
                )
        if self.options["replica_assignment"] and self.action == "create" and self.options["partitions"] is not None:
            raise OperatorError('Option "[replica-assignment]" can\'t be used with option "[partitions]"')
        if self.options["replica_assignment"] and self.options["replication_factor"] is not None:
            raise OperatorError('Option "[replica-assignment]" can\'t be used with option "[replication-factor]"')
        chosen = [name for name in (*_FILTERS, "topics_with_overrides") if self.options[name]]
        if len(chosen) > 1:
            raise OperatorError(
                f'Option "[{chosen[0].replace("_", "-")}]" can\'t be used with option "[{chosen[1].replace("_", "-")}]"'
            )
        if self.action in ("create", "alter", "delete", "delete-partition") and not self.topic:
            raise OperatorError('Missing required argument "[topic]"')
        if self.action == "alter" and self.options["partitions"] is None:
            raise OperatorError('Missing required argument "[partitions]"')


@click.command(help="Create, delete, describe, or change topics.")
@connection_options()
@click.option("--list", "list_", is_flag=True, help="List all available topics.")
@click.option("--describe", is_flag=True, help="List details for the given topics.")
@click.option("--create", is_flag=True, help="Create a new topic.")
@click.option("--alter", is_flag=True, help="Alter the number of partitions and replica assignment.")
@click.option("--delete", is_flag=True, help="Delete topics.")
@click.option(
    "--delete-partition",
    is_flag=True,
    help="Remove the last partition of a topic, with its records; controllers must have partition.deletion.enable=true.",
)
@click.option(
    "--topic",
    metavar="TOPIC",
    shell_complete=topic_names,
    help="The topic; also a regular expression, but with --create.",
)
@click.option("--topic-id", metavar="ID", help="The id of the topic to describe.")
@click.option(
    "--config", multiple=True, metavar="NAME=VALUE", help="A setting of the topic being created; may be repeated."
)
@click.option("--delete-config", multiple=True, hidden=True)
@click.option("--partitions", type=int, metavar="N", help="Number of partitions; the cluster's default with --create.")
@click.option(
    "--replication-factor", type=int, metavar="N", help="Copies of each partition; the cluster's default if not given."
)
@click.option(
    "--replica-assignment", metavar="B:B,B:B,...", help="Brokers of each partition in turn, the leader first."
)
@click.option("--if-exists", is_flag=True, help="Do nothing for topics that do not exist (alter, delete, describe).")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic exists (create).")
@click.option("--exclude-internal", is_flag=True, help="Leave internal topics out.")
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Describe only partitions with a replica out of sync."
)
@click.option("--unavailable-partitions", is_flag=True, help="Describe only partitions without a leader.")
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="Describe only partitions with fewer in-sync replicas than their minimum.",
)
@click.option(
    "--at-min-isr-partitions",
    is_flag=True,
    help="Describe only partitions with just their minimum of in-sync replicas.",
)
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with settings of their own.")
@click.option(
    "--partition-size-limit-per-response", type=int, default=2000, show_default=True, help="Partitions in one answer."
)
@wait_option
@json_option
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Run the one action that was asked for."""
    options["list"] = options.pop("list_")
    options["delete-partition"] = options.pop("delete_partition")
    handlers = {
        "list": _list,
        "describe": _describe,
        "create": _create,
        "alter": _alter,
        "delete": _delete,
        "delete-partition": _delete_partition,
    }
    action = exactly_one({name: options[name] for name in handlers}, ACTIONS)
    wanted = Wanted(action, options)
    wanted.check()
    if options["delete_config"]:
        print(DELETE_CONFIG_IS_GONE, file=sys.stderr)
    with connect(bootstrap_server, command_config) as client:
        try:
            return handlers[action](client, wanted)
        except PeerError as error:
            raise OperatorError(f"Error while executing topic command : {error}") from None


def matching(client: BlockingClient, pattern: str | None, *, is_internal_left_out: bool = False) -> list[str]:
    """Names of the topics that match a pattern as a whole (all without one), sorted."""
    expression = compiled(pattern) if pattern else None
    every = client.run(admin_topics.list_topics)
    return sorted(
        name
        for name, is_internal in every.items()
        if (expression is None or expression.fullmatch(name)) and not (is_internal and is_internal_left_out)
    )


def _missing(wanted: Wanted) -> OperatorError:
    return OperatorError(f"Error while executing topic command : Topic '{wanted.topic}' does not exist as expected")


def _list(client: BlockingClient, wanted: Wanted) -> int:
    names = matching(client, wanted.topic, is_internal_left_out=wanted.options["exclude_internal"])
    if wanted.options["as_json"]:
        show_json(names)
    elif names:
        sys.stdout.write("\n".join(names) + "\n")
    return 0


def _create(client: BlockingClient, wanted: Wanted) -> int:
    name = wanted.topic or ""
    if "." in name or "_" in name:
        print(COLLISION_WARNING)
    assignment = parse_assignment(wanted.options["replica_assignment"])
    factor, count = wanted.options["replication_factor"], wanted.options["partitions"]
    if factor is not None and not 1 <= factor <= 32767:
        raise OperatorError(
            "Error while executing topic command : The replication factor must be between 1 and 32767 inclusive"
        )
    if count is not None and count < 1:
        raise OperatorError("Error while executing topic command : The partitions must be greater than 0")
    topic = NewTopic(
        name=name,
        partitions=-1 if count is None else count,
        replication_factor=-1 if factor is None else factor,
        assignment=assignment,
        configs=parse_configs(wanted.options["config"]),
    )
    result = client.run(admin_topics.create_topics, [topic])[name]
    if isinstance(result, PeerError):
        if result.code is ErrorCode.TOPIC_ALREADY_EXISTS and wanted.options["if_not_exists"]:
            return 0
        raise result
    _wait_for_replicas(client, wanted, [name], at_least=1 if count is None else count)
    if wanted.options["as_json"]:
        show_json({"topic": name, "topicId": str(result)})
    else:
        print(f"Created topic {name}.")
    return 0


def parse_assignment(text: str | None) -> tuple[tuple[int, ...], ...] | None:
    """`1:2,2:3` as the brokers of partitions 0 and 1. Raises OperatorError for no numbers, repeated brokers, uneven counts."""
    if not text:
        return None
    try:
        found = tuple(tuple(int(broker) for broker in part.split(":")) for part in text.split(","))
    except ValueError:
        raise OperatorError(f"--replica-assignment {text}: expected broker ids such as 1:2,2:3") from None
    for number, replicas in enumerate(found):
        if len(set(replicas)) != len(replicas):
            raise OperatorError(
                f"Partition replica lists may not contain duplicate entries: {','.join(map(str, replicas))}"
            )
        if len(replicas) != len(found[0]):
            raise OperatorError(f"Partition {number} has different replication factor: {list(replicas)}")
    return found


def parse_configs(texts: tuple[str, ...]) -> dict[str, str]:
    """`name=value` options as a mapping. Raises OperatorError."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise OperatorError('Invalid topic config: all configs to be added must be in the format "key=val".')
        found[name.strip()] = value.strip()
    return found


def _alter(client: BlockingClient, wanted: Wanted) -> int:
    names = matching(client, wanted.topic)
    if not names:
        if wanted.options["if_exists"]:
            return 0
        raise _missing(wanted)
    count = wanted.options["partitions"]
    if count < 1:
        raise OperatorError("Error while executing topic command : The partitions must be greater than 0")
    assignment = parse_assignment(wanted.options["replica_assignment"])
    given = {}
    if assignment is not None:
        described = client.run(admin_topics.describe_topics, names)
        given = {
            name: assignment[len(topic.partitions) :]
            for name, topic in described.items()
            if not isinstance(topic, PeerError)
        }
    results = client.run(admin_topics.create_partitions, dict.fromkeys(names, count), assignments=given)
    for error in results.values():
        if error is not None:
            raise error
    _wait_for_replicas(client, wanted, names, at_least=count)
    if wanted.options["as_json"]:
        show_json({"altered": names, "partitions": count})
    return 0


def _wait_for_replicas(client: BlockingClient, wanted: Wanted, names: list[str], *, at_least: int) -> None:
    """With `--wait-ms` wait until the live brokers have made the replicas of these topics (S3-68). Raises OperatorError.

    The broker that is asked may not have heard of the change yet: it must tell `at_least` so many partitions of each topic first.
    """
    wait_ms = wanted.options["wait_ms"]
    if wait_ms is None:
        return

    def look(left_ms: int) -> Progress:
        described = client.run(admin_topics.describe_topics, names)
        parts = {
            name: topic.partitions if isinstance(topic, TopicDescription) else () for name, topic in described.items()
        }
        unheard = [f"{name} has {len(found)} partitions yet" for name, found in parts.items() if len(found) < at_least]
        if unheard:
            return Progress(len(names) - len(unheard), len(names), unheard)
        present = {
            TopicPartition(name, part.partition): part.replicas for name, found in parts.items() for part in found
        }
        return replicas_made(client, left_ms, present)

    with impatient(client, wait_ms):
        wait_for(look, wait_ms, f"replicas of {', '.join(names)}")


def _delete(client: BlockingClient, wanted: Wanted) -> int:
    names = matching(client, wanted.topic)
    if not names:
        if wanted.options["if_exists"]:
            return 0
        raise _missing(wanted)
    results = client.run(admin_topics.delete_topics, names)
    for error in results.values():
        if error is not None:
            raise error
    if wanted.options["wait_ms"] is not None:
        gone = frozenset(names)
        wait_for_replicas(
            client,
            wanted.options["wait_ms"],
            f"deletion of {', '.join(names)}",
            absent=lambda where, _broker_id: where.topic in gone,
        )
    if wanted.options["as_json"]:
        show_json({"deleted": names})
    return 0


def _delete_partition(client: BlockingClient, wanted: Wanted) -> int:
    """No such thing in Kafka: a reassignment to no replicas (S3-74, S3-78)."""
    name = wanted.topic or ""
    topic = client.run(admin_topics.describe_topics, [name])[name]
    if not isinstance(topic, TopicDescription):
        raise topic
    last = TopicPartition(name, len(topic.partitions) - 1)
    error = client.run(admin_placement.alter_reassignments, {last: ()})[last]
    if error is not None:
        if error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT:
            raise OperatorError("The controllers do not allow it: set partition.deletion.enable=true there")
        raise error
    if wanted.options["wait_ms"] is not None:
        wait_for_replicas(
            client,
            wanted.options["wait_ms"],
            f"removal of {name}-{last.partition}",
            absent=lambda where, _broker_id: where == last,
        )
    if wanted.options["as_json"]:
        show_json({"topic": name, "partition": last.partition})
    else:
        print(f"Removed partition {name}-{last.partition}.")
    return 0


def _describe(client: BlockingClient, wanted: Wanted) -> int:
    sheets = _sheets(client, wanted)
    only = next((name for name in _FILTERS if wanted.options[name]), None)
    shown = PartitionFilter(only.replace("_", "-")) if only else None
    show(
        sheets,
        shown,
        is_heads_only=wanted.options["topics_with_overrides"],
        as_json=wanted.options["as_json"],
        as_table=is_terminal(),
    )
    return 0


def _sheets(client: BlockingClient, wanted: Wanted) -> list[TopicSheet]:
    """What is to be described. Raises OperatorError if a named topic does not exist."""
    limit = wanted.options["partition_size_limit_per_response"]
    if wanted.options["topic_id"]:
        try:
            topic_id = Uuid.parse(wanted.options["topic_id"])
        except ValueError as error:
            raise OperatorError(str(error)) from None
        if topic_id != ZERO_UUID:
            topic = client.run(admin_topics.describe_topic_id, topic_id)
            if isinstance(topic, PeerError):
                if wanted.options["if_exists"] and topic.code is ErrorCode.UNKNOWN_TOPIC_ID:
                    return []
                raise OperatorError(
                    f"Error while executing topic command : TopicId '{wanted.options['topic_id']}' does not exist as expected"
                )
            sheets = collect(client, [topic.name], partition_limit=limit)
            return sheets if wanted.options["as_json"] else [without_elr(sheet) for sheet in sheets]
    names = matching(client, wanted.topic, is_internal_left_out=wanted.options["exclude_internal"])
    if not names and wanted.topic and not wanted.options["if_exists"]:
        raise _missing(wanted)
    return collect(client, names, partition_limit=limit)
