"""The command `headrace leader-election`: leaders elected by hand, the preferred ones or unclean ones (KIP-183, KIP-460)."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.reassignment_file import name_of, parse_election
from headrace.cli.shell import connect, connection_options, offered
from headrace.cli.text_files import read_json_text
from headrace.client import admin_placement
from headrace.client.admin_placement import ElectionType
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

ADMIN_CONFIG_IS_OLD = (
    "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config instead."
)
_MEANS = ("topic", "all_topic_partitions", "path_to_json_file")


@click.command(help="Elect leaders of partitions: preferred replicas, or unclean ones where nobody leads.")
@connection_options()
@click.option("--admin.config", "admin_config", type=click.Path(), hidden=True)
@click.option(
    "--election-type",
    metavar="preferred|unclean",
    shell_complete=offered("preferred", "unclean"),
    help="preferred: the first replica, where another one leads; unclean: any live replica, where none leads, at the price of lost records.",
)
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="The topic, with --partition.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="The partition of --topic.")
@click.option("--path-to-json-file", metavar="FILE", help='{"partitions": [{"topic": "t", "partition": 1}, ...]}')
@click.option("--all-topic-partitions", is_flag=True, help="Every partition that needs such an election.")
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Ask for the elections and tell their outcome."""
    kind = parse_options(options)
    if options["admin_config"]:
        print(ADMIN_CONFIG_IS_OLD)
        command_config = command_config or options["admin_config"]
    wanted: list[TopicPartition] | None = None
    if options["path_to_json_file"]:
        wanted = parse_election(read_json_text(options["path_to_json_file"]))
    elif options["topic"] is not None:
        wanted = [TopicPartition(options["topic"], options["partition"])]
    with connect(bootstrap_server, command_config) as client:
        try:
            results = client.run(admin_placement.elect_leaders, kind, wanted)
        except PeerError as error:
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                print("Not authorized to perform leader election")
            raise
    return show(kind, results)


def parse_options(options: dict[str, Any]) -> ElectionType:
    """The kind of election. Raises OperatorError for options that do not go together."""
    if not options["election_type"]:
        raise OperatorError("Missing required option(s): election-type")
    name = str(options["election_type"]).upper()
    if name not in ElectionType.__members__:
        raise OperatorError(f"--election-type {options['election_type']}: expected preferred or unclean")
    chosen = [each for each in _MEANS if options[each] not in (None, False)]
    if len(chosen) != 1:
        listed = ", ".join(each.replace("_", "-") for each in _MEANS)
        raise OperatorError(f"One and only one of the following options is required: {listed}")
    if options["topic"] is not None and options["partition"] is None:
        raise OperatorError("Missing required option(s): partition")
    if options["topic"] is None and options["partition"] is not None:
        raise OperatorError("Option partition is only allowed if topic is used")
    return ElectionType[name]


def show(kind: ElectionType, results: dict[TopicPartition, PeerError | None]) -> int:
    """Print the outcome in the lines of Kafka's tool. Raises OperatorError: an election failed (S3-77)."""
    elected = [where for where, error in results.items() if error is None]
    if elected:
        print(
            f"Successfully completed leader election ({kind.name}) for partitions {', '.join(map(name_of, sorted(elected)))}"
        )
    idle = [where for where, error in results.items() if error and error.code is ErrorCode.ELECTION_NOT_NEEDED]
    if idle:
        print(f"Valid replica already elected for partitions {', '.join(map(name_of, sorted(idle)))}")
    failed = {where: error for where, error in results.items() if error and where not in idle}
    for where, error in sorted(failed.items()):
        print(
            f"Error completing leader election ({kind.name}) for partition: {name_of(where)}: {java_name(error.code)}: {error}"
        )
    if failed:
        raise OperatorError(f"{len(failed)} replica(s) could not be elected")
    return 0


def java_name(code: ErrorCode) -> str:
    """The name of Kafka's exception for an error code, which scripts look for in the lines of Kafka's tool."""
    words = "".join(word.capitalize() for word in code.name.split("_"))
    return f"org.apache.kafka.common.errors.{words}Exception"
