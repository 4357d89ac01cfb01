"""The founding of a quorum by this node (`headrace start --bootstrap`, S4-19, D-07).

Without the flag nobody founds one by starting. With it the configured list counts, in this order: what the directory holds, what the other
addresses of the list say, the list itself (S4-12). Of `controller.quorum.bootstrap.servers` only the first address founds, so two halves of
a cluster cannot found two quorums; the others wait for it, or learn the cluster's id from it when they are new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.core.errors import OperatorError
from headrace.core.values import value_class
from headrace.node.directories import are_unformatted
from headrace.raft.quorum_state import decode_quorum_state
from headrace.server.formatting import FormatOrder, format_directories, found_standalone, random_cluster_id
from headrace.storage.meta_properties import read_meta_properties
from headrace.storage.snapshot_files import (
    METADATA_PARTITION_DIRECTORY,
    QUORUM_STATE_FILE_NAME,
    SnapshotFiles,
    has_metadata_log,
    read_quorum_state,
)

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import HostPort
    from headrace.core.ports import Files, Rng

_EVERYWHERE = ("", "0.0.0.0", "::")


@value_class
class Others:
    """What the other addresses of the list said: the cluster's id if anybody told it, and whether anybody has voters."""

    cluster_id: str | None = None
    has_quorum: bool = False


Ask = Callable[[Sequence["HostPort"]], Others]


def bootstrap(config: NodeConfig, ask: Ask, *, files: Files, rng: Rng, date: str) -> list[str]:
    """Format what is new, found the quorum if that is this node's to do; lines for the operator. Raises OperatorError.

    `ask` asks the other addresses of the list; it is called only when it matters.
    """
    is_new = are_unformatted(config, files)
    if not is_new and not (_is_first(config) and _is_without_quorum(config, files)):
        return []
    addresses = [each for each in config.controller_quorum_bootstrap_servers if not _is_own(config, each)]
    others = ask(addresses) if addresses else Others()
    is_founder = _is_first(config) and not others.has_quorum
    if is_new:
        order = FormatOrder(
            cluster_id=_cluster_id(config, others, rng, is_founder=is_founder),
            is_standalone=is_founder,
            has_no_initial_controllers=config.is_controller and not config.has_static_voters and not is_founder,
        )
        return format_directories(config, order, files=files, rng=rng, date=date)
    if is_founder:
        found_standalone(config, files=files)
        return [
            f"This controller founds the quorum: {config.metadata_log_dir} has no voters, and nobody else of the list knows any."
        ]
    return []


def _cluster_id(config: NodeConfig, others: Others, rng: Rng, *, is_founder: bool) -> str:
    if others.cluster_id is not None:
        return others.cluster_id
    if len(config.controller_quorum_voters) > 1:
        raise OperatorError(
            f"--bootstrap founds a quorum of one; controller.quorum.voters lists {len(config.controller_quorum_voters)}, which need one "
            "cluster id: format each with `headrace storage format -t ID`, the same ID for all"
        )
    if is_founder or config.has_static_voters:
        return random_cluster_id(rng)
    raise OperatorError(
        "--bootstrap: this node is not the first of controller.quorum.bootstrap.servers, and no other one of them says which cluster "
        "this is: start the first one, or format this node with `headrace storage format -t ID -N`"
    )


def _is_first(config: NodeConfig) -> bool:
    """A controller of a dynamic quorum whose own address begins the list."""
    servers = config.controller_quorum_bootstrap_servers
    return config.is_controller and not config.has_static_voters and bool(servers) and _is_own(config, servers[0])


def _is_own(config: NodeConfig, address: HostPort) -> bool:
    own: Sequence[tuple[str, int]] = [
        (one.host, one.port)
        for one in (*config.advertised_controller_listeners, *config.listeners)
        if one.name in config.controller_listener_names
    ]
    return any(port == address.port and (host == address.host or host in _EVERYWHERE) for host, port in own)


def _is_without_quorum(config: NodeConfig, files: Files) -> bool:
    """Neither log nor snapshot nor quorum-state know anything of a quorum (S4-12, S4-40)."""
    if read_meta_properties(files, config.metadata_log_dir) is None:
        return False
    directory = f"{config.metadata_log_dir}/{METADATA_PARTITION_DIRECTORY}"
    if not files.exists(directory):
        return True
    if SnapshotFiles(files, directory).ids():
        return False
    if has_metadata_log(files, config.metadata_log_dir):
        return False
    stored = read_quorum_state(files, directory)
    if stored is None:
        return True
    state = decode_quorum_state(stored, path=f"{directory}/{QUORUM_STATE_FILE_NAME}")
    return state.leader_epoch == 0 and state.leader_id < 0 and state.voted_id < 0
