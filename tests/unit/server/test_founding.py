"""When does `headrace start --bootstrap` found a quorum, and when not?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.core.listener import HostPort
from headrace.server.formatting import FormatOrder, format_directories
from headrace.server.founding import Others, bootstrap
from headrace.storage.meta_properties import read_meta_properties
from headrace.storage.os_files import OsFiles
from headrace.storage.snapshot_files import METADATA_PARTITION_DIRECTORY, write_quorum_state

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
FIRST, SECOND = "127.0.0.1:9093", "127.0.0.1:9094"


def config(directory: Path, *, port: int = 9093, **settings: str) -> NodeConfig:
    return parse_node_config(
        {
            "process.roles": "controller",
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"{FIRST},{SECOND}",
            "log.dirs": str(directory),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def formatted(of: NodeConfig, *, is_standalone: bool = False) -> None:
    order = FormatOrder(cluster_id=CLUSTER, is_standalone=is_standalone, has_no_initial_controllers=not is_standalone)
    format_directories(of, order, files=OsFiles(), rng=random.Random(1), date="now")


def run(of: NodeConfig, others: Others | None = None) -> tuple[list[str], list[Sequence[HostPort]]]:
    """The lines told, and whom it asked."""
    asked: list[Sequence[HostPort]] = []

    def ask(addresses: Sequence[HostPort]) -> Others:
        asked.append(addresses)
        return others or Others()

    return bootstrap(of, ask, files=OsFiles(), rng=random.Random(2), date="now"), asked


def checkpoints(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("__cluster_metadata-0/*.checkpoint")]


def test_the_first_of_the_list_founds(tmp_path: Path) -> None:
    """S4-12, S4-19: formatted without initial controllers, and nobody else knows a quorum."""
    of = config(tmp_path)
    formatted(of)
    assert checkpoints(tmp_path) == []
    lines, asked = run(of)
    assert "founds the quorum" in lines[0]
    assert [[str(each) for each in one] for one in asked] == [[SECOND]]
    assert checkpoints(tmp_path) == ["00000000000000000000-0000000000.checkpoint"]
    assert run(of) == ([], [])


def test_another_of_the_list_never_founds(tmp_path: Path) -> None:
    """S4-19: so two halves cannot found two quorums."""
    of = config(tmp_path, port=9094)
    formatted(of)
    assert run(of) == ([], [])
    assert checkpoints(tmp_path) == []


def test_nobody_founds_where_a_quorum_is_found(tmp_path: Path) -> None:
    """S4-12: peers come before the list."""
    of = config(tmp_path)
    formatted(of)
    assert run(of, Others(cluster_id=CLUSTER, has_quorum=True))[0] == []
    assert checkpoints(tmp_path) == []


@pytest.mark.parametrize("what", ["a snapshot", "a log", "a vote"])
def test_nobody_founds_over_what_is_there(tmp_path: Path, what: str) -> None:
    """S4-40: starting again with the list does not found again."""
    of = config(tmp_path)
    formatted(of, is_standalone=what == "a snapshot")
    directory = tmp_path / METADATA_PARTITION_DIRECTORY
    directory.mkdir(exist_ok=True)
    if what == "a log":
        (directory / "00000000000000000000.log").write_bytes(b"batches")
    if what == "a vote":
        state = (
            b'{"leaderId":-1,"leaderEpoch":3,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ","data_version":1}'
        )
        write_quorum_state(OsFiles(), str(directory), state)
    assert run(of) == ([], [])


def test_a_node_that_was_started_in_vain_may_still_found(tmp_path: Path) -> None:
    """S4-19: an empty log and an election state that says nothing are no quorum."""
    of = config(tmp_path)
    formatted(of)
    directory = tmp_path / METADATA_PARTITION_DIRECTORY
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"")
    state = b'{"clusterId":"","leaderId":-1,"leaderEpoch":0,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    write_quorum_state(OsFiles(), str(directory), state)
    assert "founds the quorum" in run(of)[0][0]


def test_a_new_directory_is_formatted_as_founder_or_to_join(tmp_path: Path) -> None:
    """D-07: the founder makes the cluster's id, the others are told it."""
    first, second = config(tmp_path / "1"), config(tmp_path / "2", port=9094, node_id="2")
    run(first)
    made = read_meta_properties(OsFiles(), str(tmp_path / "1"))
    assert made is not None
    assert len(checkpoints(tmp_path / "1")) == 1
    run(second, Others(cluster_id=made.cluster_id, has_quorum=True))
    joined = read_meta_properties(OsFiles(), str(tmp_path / "2"))
    assert joined is not None
    assert joined.cluster_id == made.cluster_id
    assert checkpoints(tmp_path / "2") == []


def test_a_new_node_that_nobody_tells_the_cluster_is_refused(tmp_path: Path) -> None:
    """D-07: it would make up another cluster."""
    with pytest.raises(OperatorError, match="start the first one"):
        run(config(tmp_path / "new", port=9094))
    assert not (tmp_path / "new").exists()


def test_several_static_voters_need_one_id(tmp_path: Path) -> None:
    """S4-19: each would make up its own cluster."""
    several: dict[str, Any] = {
        "controller_quorum_voters": f"1@{FIRST},2@{SECOND}",
        "controller_quorum_bootstrap_servers": "",
    }
    with pytest.raises(OperatorError, match="need one cluster id"):
        run(config(tmp_path / "new", **several))
    alone: dict[str, Any] = {"controller_quorum_voters": f"1@{FIRST}", "controller_quorum_bootstrap_servers": ""}
    assert run(config(tmp_path / "alone", **alone))[0]
