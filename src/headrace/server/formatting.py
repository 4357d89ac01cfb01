"""A new log directory's identity, and the first records of its cluster.

What `headrace storage format` does, and `headrace start` for a new quick-start directory: `meta.properties` and
`bootstrap.checkpoint` in every directory, and for the first voters of a dynamic quorum the 0-0 snapshot (KIP-853). Only
features whose behaviour is built are finalised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from time import time

from headrace.config.listener_settings import MAX_NODE_ID
from headrace.config.node_config import NodeConfig
from headrace.core.errors import OperatorError, StorageFault
from headrace.core.ids import Uuid, random_uuid
from headrace.core.ports import Files, Rng
from headrace.core.values import value_class
from headrace.metadata.bootstrap import bootstrap_records
from headrace.metadata.image import METADATA_VERSION, ScramCredential
from headrace.metadata.releases import FEATURES, HIGHEST_LEVEL, default_level
from headrace.metadata.versions import (
    ELR_FEATURE,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
    SUPPORTED_FEATURES,
    has_elr,
    metadata_version_name,
)
from headrace.node.directories import all_directories
from headrace.raft.snapshots import BOOTSTRAP_ID, build_snapshot
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet
from headrace.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from headrace.storage.snapshot_files import write_bootstrap_checkpoint, write_zero_checkpoint


@value_class
class InitialController:
    """One of `--initial-controllers`: id@host:port:directory."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


@value_class
class FormatOrder:
    """What `headrace storage format` was told."""

    cluster_id: str
    metadata_version: int = LATEST_METADATA_VERSION
    features: Mapping[str, int] = field(default_factory=dict)
    scram: tuple[ScramCredential, ...] = ()
    is_standalone: bool = False
    has_no_initial_controllers: bool = False
    initial_controllers: tuple[InitialController, ...] = ()
    ignores_formatted: bool = False


def random_cluster_id(rng: Rng) -> str:
    """An id of a cluster, as `headrace storage random-uuid` prints it."""
    return str(random_uuid(rng))


def format_directories(config: NodeConfig, order: FormatOrder, *, files: Files, rng: Rng, date: str) -> list[str]:
    """Format what is not formatted; the lines to tell the operator. `date` goes into a comment of `meta.properties`.

    Raises OperatorError: what was told cannot be done; nothing is written then. StorageFault: the disk refused.
    """
    levels = finalised_levels(config, order)
    formatted, blank = _sort_directories(config, order, files)
    if not blank:
        return ["All of the log directories are already formatted."]
    framed = bootstrap_records(
        metadata_version=levels[METADATA_VERSION],
        features={name: level for name, level in levels.items() if name not in (METADATA_VERSION, KRAFT_VERSION)},
        scram=order.scram,
    )
    now_ms = int(time() * 1000)
    batches = list(build_snapshot(framed, snapshot_id=BOOTSTRAP_ID, last_contained_log_timestamp=0, now_ms=now_ms))
    ids = _directory_ids(config, order, blank, rng)
    lines = [bootstrap_line(levels, order.scram)]
    for directory in blank:
        lines.append(
            f"Formatting {_kind(config, order, directory)} {directory} with metadata.version "
            f"{metadata_version_name(levels[METADATA_VERSION])}."
        )
        _make(files, directory)
        write_bootstrap_checkpoint(files, directory, batches)
        if directory == config.metadata_log_dir and _founds_quorum(order):
            voters = _first_voters(config, order, ids[directory])
            write_zero_checkpoint(files, directory, _voter_snapshot(voters, now_ms))
        properties = MetaProperties(
            cluster_id=order.cluster_id, node_id=config.node_id, directory_id=ids[directory], version=1
        )
        write_meta_properties(files, directory, properties, date=date)
    assert set(formatted).isdisjoint(blank)
    return lines


