"""The command `headrace reassign-partitions`: replicas moved to other brokers and directories, as Kafka's tool does it (KIP-455)."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import click

from headrace.cli.reassignment_file import (
    PlannedReplicas,
    check_executable,
    duplicates,
    format_reassignment,
    name_of,
    parse_reassignment,
    parse_topics,
)
from headrace.cli.reassignment_states import print_directory_states, print_states, wait_for_moves
from headrace.cli.reassignment_throttles import (
    clear_throttles,
    planned_moves,
    set_directory_throttle,
    set_replication_throttle,
)
from headrace.cli.shell import connect_by, connection_options, exactly_one
from headrace.cli.text_files import read_json_text
from headrace.cli.waiting import wait_option
from headrace.client import admin_cluster, admin_placement, admin_topics
from headrace.client.admin_placement import Replica
from headrace.client.admin_topics import TopicDescription
from headrace.client.blocking import BlockingClient
from headrace.controller.placement import UsableBroker, place_replicas
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

ACTIONS = "--generate, --execute, --verify, --cancel, --list"
EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition "
    "assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the "
    "current reassignment."
)
VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable_rack_aware",),
    "execute": (
        "additional",
        "throttle",
        "replica_alter_log_dirs_throttle",
        "timeout",
        "disallow_replication_factor_change",
        "wait_ms",
    ),
    "verify": ("preserve_throttles", "wait_ms"),
    "cancel": ("bootstrap_controller", "preserve_throttles", "timeout"),
    "list": ("bootstrap_controller",),
}
_ALWAYS = ("bootstrap_server", "command_config")
_RETRY_S = 0.1
_DEFAULT_TIMEOUT_MS = 10_000


class Job(NamedTuple):
    """The client and the options of one call."""

    client: BlockingClient
    options: dict[str, Any]

    @property
    def plan(self) -> PlannedReplicas:
        """What the reassignment file says. Raises OperatorError."""
        return parse_reassignment(read_json_text(self.options["reassignment_json_file"]))

    @property
    def timeout_ms(self) -> int:
        """How long moves between directories may take to begin."""
        given: int | None = self.options["timeout"]
        return _DEFAULT_TIMEOUT_MS if given is None else given


@click.command(help="Move replicas of partitions to other brokers or log directories.")
@connection_options(controller=True)
@click.option("--generate", is_flag=True, help="Propose a reassignment of whole topics; nothing is moved.")
@click.option("--execute", is_flag=True, help="Begin the reassignment of --reassignment-json-file.")
@click.option("--verify", is_flag=True, help="Tell how far it is; when it is complete, take its throttles away.")
@click.option("--cancel", is_flag=True, help="Cancel it: replicas go back to where they were.")
@click.option("--list", "list_", is_flag=True, help="List the reassignments that go on.")
@click.option(
    "--reassignment-json-file",
    metavar="FILE",
    help='{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]}]}; log_dirs may be left out.',
)
@click.option(
    "--topics-to-move-json-file", metavar="FILE", help='{"version": 1, "topics": [{"topic": "t"}]}, for --generate.'
)
@click.option("--broker-list", metavar="ID,ID,...", help="Where --generate shall place replicas.")
@click.option("--disable-rack-aware", is_flag=True, help="Place replicas without regard to racks.")
@click.option("--throttle", type=int, metavar="BYTES/S", help="Most that is moved between brokers, at least 1 KB/s.")
@click.option(
    "--replica-alter-log-dirs-throttle", type=int, metavar="BYTES/S", help="Most that is moved between directories."
)
@click.option(
    "--timeout", type=int, metavar="MS", help="How long moves between directories may take to begin.  [default: 10000]"
)
@click.option("--additional", is_flag=True, help="Begin it beside others that go on, or change its throttle.")
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@click.option(
    "--disallow-replication-factor-change",
    is_flag=True,
    help="Refuse to change how many replicas a partition has (KIP-860).",
)
@wait_option
def command(**options: Any) -> int:
    """Run the one action that was asked for."""
    options["list"] = options.pop("list_")
    action = exactly_one({name: options[name] for name in _REQUIRED}, ACTIONS)
    check_options(action, options)
    actions: dict[str, Callable[[Job], int]] = {
        "generate": _generate,
        "execute": _execute,
        "verify": _verify,
        "cancel": _cancel,
        "list": _list,
    }
    with connect_by(options) as client:
        return actions[action](Job(client, options))


def check_options(action: str, options: Mapping[str, Any]) -> None:
    """Refuse options that do not go with the action. Raises OperatorError."""
    for name in _REQUIRED[action]:
        if not options.get(name):
            raise OperatorError(f'Missing required argument "[{name.replace("_", "-")}]"')
    allowed = {action, *_REQUIRED[action], *_PERMITTED[action], *_ALWAYS}
    for name, value in options.items():
        if value is not None and value is not False and name not in allowed:
            raise OperatorError(f'Option "[{name.replace("_", "-")}]" can\'t be used with action "[{action}]"')


def _generate(job: Job) -> int:
    try:
        brokers = [int(each) for each in job.options["broker_list"].split(",")]
    except ValueError:
        raise OperatorError(f"--broker-list {job.options['broker_list']}: expected broker ids such as 0,1,2") from None
    repeated = duplicates(brokers)
    if repeated:
        raise OperatorError(f"Broker list contains duplicate entries: [{', '.join(map(str, repeated))}]")
    topics = parse_topics(read_json_text(job.options["topics_to_move_json_file"]))
    current = current_replicas(job.client, topics)
    proposed = propose(current, _usable(job, brokers))
    print(f"Current partition replica assignment\n{_with_directories(job.client, current)}\n")
    print(f"Proposed partition reassignment configuration\n{format_reassignment(proposed)}")
    return 0


def _with_directories(client: BlockingClient, current: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The file that leads back to the replicas as they are, in the directories where they are."""
    replicas = [Replica(*where, each) for where, brokers in current.items() for each in brokers]
    return format_reassignment(current, client.run(admin_placement.known_dirs, replicas))


