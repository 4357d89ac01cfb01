"""Do `headrace storage` and kafka-storage 4.3.1 give the same lines and exit codes, also on each other's directories?"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.core.errors import OperatorError
from tests.peers import kafka

pytestmark = pytest.mark.java

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
PLAIN = kafka.plain_features()


def properties(directory: Path, *, is_dynamic: bool = False) -> str:
    """A server.properties whose two log directories lie in `directory`."""
    quorum = "bootstrap.servers=127.0.0.1:2" if is_dynamic else "voters=1@127.0.0.1:2"
    file = directory / "server.properties"
    directory.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.{quorum}\nlog.dirs={directory}/a,{directory}/b\n"
    )
    return str(file)


class Outcome:
    """Exit code and printed lines, without their order and without what differs from run to run."""

    def __init__(self, code: int, out: str, err: str, directory: Path) -> None:
        self.code = code
        self.lines = sorted(line.replace(str(directory), "DIR") for line in out.splitlines())
        self.errors = err.replace(str(directory), "DIR")

    def __repr__(self) -> str:
        return f"{self.code} {self.lines} {self.errors}"


def ours(capsys: pytest.CaptureFixture[str], directory: Path, *arguments: str) -> Outcome:
    try:
        code = run(["storage", *arguments])
    except OperatorError as error:
        return Outcome(1, capsys.readouterr().out, str(error), directory)
    printed = capsys.readouterr()
    return Outcome(code, printed.out, printed.err, directory)


def kafkas(directory: Path, *arguments: str) -> Outcome:
    done = kafka.run_tool("kafka-storage", *arguments)
    return Outcome(done.returncode, done.stdout, done.stderr, directory)


@pytest.mark.parametrize(
    ("arguments", "is_dynamic"),
    [
        ((), False),
        (("-r", "3.8-IV0"), False),
        (("-r", "2.8"), False),
        (("-f", "foo=1"), False),
        (("-f", "group.version"), False),
        (("-s",), False),
        ((), True),
        (("-s",), True),
        (("-N",), True),
        (("-s", "-f", "kraft.version=0"), True),
    ],
)
def test_formatting_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], *, is_dynamic: bool
) -> None:
    """B-T03: with the features that are not built at 0; what is written, what is refused, exit codes."""
    there, here = tmp_path / "kafka", tmp_path / "ours"
    features = () if "foo=1" in arguments or "group.version" in arguments else tuple(PLAIN)
    told = ("format", "-t", CLUSTER, *features, *arguments, "-c")
    expected = kafkas(there, *told, properties(there, is_dynamic=is_dynamic))
    found = ours(capsys, here, *told, properties(here, is_dynamic=is_dynamic))
    assert found.code == expected.code, (found, expected)
    assert found.lines == expected.lines
    if expected.code:
        wanted = expected.errors.splitlines()[0].removeprefix('Exception in thread "main" java.lang.RuntimeException: ')
        assert found.errors.startswith(wanted)
    names = sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()) == names


def test_each_reads_the_others_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """S1-01, B-T02, B-T03: info on both, formatted by either; formatting again is refused in the same words."""
    there, here = tmp_path / "kafka", tmp_path / "ours"
    their_file, our_file = properties(there), properties(here)
    assert kafkas(there, "info", "-c", their_file).lines == ours(capsys, there, "info", "-c", their_file).lines
    assert kafkas(there, "format", "-t", CLUSTER, *PLAIN, "-c", their_file).code == 0
    assert ours(capsys, here, "format", "-t", CLUSTER, "-c", our_file).code == 0
    for directory, file in ((there, their_file), (here, our_file)):
        expected, found = kafkas(directory, "info", "-c", file), ours(capsys, directory, "info", "-c", file)
        assert (found.code, found.lines) == (expected.code, expected.lines)
        assert expected.code == 0
    again = kafkas(here, "format", "-t", CLUSTER, "-c", our_file)
    refused = ours(capsys, there, "format", "-t", CLUSTER, "-c", their_file)
    assert (refused.code, again.code) == (1, 1)
    assert "is already formatted. Use --ignore-formatted" in refused.errors
    assert "is already formatted. Use --ignore-formatted" in again.errors