def found_standalone(config: NodeConfig, *, files: Files) -> None:
    """Make a formatted controller without voters the founder of a quorum of its own, as `--standalone` does (S4-19). Raises OperatorError."""
    properties = read_meta_properties(files, config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        raise OperatorError(f"{config.metadata_log_dir} has no directory id: format it with `headrace storage format`")
    order = FormatOrder(cluster_id=properties.cluster_id or "", is_standalone=True)
    voters = _first_voters(config, order, properties.directory_id)
    write_zero_checkpoint(files, config.metadata_log_dir, _voter_snapshot(voters, int(time() * 1000)))


def _make(files: Files, directory: str) -> None:
    try:
        files.mkdir(directory)
    except (StorageFault, OSError) as error:
        raise OperatorError(f"{directory} cannot be made a log directory: {error}") from error


def _sort_directories(config: NodeConfig, order: FormatOrder, files: Files) -> tuple[list[str], list[str]]:
    """The directories that are formatted, and those to format. Raises OperatorError: of another cluster or node."""
    formatted: list[str] = []
    blank: list[str] = []
    for directory in all_directories(config):
        properties = read_meta_properties(files, directory) if files.exists(directory) else None
        if properties is None:
            blank.append(directory)
            continue
        formatted.append(directory)
        path = f"{directory}/meta.properties"
        if properties.cluster_id is not None and properties.cluster_id != order.cluster_id:
            raise OperatorError(
                f"Invalid cluster.id in: {path}. Expected {order.cluster_id}, but read {properties.cluster_id}: "
                "name that cluster id, or take the directory out of log.dirs"
            )
        if properties.node_id is not None and properties.node_id != config.node_id:
            raise OperatorError(
                f"Stored node id {properties.node_id} doesn't match previous node id {config.node_id} in {path}. "
                "If you moved your data, make sure your configured node id matches. If you intend to create a new node, "
                "you should remove all data in your data directories."
            )
        if not order.ignores_formatted:
            raise OperatorError(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory and format the others."
            )
    return formatted, blank


def finalised_levels(config: NodeConfig, order: FormatOrder) -> dict[str, int]:
    """The level of every feature: as told, else Kafka's default at that metadata.version where it is built. Raises OperatorError: not one that can be."""
    if METADATA_VERSION in order.features and order.features[METADATA_VERSION] != order.metadata_version:
        raise OperatorError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    for name, level in order.features.items():
        _check_level(name, level)
    _check_quorum_flags(config, order)
    levels = {METADATA_VERSION: order.metadata_version}
    for name in FEATURES:
        if name != KRAFT_VERSION:
            highest = min(default_level(name, order.metadata_version), SUPPORTED_FEATURES[name].max_supported_version)
            levels[name] = order.features.get(name, highest)
    levels[KRAFT_VERSION] = order.features.get(KRAFT_VERSION, 0 if config.has_static_voters else 1)
    if levels[ELR_FEATURE] and not has_elr(levels[METADATA_VERSION]):
        raise OperatorError("eligible.leader.replicas.version=1 requires metadata.version=23 (4.0-IV1)")
    return levels


def _check_level(name: str, level: int) -> None:
    if name == METADATA_VERSION:
        if level not in METADATA_VERSION_NAMES:
            raise OperatorError(f"metadata.version {level} is not known; valid are 7 to {LATEST_METADATA_VERSION}")
        return
    if name not in HIGHEST_LEVEL:
        raise OperatorError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(HIGHEST_LEVEL))}")
    if not 0 <= level <= HIGHEST_LEVEL[name]:
        raise OperatorError(f"No feature:{name} with feature level {level}")
    highest = SUPPORTED_FEATURES[name].max_supported_version
    if level > highest:
        raise OperatorError(f"{name}={level} is not supported here: use -f {name}={highest}, or leave it out")


def _founds_quorum(order: FormatOrder) -> bool:
    return order.is_standalone or bool(order.initial_controllers)


def _check_quorum_flags(config: NodeConfig, order: FormatOrder) -> None:
    """A dynamic quorum is founded by a flag; a static one by `controller.quorum.voters`; never by both (B-T03)."""
    if config.has_static_voters:
        if _founds_quorum(order):
            raise OperatorError(
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. "
                "If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
                "controller.quorum.bootstrap.servers instead."
            )
        if order.features.get(KRAFT_VERSION, 0) > 0:
            raise OperatorError(
                "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of the flags --standalone, "
                "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try using one "
                "of --standalone, --initial-controllers, or --no-initial-controllers and removing controller.quorum.voters."
            )
        return
    flagged = _founds_quorum(order) or order.has_no_initial_controllers
    if config.is_controller and not flagged:
        raise OperatorError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    if order.features.get(KRAFT_VERSION, 1) == 0:
        raise OperatorError(
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, "
            "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing the "
            "--feature flag for kraft.version."
        )
    if order.is_standalone and not config.is_controller:
        raise OperatorError("You can only use --standalone on a controller.")


