"""The command `headrace storage`: it formats a node's log directories and says what is in them (kafka-storage's commands)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from headrace.cli.clock import RANDOM, date_line
from headrace.cli.output import show_json
from headrace.cli.shell import Group, json_option
from headrace.config.node_config import NodeConfig
from headrace.core.errors import OperatorError, StorageFault
from headrace.core.ids import Uuid
from headrace.core.ports import Files
from headrace.core.values import value_class
from headrace.metadata.image import METADATA_VERSION, ScramCredential
from headrace.metadata.releases import feature_dependencies, parse_feature, parse_release, version_mapping
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.node.directories import all_directories
from headrace.server.formatting import (
    FormatOrder,
    InitialController,
    format_directories,
    parse_initial_controllers,
    random_cluster_id,
)
from headrace.storage.meta_properties import MetaProperties, read_meta_properties


@click.group(cls=Group, name="storage", help="Format and inspect the log directories of a node.")
def command() -> None:
    """The group of the commands below."""


_config_option = click.option(
    "-c",
    "--config",
    "config_file",
    required=True,
    type=click.Path(),
    metavar="FILE",
    help="The node's server.properties.",
)


@command.command(name="random-uuid", help="Print a random id, for a cluster or a directory.")
def random_uuid() -> None:
    """A new random id (S1-04)."""
    print(random_cluster_id(RANDOM))


@command.command(
    name="version-mapping", help="Print the feature levels that belong to a release; without one, to the latest."
)
@click.option("-r", "--release-version", "release", metavar="RELEASE", help="Such as 4.3 or 4.3-IV0.")
def mapping(release: str | None) -> None:
    """The feature levels of a release (B-T04)."""
    print("\n".join(version_mapping(release)))


@command.command(name="feature-dependencies", help="Print what feature levels need.")
@click.option("-f", "--feature", "features", multiple=True, required=True, metavar="FEATURE=LEVEL")
def dependencies(features: tuple[str, ...]) -> None:
    """What feature levels need of one another (B-T04)."""
    print("\n".join(feature_dependencies(dict(parse_feature(one) for one in features))))


@command.command(name="info", help="Say which log directories are there, whose they are, and what is wrong with them.")
@_config_option
@json_option
def info(config_file: str, as_json: bool) -> int:
    """Exit code 1 when there are problems (B-T02)."""
    from headrace.storage.os_files import OsFiles

    report = inspect_directories(load(config_file), OsFiles())
    if as_json:
        show_json({"directories": report.directories, "metadata": report.metadata, "problems": report.problems})
    else:
        print("\n".join(report.lines()))
    return 1 if report.problems else 0


@command.command(
    name="format", help="Give new log directories the identity of the node and the first records of the cluster."
)
@_config_option
@click.option("-t", "--cluster-id", required=True, metavar="ID", help="The cluster's id; see random-uuid.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave formatted directories alone and format the others.")
@click.option(
    "-r", "--release-version", "release", metavar="RELEASE", help="metadata.version of a release; default 4.3-IV0."
)
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="FEATURE=LEVEL", help="Level of one feature; may be repeated."
)
@click.option(
    "-S", "--add-scram", "scram", multiple=True, metavar="CREDENTIAL", help="SCRAM-SHA-256=[name=...,password=...]"
)
@click.option("-s", "--standalone", is_flag=True, help="Found a dynamic quorum with this controller alone.")
@click.option("-N", "--no-initial-controllers", is_flag=True, help="A node that joins a dynamic quorum.")
@click.option(
    "-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY,...", help="Found a dynamic quorum with these."
)
def format_command(config_file: str, scram: tuple[str, ...], **options: object) -> None:
    """New directories, as kafka-storage makes them (B-T03)."""
    from headrace.storage.os_files import OsFiles

    config = load(config_file)
    order = _order(FormatArguments(**options), scram)  # type: ignore[arg-type]
    for line in format_directories(config, order, files=OsFiles(), rng=RANDOM, date=date_line()):
        print(line)


@value_class
class FormatArguments:
    """The options of `format` as typed."""

    cluster_id: str
    ignore_formatted: bool
    release: str | None
    features: tuple[str, ...]
    standalone: bool
    no_initial_controllers: bool
    initial_controllers: str | None


def _order(given: FormatArguments, scram: tuple[str, ...]) -> FormatOrder:
    features = dict(parse_feature(one) for one in given.features)
    if given.release is not None and METADATA_VERSION in features:
        raise OperatorError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    flags = {
        "--standalone/-s": given.standalone,
        "--no-initial-controllers/-N": given.no_initial_controllers,
        "--initial-controllers/-I": given.initial_controllers is not None,
    }
    told = [name for name, is_set in flags.items() if is_set]
    if len(told) > 1:
        raise OperatorError(f"argument {told[1]}: not allowed with argument {told[0]}")
    level = (
        features.pop(METADATA_VERSION, LATEST_METADATA_VERSION)
        if given.release is None
        else parse_release(given.release)
    )
    voters: tuple[InitialController, ...] = ()
    if given.initial_controllers is not None:
        voters = parse_initial_controllers(given.initial_controllers)
    credentials: tuple[ScramCredential, ...] = ()
    if scram:
        from headrace.cli.scram import parse_scram

        credentials = tuple(parse_scram(text, RANDOM) for text in scram)
    return FormatOrder(
        cluster_id=parse_cluster_id(given.cluster_id),
        metadata_version=level,
        features=features,
        scram=credentials,
        is_standalone=given.standalone,
        has_no_initial_controllers=given.no_initial_controllers,
        initial_controllers=voters,
        ignores_formatted=given.ignore_formatted,
    )


def parse_cluster_id(text: str) -> str:
    """Dashed hex becomes base64; other texts stay as they are (S1-04). Raises OperatorError: empty, or no plain word."""
    if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text):
        return str(Uuid.parse(text))
    if not re.fullmatch(r"[\x21-\x7e]{1,100}", text):
        raise OperatorError(f"{text!r} cannot be a cluster id: take the output of `headrace storage random-uuid`")
    return text


def load(config_file: str) -> NodeConfig:
    """The configuration in a file. Raises OperatorError."""
    from headrace.cli.start import StartOptions, load_config

    return load_config(StartOptions(file=config_file))


@value_class
class DirectoryReport:
    """What `info` found: directories that are there, the identity they agree on, and problems."""

    directories: tuple[str, ...]
    metadata: Mapping[str, str | int] | None
    problems: tuple[str, ...]

    def lines(self) -> list[str]:
        """The report as kafka-storage prints it."""
        shown: list[str] = []
        if self.directories:
            shown += ["Found log directory:" if len(self.directories) == 1 else "Found log directories:"]
            shown += [f"  {directory}" for directory in self.directories] + [""]
        if self.metadata is not None:
            pairs = ", ".join(f"{key}={value}" for key, value in self.metadata.items())
            shown += [f"Found metadata: {{{pairs}}}", ""]
        if self.problems:
            shown += ["Found problem:" if len(self.problems) == 1 else "Found problems:"]
            shown += [f"  {problem}" for problem in self.problems] + [""]
        return shown


def inspect_directories(config: NodeConfig, files: Files) -> DirectoryReport:
    """Look at every directory; nothing is changed."""
    found: dict[str, MetaProperties] = {}
    present: list[str] = []
    problems: list[str] = []
    for directory in sorted(all_directories(config)):
        status = _look_at(files, directory)
        if status != "missing" and status != "file":
            present.append(directory)
        if isinstance(status, MetaProperties):
            found[directory] = status
        else:
            problems.append(_PROBLEMS.get(status, "{0}: " + status).format(directory))
    problems += _disagreements(config, found)
    first = next(iter(found.values()), None)
    return DirectoryReport(
        directories=tuple(present), metadata=None if first is None else identity(first), problems=tuple(problems)
    )


_PROBLEMS = {
    "missing": "{0} does not exist",
    "file": "{0} is not a directory",
    "unformatted": "{0} is not formatted.",
}


def _look_at(files: Files, directory: str) -> MetaProperties | str:
    """What `meta.properties` says, or a word of `_PROBLEMS`, or why it cannot be read."""
    if not files.exists(directory):
        return "missing"
    try:
        files.listdir(directory)
    except (StorageFault, OSError):
        return "file"
    try:
        properties = read_meta_properties(files, directory)
    except (OperatorError, StorageFault, OSError) as error:
        return f"Error loading meta.properties: {error}"
    return "unformatted" if properties is None else properties


def _disagreements(config: NodeConfig, found: dict[str, MetaProperties]) -> list[str]:
    problems: list[str] = []
    if len({one.cluster_id for one in found.values()}) > 1:
        problems.append("Mismatched cluster IDs between storage directories.")
    node_ids = {one.node_id for one in found.values()}
    if len(node_ids) > 1:
        problems.append("Mismatched node IDs between storage directories.")
    elif node_ids and node_ids != {config.node_id}:
        problems.append(f"The configuration says node.id={config.node_id}, the directories node.id={node_ids.pop()}.")
    if any(one.version == 0 for one in found.values()):
        problems.append(
            "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories are formatted for "
            "legacy mode."
        )
    return problems


def identity(properties: MetaProperties) -> dict[str, str | int]:
    """What `meta.properties` says, its keys sorted as kafka-storage shows them; what it does not say is left out."""
    values = {
        "cluster.id": properties.cluster_id,
        "directory.id": None if properties.directory_id is None else str(properties.directory_id),
        "node.id": properties.node_id,
        "version": properties.version,
    }
    return {key: value for key, value in values.items() if value is not None}
