"""Does `headrace storage format` make of the same arguments what kafka-storage makes of them?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.storage.meta_properties import read_meta_properties
from headrace.storage.os_files import OsFiles
from tests.peers import kafka
from tests.support.commands import headrace

pytestmark = pytest.mark.java

FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
VOTERS = f"1@127.0.0.1:9093:{FIRST},2@127.0.0.1:9094:{SECOND}"
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "DIR",
}
DYNAMIC = {**CONTROLLER, "controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
STATIC = {**CONTROLLER, "controller.quorum.voters": "1@127.0.0.1:9093"}
BROKER = {**DYNAMIC, "process.roles": "broker", "node.id": "5", "listeners": "PLAINTEXT://127.0.0.1:9092"}
COMBINED = {
    **DYNAMIC,
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "log.dirs": "DIR/1,DIR/2",
    "metadata.log.dir": "DIR/m",
}
ZERO_CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"

Tool = Callable[..., tuple[int, str, str]]


def theirs(*arguments: str) -> tuple[int, str, str]:
    done = kafka.run_tool("kafka-storage", *arguments)
    return done.returncode, done.stdout, done.stderr


def ours(*arguments: str) -> tuple[int, str, str]:
    return headrace("storage", *arguments)


def format_by(tool: Tool, root: Path, properties: dict[str, str], arguments: list[str]) -> tuple[int, list[str], str]:
    """Exit code, the lines of standard output in any order, standard error; `root` stands for the directory in both."""
    root.mkdir()
    file = root / "server.properties"
    file.write_text("".join(f"{key}={value.replace('DIR', str(root / 'd'))}\n" for key, value in properties.items()))
    code, out, error = tool("format", "-c", str(file), "-t", kafka.CLUSTER_ID, *kafka.plain_features(), *arguments)
    return code, sorted(out.replace(str(root), "ROOT").splitlines()), error


def without_times(data: bytes) -> list[bytes]:
    """The batches of a file with their times, and so their checksums, blanked; a snapshot header's time too."""
    batches, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        batch = bytearray(data[position : position + size])
        batch[17:21], batch[27:43] = bytes(4), bytes(16)
        if position == 0:
            batch[75:83] = bytes(8)  # lastContainedLogTimestamp of the first record
        batches.append(bytes(batch))
        position += size
    return batches


MADE = {
    "static voters": (STATIC, []),
    "static voters, kraft.version=0": (STATIC, ["-f", "kraft.version=0"]),
    "static voters, an older release": (STATIC, ["-r", "3.8"]),
    "static voters, --no-initial-controllers": (STATIC, ["-N"]),
    "initial controllers": (DYNAMIC, ["-I", VOTERS]),
    "initial controllers, without this node": (DYNAMIC, ["-I", f"3@c:3:{SECOND},2@b:2:{FIRST}"]),
    "initial controllers, an older release": (DYNAMIC, ["-I", VOTERS, "-r", "3.8"]),
    "no initial controllers": (DYNAMIC, ["-N"]),
    "a broker": (BROKER, []),
    "a broker with initial controllers": (BROKER, ["-I", VOTERS]),
    "three directories": (COMBINED, ["-I", VOTERS]),
}


@pytest.mark.parametrize(("properties", "arguments"), MADE.values(), ids=MADE.keys())
def test_the_same_directories_are_made(tmp_path: Path, properties: dict[str, str], arguments: list[str]) -> None:
    """S4-19, S4-40, B-T03: lines, files, bytes of both checkpoints but for times; directory ids where they are given."""
    made = format_by(ours, tmp_path / "ours", properties, arguments)
    wanted = format_by(theirs, tmp_path / "theirs", properties, arguments)
    assert made[:2] == wanted[:2]
    files = {
        side: sorted(path.relative_to(tmp_path / side) for path in (tmp_path / side / "d").rglob("*.*"))
        for side in ("ours", "theirs")
    }
    assert files["ours"] == files["theirs"]
    for path in files["ours"]:
        mine, other = (tmp_path / side / path for side in ("ours", "theirs"))
        if path.suffix == ".checkpoint":
            assert without_times(mine.read_bytes()) == without_times(other.read_bytes()), path
    if "-I" in arguments and properties is DYNAMIC and VOTERS in arguments:
        found = read_meta_properties(OsFiles(), str(tmp_path / "ours/d"))
        assert found is not None
        assert str(found.directory_id) == FIRST


REFUSED = {
    "no flag": (DYNAMIC, []),
    "static voters and --standalone": (STATIC, ["-s"]),
    "static voters and --initial-controllers": (STATIC, ["-I", VOTERS]),
    "kraft.version=1 with static voters": (STATIC, ["-f", "kraft.version=1"]),
    "kraft.version=0 with --standalone": (DYNAMIC, ["-s", "-f", "kraft.version=0"]),
    "kraft.version=0 on a broker": (BROKER, ["-f", "kraft.version=0"]),
    "--standalone on a broker": (BROKER, ["-s"]),
    "an unknown release": (STATIC, ["-r", "9.9"]),
}


@pytest.mark.parametrize(("properties", "arguments"), REFUSED.values(), ids=REFUSED.keys())
def test_the_same_is_refused_in_the_same_words(
    tmp_path: Path, properties: dict[str, str], arguments: list[str]
) -> None:
    """S4-19, S4-40, B-T03: nothing is made then."""
    code, out, error = format_by(ours, tmp_path / "ours", properties, arguments)
    other_code, other_out, other_error = format_by(theirs, tmp_path / "theirs", properties, arguments)
    assert (code, out) == (other_code, other_out) == (1, [])
    assert error.strip() == other_error.strip()
    assert not (tmp_path / "ours/d").exists()


def test_kafkas_tools_read_what_we_formatted(tmp_path: Path) -> None:
    """B-T02, B-T03, B-T09: kafka-storage info and kafka-dump-log on our directories, and ours on Kafka's, say the same."""
    for side, tool in (("ours", ours), ("theirs", theirs)):
        format_by(tool, tmp_path / side, COMBINED, ["-s"])
        config = str(tmp_path / side / "server.properties")
        read_by_kafka, read_by_us = theirs("info", "-c", config), ours("info", "-c", config)
        assert read_by_kafka[:2] == read_by_us[:2]
        assert read_by_kafka[0] == 0
        for name in ("bootstrap.checkpoint", ZERO_CHECKPOINT):
            dump = ["--cluster-metadata-decoder", "--files", str(tmp_path / side / "d/m" / name)]
            assert kafka.run_tool("kafka-dump-log", *dump).stdout == headrace("dump-log", *dump).out