def _usable(job: Job, brokers: Sequence[int]) -> list[UsableBroker]:
    """The brokers of the list that run, with their racks. Raises OperatorError: only some have one."""
    living = job.client.run(admin_cluster.describe_cluster).end_points  # Metadata lists a dead one for a while
    nodes = [node for node in living if node.node_id in brokers]
    away = sorted(set(brokers) - {node.node_id for node in nodes})
    if away:
        print(
            f"Not running, so nothing is proposed for them: {', '.join(map(str, away))} of --broker-list",
            file=sys.stderr,
        )
    is_aware = not job.options["disable_rack_aware"]
    without = sum(node.rack is None for node in nodes)
    if is_aware and without not in (0, len(nodes)):
        raise OperatorError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information."
        )
    return [UsableBroker(node.node_id, node.rack if is_aware else None, is_fenced=False) for node in nodes]


def propose(
    current: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[UsableBroker]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Each topic placed anew as the controller would place it, with as many replicas as its first partition has. Raises PeerError."""
    topics: dict[str, list[TopicPartition]] = {}
    for where in sorted(current):
        topics.setdefault(where.topic, []).append(where)
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for parts in topics.values():
        placed = place_replicas(
            brokers, partitions=len(parts), replication_factor=len(current[parts[0]]), rng=random.SystemRandom()
        )
        found |= dict(zip(parts, placed, strict=True))
    return found


def current_replicas(client: BlockingClient, topics: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """The replicas of every partition of these topics. Raises PeerError for a topic that does not exist."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for name, topic in client.run(admin_topics.describe_topics, topics).items():
        if not isinstance(topic, TopicDescription):
            if topic.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise OperatorError(f"Topic {name} not found.")
            raise topic
        found |= {TopicPartition(name, part.partition): part.replicas for part in topic.partitions}
    return found


def _execute(job: Job) -> int:
    plan = job.plan
    targets = check_executable(plan)
    ongoing = job.client.run(admin_topics.list_reassignments)
    if ongoing and not job.options["additional"]:
        raise OperatorError(EXISTING)
    alive = {node.node_id for node in job.client.run(admin_cluster.nodes)}
    unknown = sorted({each for replicas in targets.values() for each in replicas} - alive)
    if unknown:
        raise OperatorError(
            f"Unknown broker id {unknown[0]}: the brokers that run are {', '.join(map(str, sorted(alive)))}"
        )
    every = current_replicas(job.client, sorted({where.topic for where in targets}))
    missing = sorted(where for where in targets if where not in every)
    if missing:
        raise OperatorError(f"Unable to find partition: {', '.join(map(name_of, missing))}")
    current = {where: every[where] for where in targets}
    print(f"Current partition replica assignment\n\n{_with_directories(job.client, current)}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    rate, directory_rate = (job.options[name] for name in ("throttle", "replica_alter_log_dirs_throttle"))
    has_rate, has_directory_rate = rate is not None and rate >= 0, directory_rate is not None and directory_rate >= 0
    if has_rate or has_directory_rate:
        print(VERIFY_LATER)
    if has_rate:
        set_replication_throttle(job.client, planned_moves(ongoing, targets, current), rate)
    if has_directory_rate:
        set_directory_throttle(job.client, plan.directories, directory_rate)
    _begin(job, targets)
    if plan.directories:
        _move_directories(job, plan.directories)
    if job.options["wait_ms"] is not None:
        wait_for_moves(job.client, targets, job.options["wait_ms"])
    return 0


def _begin(job: Job, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    errors = job.client.run(
        admin_placement.alter_reassignments,
        targets,
        may_change_factor=not job.options["disallow_replication_factor_change"],
    )
    said = _said(errors)
    if said:
        raise OperatorError(f"Error reassigning partition(s):\n{said}")
    names = ",".join(map(name_of, sorted(targets)))
    print(f"Successfully started partition reassignment{'' if len(targets) == 1 else 's'} for {names}")


def _said(errors: Mapping[TopicPartition, PeerError | None]) -> str:
    """The errors of partitions, one a line."""
    return "\n".join(f"{name_of(where)}: {error}" for where, error in sorted(errors.items()) if error is not None)


def _move_directories(job: Job, moves: Mapping[Replica, str]) -> None:
    """Begin the moves between directories; a replica that is not on its broker yet is tried again. Raises OperatorError."""
    end = time.monotonic() + job.timeout_ms / 1000
    pending = dict(moves)
    while True:
        errors = job.client.run(admin_placement.alter_replica_dirs, pending)
        for replica, error in sorted(errors.items(), key=lambda item: (item[0].broker_id, item[0])):
            if error is None:
                print(
                    f"Successfully started moving log directory to {pending.pop(replica)} for replica "
                    f"{replica.topic}-{replica.partition} with broker {replica.broker_id} "
                )
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise OperatorError(
                    f"Failed to alter dir for {replica}: {_why_not_there(replica, pending[replica], error)}"
                )
        if not pending:
            return
        if time.monotonic() >= end:
            names = ",".join(map(str, sorted(pending, key=lambda each: (each.broker_id, each))))
            raise OperatorError(
                f"Timed out before log directory move{'' if len(pending) == 1 else 's'} could be started for: {names}"
            )
        time.sleep(_RETRY_S)


def _why_not_there(replica: Replica, directory: str, error: PeerError) -> str:
    if error.code is not ErrorCode.LOG_DIR_NOT_FOUND:
        return str(error)
    return f"{error}: {directory} is none of the log.dirs of broker {replica.broker_id}, which `headrace log-dirs --describe` shows"


def _verify(job: Job) -> int:
    plan = job.plan
    if job.options["wait_ms"] is not None:
        wait_for_moves(job.client, dict(plan.targets), job.options["wait_ms"])
    is_ongoing = print_states(job.client, plan.targets)
    is_moving = print_directory_states(job.client, plan.directories)
    if not is_ongoing and not is_moving and not job.options["preserve_throttles"]:
        clear_throttles(job.client, plan.targets)
    return 0


def _cancel(job: Job) -> int:
    """Kafka's tool leaves a reassignment alone that only adds replicas; here it is cancelled too."""
    plan = job.plan
    wanted: dict[str, list[int]] = {}
    for where, _ in plan.targets:
        wanted.setdefault(where.topic, []).append(where.partition)
    ongoing = sorted(job.client.run(admin_topics.list_reassignments, wanted)) if wanted else []
    if ongoing:
        errors = job.client.run(admin_placement.alter_reassignments, dict.fromkeys(ongoing))
        failed = sum(error is not None for error in errors.values())
        if failed:
            raise OperatorError(
                f"Error cancelling partition reassignment{'' if failed == 1 else 's'} for:\n{_said(errors)}"
            )
        names = ",".join(map(name_of, ongoing))
        print(f"Successfully cancelled partition reassignment{'' if len(ongoing) == 1 else 's'} for: {names}")
    else:
        print("None of the specified partition reassignments are active.")
    places = job.client.run(admin_placement.replica_dirs, plan.directories)
    back = {each: dirs.current for each, dirs in places.items() if dirs.current is not None and dirs.future is not None}
    if back:
        _move_directories(job, back)
    else:
        sys.stdout.write("None of the specified partition moves are active.")
        sys.stdout.write("\n" if job.options["preserve_throttles"] else "")
    if not job.options["preserve_throttles"]:
        clear_throttles(job.client, plan.targets)
    return 0


def _list(job: Job) -> int:
    ongoing = job.client.run(admin_topics.list_reassignments)
    if not ongoing:
        print("No partition reassignments found.")
        return 0
    print("Current partition reassignments:")
    for where, move in sorted(ongoing.items()):
        adding = f" adding: {_comma(move.adding)}." if move.adding else ""
        removing = f" removing: {_comma(move.removing)}." if move.removing else ""
        print(f"{name_of(where)}: replicas: {_comma(move.replicas)}.{adding}{removing}")
    return 0


def _comma(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
