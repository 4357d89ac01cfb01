"""Are processes that are forked off a nursery as those of a new interpreter, to the test that starts them and to themselves?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.testing import Node
from tests.support.nursery import READ_ALREADY

HEADRACE = [sys.executable, "-m", "headrace"]
WAITING = ["console-producer", "--bootstrap-server", "127.0.0.1:1", "--topic", "t"]
"""A command that reads its standard input to the end."""


def is_forked(pid: int) -> bool:
    """By the command line that its memory was begun with."""
    return b"nursery.py" in Path(f"/proc/{pid}/cmdline").read_bytes()


def descriptors(listed: Path) -> dict[str, Path]:
    """What a process has open, by number; it may close one while it is looked at, and then that one is none of it."""
    found = {}
    for number in os.listdir(listed):
        with suppress(FileNotFoundError):
            found[number] = (listed / number).readlink()
    return found


def children() -> set[int]:
    """This process's, as the kernel knows them."""
    return {int(each) for each in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


@pytest.mark.skipif(sys.platform != "linux", reason="a process is adopted as Linux does it")
def test_a_node_is_a_child_of_the_test_that_starts_it() -> None:
    """It has the test as its parent, and ends with a signal of the test's."""
    with Node() as node:
        pid = node.pid
        assert is_forked(pid)
        assert pid in children()
        assert os.getpgid(pid) == os.getpgrp()
        node.kill()
    assert pid not in children()


@pytest.mark.parametrize("arguments", [("--version",), ("no-command",), ("topics", "--list"), ("topics", "--help")])
def test_it_ends_as_in_an_interpreter_of_its_own(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Output, errors and exit code, with piped output and with files."""
    forked = subprocess.run([*HEADRACE, *arguments], capture_output=True, check=False)
    own = subprocess.run([sys.executable, "-B", "-m", "headrace", *arguments], capture_output=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([*HEADRACE, *arguments], stdout=out, stderr=subprocess.STDOUT, check=False)
    assert (tmp_path / "out").read_bytes() == own.stdout + own.stderr


def test_it_has_the_surroundings_that_it_is_given(tmp_path: Path) -> None:
    """Environment, directory, session, and no descriptors of the test's but those that are passed on."""
    held = os.open(os.devnull, os.O_RDONLY)
    passed, other_end = os.pipe()
    environment = {**os.environ, "LOG_DIR": str(tmp_path / "elsewhere")}
    process = subprocess.Popen(
        [*HEADRACE, *WAITING],
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
        pass_fds=(passed,),
        start_new_session=True,
    )
    try:
        place = Path(f"/proc/{process.pid}")
        assert (place / "cwd").readlink() == tmp_path
        assert os.getsid(process.pid) == process.pid
        has = descriptors(place / "fd")
        assert has[str(passed)] == Path(f"/proc/self/fd/{passed}").readlink()
        assert Path(f"/proc/self/fd/{other_end}").readlink() in has.values()  # the same pipe
        assert str(held) not in has
    finally:
        process.kill()
        process.communicate()
        for each in (held, passed, other_end):
            os.close(each)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["-B"], {}),
        ([], {"env": {**os.environ, "PYTHONHASHSEED": "7"}}),
        ([], {"env": {**os.environ, "LD_PRELOAD": ""}}),
        ([], {"umask": 0o077}),
    ],
)
def test_what_asks_for_more_has_an_interpreter_of_its_own(flags: list[str], options: Mapping[str, Any]) -> None:
    """Flags of the interpreter, variables that it reads before anything else, rights."""
    command = [sys.executable, *flags, "-m", READ_ALREADY[0], *WAITING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, **options) as process:
        assert not is_forked(process.pid)
        process.kill()
