"""Does a node cope with data directories that are not what it made: links, and segments of gigabytes?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.storage.log_store import LogStore
from headrace.testing import Node
from tests.support.peer import Peer, batch
from tests.support.stores import PARTITION, append, fill, open_log, open_store, records_of
from tests.support.stores import batch as small_batch

GIB = 1 << 30


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_of_gigabytes_is_cut_to_what_it_holds(tmp_path: Path, *, is_clean: bool) -> None:
    """input:B76, input:B77: more than a position in an index can say; nothing of it is kept in memory, and the log goes on."""
    store = open_store(tmp_path / "data")
    log = open_log(store)
    fill(log, 5)
    expected = records_of(log)
    segment = Path(log.path) / f"{log.segments[-1].base_offset:020d}.log"
    store.close(clean=is_clean)
    with segment.open("r+b") as file:
        file.truncate(3 * GIB)  # a hole: it takes no room
    again: LogStore = open_store(tmp_path / "data")
    found = again.get(PARTITION)
    assert found is not None
    assert records_of(found) == expected
    assert segment.stat().st_size < GIB
    append(found, small_batch(b"more"))
    assert [record.value for record in records_of(found)][-1] == b"more"
    again.close(clean=True)


def test_a_directory_behind_a_link_is_that_directory(tmp_path: Path) -> None:
    """input:B76, B-K07: served through the link, and locked by whichever name it is opened."""
    link = tmp_path / "link"
    with Node(directory=tmp_path / "node") as node:
        peer = Peer("headrace", node.port)
        peer.create("kept")
        assert peer.produce("kept", batch(b"x")).error_code == 0
        link.symlink_to(node.data, target_is_directory=True)
        through_the_link = {"log.dirs": str(link)}
        file = tmp_path / "server.properties"
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{node.controller_port}\n"
            f"controller.quorum.voters=1@127.0.0.1:{node.controller_port}\nlog.dirs={link}\n"
        )
        command = [sys.executable, "-m", "headrace", "start", str(file)]
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (second.returncode, "in use by another process" in second.stderr) == (1, True), second.stderr
        assert peer.offset("kept", -1)[:2] == (0, 1)
    with Node(directory=tmp_path / "node", properties=through_the_link) as node:
        assert Peer("headrace", node.port).offset("kept", -1)[:2] == (0, 1)
