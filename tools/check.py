"""What must hold before a commit? Format, lint, types, import contracts and the fast tests, at once; the first failure is told last.

Run as ``python tools/check.py [--static] TEST_FOLDERS...``; exits with 1 when any part fails. The parts run side by side,
because the type check and the tests each keep one core busy.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

STATIC = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "imports": ["importlinter.cli", "lint"],
}


def _command(name: str, parts: Sequence[str]) -> list[str]:
    module, *rest = parts
    if name == "imports":
        return [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"]
    return [sys.executable, "-m", module, *rest]


def _run(name: str, command: Sequence[str]) -> tuple[str, float, subprocess.CompletedProcess[str]]:
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return name, time.monotonic() - started, done


def main(arguments: Sequence[str]) -> int:
    """Run the parts, print one line for each and the output of those that failed."""
    commands = {name: _command(name, parts) for name, parts in STATIC.items()}
    if arguments and arguments[0] != "--static":
        commands["tests"] = [sys.executable, "-m", "pytest", "-q", *arguments]
    failed = []
    with ThreadPoolExecutor(2) as pool:
        for name, took_s, done in pool.map(lambda item: _run(*item), commands.items()):
            print(f"{name:8} {'ok' if done.returncode == 0 else 'FAILED'} ({took_s:.1f} s)", flush=True)
            if done.returncode:
                failed.append(f"--- {name}\n{done.stdout}{done.stderr}")
    print("\n".join(failed), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
