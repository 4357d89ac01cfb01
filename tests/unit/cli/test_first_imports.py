"""Can each command be the first code of Headrace that a process reads? Most tests start commands as copies of a process that has read all of it."""

from __future__ import annotations

import subprocess
import sys

from headrace.cli.main import COMMANDS

PROGRAM = """
import os, sys
from importlib import import_module

ended = {}
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        import_module(f"headrace.cli.{name.replace('-', '_')}")
        os._exit(0)
    ended[name] = os.waitpid(child, 0)[1]
print(*(name for name, status in ended.items() if status))
"""


def test_each_command_can_be_read_before_all_others() -> None:
    """Each in a copy of an interpreter that has read nothing yet."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *COMMANDS], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")
