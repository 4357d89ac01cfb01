"""How does a test run `headrace` as a user does?"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def headrace(*arguments: str, stdin: str | None = None, timeout_s: float = 60, **environment: str) -> Done:
    """Run `headrace ARGUMENTS` to its end, its output piped."""
    done = subprocess.run(
        [sys.executable, "-m", "headrace", *arguments],
        input=stdin or "",
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **environment},
    )
    return Done(done.returncode, done.stdout, done.stderr)


def refusal(*arguments: str, stdin: str | None = None) -> str:
    """The one line on standard error of a command that must fail with exit code 1 (B78)."""
    done = headrace(*arguments, stdin=stdin)
    assert done.code == 1, (arguments, done)
    assert "Traceback" not in done.err
    lines = [line for line in done.err.splitlines() if line]
    assert len(lines) == 1, (arguments, done)
    return lines[0]
