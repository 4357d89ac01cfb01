"""How are transcripts read, run, compared and rewritten?

A file begins with the rule it shows (lines with `#`). Then come blocks, apart by one empty line: commands, a line `----`, and what
came out. All blocks of a file run on one machine, in order. With HEADRACE_REWRITE_TRANSCRIPTS=1 the outputs are
rewritten (`make transcripts`); the diff is to be read line by line.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

SEPARATOR = "----"
HERE = Path(__file__).parent
Runner = Callable[[str], list[str]]
"""One command in, lines out."""


def transcripts(kind: str) -> list[Path]:
    """The files of one kind, by name."""
    return sorted((HERE / kind).glob("*.txt"))


def play(path: Path, run: Runner) -> None:
    """Run a file's commands; fail, or rewrite the file, when something else comes out."""
    told = path.read_text()
    title, blocks = _parse(told)
    assert title, f"{path.name} does not say which rule it shows"
    parts = [title]
    for commands in blocks:
        lines = [line.rstrip() for command in commands for line in run(command)]
        parts.append("\n".join([*commands, SEPARATOR, *lines]))
    found = "\n\n".join(parts) + "\n"
    if os.environ.get("HEADRACE_REWRITE_TRANSCRIPTS") == "1":
        path.write_text(found)
    else:
        assert found == told


def _parse(text: str) -> tuple[str, list[list[str]]]:
    """The title, and the commands of each block."""
    title: list[str] = []
    blocks: list[list[str]] = []
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        if lines[0].startswith("#") and not blocks:
            title += lines
            continue
        end = lines.index(SEPARATOR) if SEPARATOR in lines else len(lines)
        blocks.append(lines[:end])
    return "\n".join(title), blocks


def words(command: str) -> tuple[str, list[str], dict[str, str]]:
    """A command's name, its plain words, and its `key=value` words."""
    name, *rest = command.split()
    options = dict(word.split("=", 1) for word in rest if "=" in word)
    return name, [word for word in rest if "=" not in word], options