def _directory_ids(config: NodeConfig, order: FormatOrder, blank: list[str], rng: Rng) -> dict[str, Uuid]:
    ids = {directory: random_uuid(rng) for directory in blank}
    own = [one for one in order.initial_controllers if one.node_id == config.node_id]
    if own and config.metadata_log_dir in ids:
        ids[config.metadata_log_dir] = own[0].directory_id
    return ids


def _kind(config: NodeConfig, order: FormatOrder, directory: str) -> str:
    if directory != config.metadata_log_dir:
        return "data directory"
    if not _founds_quorum(order):
        return "metadata directory"
    is_voter = order.is_standalone or config.node_id in {one.node_id for one in order.initial_controllers}
    return "dynamic metadata voter directory" if is_voter else "dynamic metadata directory"


def _first_voters(config: NodeConfig, order: FormatOrder, own_directory_id: Uuid) -> VoterSet:
    name = config.controller_listener_names[0]
    if order.is_standalone:
        told = next(one for one in config.advertised_controller_listeners if one.name == name)
        founders = [
            InitialController(
                node_id=config.node_id, host=told.host or "localhost", port=told.port, directory_id=own_directory_id
            )
        ]
    else:
        founders = sorted(order.initial_controllers, key=lambda one: one.node_id)
    return VoterSet(
        voters=tuple(
            Voter(
                voter_id=one.node_id,
                directory_id=one.directory_id,
                end_points=(VoterEndPoint(name, one.host, one.port),),
            )
            for one in founders
        ),
        kraft_version=1,
    )


def _voter_snapshot(voters: VoterSet, now_ms: int) -> Iterator[bytearray]:
    return build_snapshot(
        (), snapshot_id=BOOTSTRAP_ID, last_contained_log_timestamp=now_ms, now_ms=now_ms, voters=voters
    )


def parse_initial_controllers(text: str) -> tuple[InitialController, ...]:
    """The voters of `--initial-controllers`, apart by commas. Raises OperatorError: not `id@host:port:directory`."""
    found: list[InitialController] = []
    for entry in text.split(","):
        number, at, rest = entry.strip().partition("@")
        address, colon, directory = rest.rpartition(":")
        host, colon_before_port, port = address.rpartition(":")
        if not (at and colon and colon_before_port and host) or not number.isdecimal() or not port.isdecimal():
            raise OperatorError(f"--initial-controllers {entry}: write id@host:port:directory, entries apart by commas")
        if int(number) > MAX_NODE_ID or not 0 < int(port) < 65_536:
            raise OperatorError(f"--initial-controllers {entry}: id or port is out of range")
        try:
            directory_id = Uuid.parse(directory)
        except ValueError as error:
            raise OperatorError(f"--initial-controllers {entry}: {directory} is not an id: {error}") from error
        found.append(
            InitialController(
                node_id=int(number),
                host=host.removeprefix("[").removesuffix("]"),
                port=int(port),
                directory_id=directory_id,
            )
        )
    for seen, what in (({one.node_id for one in found}, "id"), ({one.directory_id for one in found}, "directory id")):
        if len(seen) != len(found):
            raise OperatorError(f"--initial-controllers {text}: the same {what} is there twice")
    return tuple(found)


def bootstrap_line(levels: Mapping[str, int], scram: tuple[ScramCredential, ...]) -> str:
    """What will be the cluster's first records, in the notation of Kafka's tool; the keys of credentials stay hidden."""
    names = sorted(name for name, level in levels.items() if level and name not in (METADATA_VERSION, KRAFT_VERSION))
    shown = [f"FeatureLevelRecord(name='{name}', featureLevel={levels[name]})" for name in (METADATA_VERSION, *names)]
    shown += [
        f"UserScramCredentialRecord(name='{one.name}', mechanism={one.mechanism}, salt=[hidden], storedKey=[hidden], "
        f"serverKey=[hidden], iterations={one.iterations})"
        for one in scram
    ]
    records = ", ".join(f"ApiMessageAndVersion({one} at version 0)" for one in shown)
    level = levels[METADATA_VERSION]
    return f"Bootstrap metadata: BootstrapMetadata(records=[{records}], metadataVersionLevel={level}, source=format command)"
