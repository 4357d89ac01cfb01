"""A node's log directories: whether they are formatted, and this node's.

What `headrace start` asks before anything else is opened (B-K06, B76, D9), and what `headrace storage info` reports.
"""

from __future__ import annotations

from headrace.config.node_config import NodeConfig
from headrace.core.errors import OperatorError, StorageFault
from headrace.core.ids import ZERO_UUID, Uuid, is_reserved_uuid
from headrace.core.ports import Files
from headrace.core.values import value_class
from headrace.metadata.bootstrap import read_bootstrap_records
from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.raft.snapshots import read_snapshot
from headrace.storage.meta_properties import FILE_NAME, MetaProperties, read_meta_properties
from headrace.storage.snapshot_files import BOOTSTRAP_FILE_NAME, has_metadata_log, read_bootstrap_checkpoint
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord


@value_class
class NodeDirectories:
    """The identity that all directories of a node share, and the id of each; `offline` are those that cannot be read (KIP-112)."""

    cluster_id: str
    directory_ids: dict[str, Uuid]
    offline: tuple[str, ...] = ()


def all_directories(config: NodeConfig) -> list[str]:
    """The log directories and the metadata log's, each once, in the order of the configuration."""
    return list(dict.fromkeys([config.metadata_log_dir, *config.log_dirs]))


def are_unformatted(config: NodeConfig, files: Files) -> bool:
    """Not one directory holds anything of a node: new, or empty. Raises OperatorError for a path that is no directory."""
    return all(_is_blank(files, directory) for directory in all_directories(config))


def _is_blank(files: Files, directory: str) -> bool:
    if not files.exists(directory):
        return True
    return not [name for name in _entries(files, directory) if name not in ("lost+found", ".lock")]


def _entries(files: Files, directory: str) -> list[str]:
    try:
        return files.listdir(directory)
    except (StorageFault, OSError) as error:
        raise OperatorError(f"{directory} cannot be read as a log directory: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)


def check_directories(config: NodeConfig, files: Files) -> NodeDirectories:
    """Whose the directories are. Raises OperatorError when one is not this node's, in one line that says what to change.

    A broker goes on without those that a fault keeps it from reading, but not without that of the metadata log. Raises StorageFault.
    """
    found: dict[str, MetaProperties] = {}
    offline: list[str] = []
    for directory in all_directories(config):
        try:
            found[directory] = _properties_of(config, files, directory)
        except StorageFault:
            if directory == config.metadata_log_dir:
                raise
            offline.append(directory)
    cluster_ids = {str(one.cluster_id) for one in found.values()}
    if len(cluster_ids) > 1:
        shown = ", ".join(f"{directory} of {one.cluster_id}" for directory, one in found.items())
        raise OperatorError(
            f"the log directories belong to different clusters ({shown}): take out those of the other cluster"
        )
    _check_directory_ids(found)
    _check_bootstrap_features(files, config.metadata_log_dir)
    return NodeDirectories(
        cluster_id=cluster_ids.pop(),
        directory_ids={directory: one.directory_id or ZERO_UUID for directory, one in found.items()},
        offline=tuple(offline),
    )


def _properties_of(config: NodeConfig, files: Files, directory: str) -> MetaProperties:
    """What `meta.properties` of one directory says, complete and of this node. Raises OperatorError."""
    cluster_id = _other_cluster_id(config, files)
    flag = "--ignore-formatted " if cluster_id else ""
    advice = f"run `headrace storage format {flag}-c <server.properties> -t {cluster_id or '<cluster id>'}`, or correct log.dirs"
    if not files.exists(directory):
        raise OperatorError(f"{directory} does not exist: {advice}")
    _entries(files, directory)
    properties = read_meta_properties(files, directory)
    path = f"{directory}/{FILE_NAME}"
    if properties is None:
        raise OperatorError(f"{directory} is not formatted ({FILE_NAME} is missing): {advice}")
    if properties.version == 0:
        raise OperatorError(
            f"{path} is of a ZooKeeper cluster (version=0): migrate it to KRaft with Apache Kafka 3.9 first"
        )
    missing = [
        key
        for key, value in (("cluster.id", properties.cluster_id), ("node.id", properties.node_id))
        if value in (None, "")
    ]
    if missing:
        raise OperatorError(
            f"{path} is half written ({', '.join(missing)} missing): remove the directory, or restore the file"
        )
    if properties.node_id != config.node_id:
        raise OperatorError(
            f"{directory} belongs to node {properties.node_id}, the configuration says node.id={config.node_id}: "
            "change node.id or log.dirs"
        )
    if (
        directory == config.metadata_log_dir
        and config.is_controller
        and read_bootstrap_checkpoint(files, directory) == b""
    ):
        raise OperatorError(f"{directory}/{BOOTSTRAP_FILE_NAME} is empty: remove the directory and format it again")
    return properties


def _other_cluster_id(config: NodeConfig, files: Files) -> str:
    """The cluster id that another directory of the node has, for the advice; else nothing."""
    for directory in all_directories(config):
        try:
            properties = read_meta_properties(files, directory)
        except (OperatorError, StorageFault, OSError):
            continue
        if properties is not None and properties.cluster_id:
            return properties.cluster_id
    return ""


def _check_directory_ids(found: dict[str, MetaProperties]) -> None:
    seen: dict[Uuid, str] = {}
    for directory, properties in found.items():
        directory_id = properties.directory_id
        if directory_id is None:
            continue
        if is_reserved_uuid(directory_id):
            raise OperatorError(
                f"{directory}/{FILE_NAME}: directory.id {directory_id} is reserved: give it another one"
            )
        if directory_id in seen:
            raise OperatorError(
                f"{directory} and {seen[directory_id]} have the same directory.id {directory_id}: one is a copy; take it out of log.dirs"
            )
        seen[directory_id] = directory


def _check_bootstrap_features(files: Files, directory: str) -> None:
    """A directory that was formatted for features that are not built is refused, with the command that lowers them.

    Once the metadata log has begun it says which features the cluster has; they may have been lowered since.
    """
    data = read_bootstrap_checkpoint(files, directory)
    if not data or has_metadata_log(files, directory):
        return
    records = read_bootstrap_records(
        read_snapshot(data, name=f"{directory}/{BOOTSTRAP_FILE_NAME}", directory=directory).records
    )
    levels = {
        each.record.name: each.record.feature_level for each in records if isinstance(each.record, FeatureLevelRecord)
    }
    refuse_unsupported_features(levels, f"{directory} was formatted for")


def refuse_unsupported_features(levels: dict[str, int], who: str) -> None:
    """Raises OperatorError: a level is above what this node can work with. `who` begins the sentence."""
    beyond = {
        name: level
        for name, level in sorted(levels.items())
        if level and (name not in SUPPORTED_FEATURES or level > SUPPORTED_FEATURES[name].max_supported_version)
    }
    if not beyond:
        return
    shown = ", ".join(f"{name}={level}" for name, level in beyond.items())
    lowered = {
        name: SUPPORTED_FEATURES[name].max_supported_version if name in SUPPORTED_FEATURES else 0 for name in beyond
    }
    options = " ".join(
        f"--metadata {level}" if name == METADATA_VERSION else f"--feature {name}={level}"
        for name, level in lowered.items()
    )
    formatted = " ".join(f"-f {name}={level}" for name, level in lowered.items())
    raise OperatorError(
        f"{who} {shown}, which is not supported here: for a running cluster `kafka-features downgrade {options}`, "
        f"for a new one `headrace storage format {formatted}`"
    )
