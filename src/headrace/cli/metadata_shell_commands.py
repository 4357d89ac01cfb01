"""The commands of the metadata shell (KIP-631; B-T10).

Each command is a function of the shell's state and its words; it gives lines, and says in `Shell.has_failed` that something was not there.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.metadata.tree import Directory, Leaf, Node

_USAGE_WIDTH = 75
_HELP_COLUMN = 23


@dataclass(slots=True, kw_only=True)
class Shell:
    """The state of one shell: what it looks at and where it stands. `width` is the terminal's, None when output is piped."""

    root: Directory
    working_directory: str = "/"
    history: list[str] = field(default_factory=list)
    width: int | None = None
    has_failed: bool = False
    is_over: bool = False


class Found(NamedTuple):
    """A node that a path leads to."""

    path: tuple[str, ...]
    node: Node

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path[-1] if self.path else "/"


class Command(NamedTuple):
    """A command of the shell. `takes` is its argument: name, least and most number, help."""

    run: Callable[[Shell, list[str]], Iterator[str]]
    description: str
    takes: tuple[str, int, int | None, str] | None = None
    is_interactive: bool = False


def execute(shell: Shell, words: list[str], *, is_interactive: bool) -> Iterator[str]:
    """The lines of one command line; what is wrong with it is a line too."""
    while words and not words[-1]:
        words = words[:-1]
    if not words:
        return
    known = [name for name, each in COMMANDS.items() if is_interactive or not each.is_interactive]
    name, rest = words[0], words[1:]
    if name not in known:
        shell.has_failed = True
        near = [each for each in known if each.startswith(name)]
        choices = ", ".join(f"'{each}'" for each in known)
        why = f"did you mean '{near[0]}'?" if len(near) == 1 else None
        yield f"invalid choice: '{name}': {why}" if why else f"invalid choice: '{name}' (choose from {choices})"
        return
    command = COMMANDS[name]
    problem = _arguments_problem(command, rest)
    if problem is not None:
        shell.has_failed = True
        yield problem
        return
    yield from command.run(shell, rest)


def _arguments_problem(command: Command, words: list[str]) -> str | None:
    _, least, most, _ = command.takes or ("", 0, 0, "")
    if len(words) < least:
        return "too few arguments"
    if most is not None and len(words) > most:
        return f"unrecognized arguments: '{' '.join(words[most:])}'"
    return None


# Paths


def parts_of(shell: Shell, path: str) -> list[str]:
    """The parts of a path from the root on, without `.` and `..`."""
    whole = path if path.startswith("/") else f"{shell.working_directory}/{path}"
    parts: list[str] = []
    for part in filter(None, whole.split("/")):
        if part == "..":
            del parts[-1:]
        elif part != ".":
            parts.append(part)
    return parts


def find(shell: Shell, path: str) -> list[Found]:
    """Every node that a path leads to, in the order of names; `*`, `?` and `{a,b}` may stand in a part."""
    found = [Found((), shell.root)]
    for part in parts_of(shell, path):
        pattern = glob_pattern(part)
        onward: list[Found] = []
        for where in found:
            if not isinstance(where.node, Directory):
                continue
            names = [part] if pattern is None else [each for each in where.node.names() if pattern.fullmatch(each)]
            for name in names:
                child = where.node.child(name)
                if child is not None:
                    onward.append(Found((*where.path, name), child))
        found = onward
    return found


def glob_pattern(glob: str) -> re.Pattern[str] | None:
    """The regular expression of a path's part; None when it stands for itself, or is malformed."""
    out: list[str] = []
    is_literal, in_group = True, False
    letters = iter(glob)
    for letter in letters:
        if letter == "\\":
            out.append(re.escape(next(letters, letter)))
            continue
        special = {"?": ".", "*": ".*", "{": "(?:(?:"}.get(letter)
        if in_group:
            special = {",": ")|(?:", "}": "))"}.get(letter, special)
        if letter == "{" and in_group:
            return None
        in_group = letter == "{" or (in_group and letter != "}")
        is_literal = is_literal and special is None
        out.append(special or re.escape(letter))
    return None if is_literal or in_group else re.compile("".join(out), re.DOTALL)


# Commands


def _cat(shell: Shell, paths: list[str]) -> Iterator[str]:
    for path in paths:
        found = find(shell, path)
        for each in found:
            if isinstance(each.node, Leaf):
                yield each.node.text
            else:
                shell.has_failed = True
                yield f"cat: {path}: Is a directory"
        if not found:
            shell.has_failed = True
            yield f"cat: {path}: No such file or directory."


def _cd(shell: Shell, paths: list[str]) -> Iterator[str]:
    target = paths[0] if paths else "/"
    found = find(shell, target)
    for each in found:
        if isinstance(each.node, Directory):
            shell.working_directory = "/" + "/".join(each.path)
        else:
            shell.has_failed = True
            yield f"cd: {target}: not a directory."
    if not found:
        shell.has_failed = True
        yield f"cd: {target}: no such directory."


def _exit(shell: Shell, _: list[str]) -> Iterator[str]:
    shell.is_over = True
    yield from ()


def _find(shell: Shell, paths: list[str]) -> Iterator[str]:
    for path in list(filter(None, paths)) or ["."]:
        found = find(shell, path)
        for each in found:
            yield from _walk(path, each.node)
        if not found:
            shell.has_failed = True
            yield f"find: {path}: no such file or directory."


def _walk(path: str, node: Node) -> Iterator[str]:
    yield path
    if isinstance(node, Directory):
        for name in node.names():
            child = node.child(name)
            if child is not None:
                yield from _walk(f"{path}{name}" if path == "/" else f"{path}/{name}", child)


def _help(_: Shell, __: list[str]) -> Iterator[str]:
    yield "Welcome to the Headrace metadata shell."
    yield ""
    yield f"usage:  {{{','.join(COMMANDS)}}} ..."
    yield ""
    yield "positional arguments:"
    yield f"  {{{','.join(COMMANDS)}}}"
    for name, each in COMMANDS.items():
        lines = textwrap.wrap(each.description, _USAGE_WIDTH - _HELP_COLUMN - 2)
        yield f"    {name}".ljust(_HELP_COLUMN + 2) + lines[0]
        yield from (" " * (_HELP_COLUMN + 2) + line for line in lines[1:])


def _history(shell: Shell, words: list[str]) -> Iterator[str]:
    if words and not re.fullmatch(r"-?[0-9]+", words[0]):
        shell.has_failed = True
        yield f"argument numEntriesToShow: could not convert '{words[0]}' to Integer ({words[0]})"
        return
    count = max(int(words[0]), 0) if words else len(shell.history)
    first = max(len(shell.history) - count, 0)
    for number, line in enumerate(shell.history[first:], first):
        yield f"{number:5d}  {line}"


def _ls(shell: Shell, paths: list[str]) -> Iterator[str]:
    files: list[str] = []
    directories: list[tuple[str, list[str]]] = []
    for path in list(filter(None, paths)) or ["."]:
        found = find(shell, path)
        for each in found:
            if isinstance(each.node, Directory):
                directories.append((each.name, each.node.names()))
            else:
                files.append(each.name)
        if not found:
            shell.has_failed = True
            yield f"ls: {path}: no such file or directory."
    yield from columns(files, shell.width)
    is_told = bool(files) or len(directories) > 1
    is_first = not files
    for name, children in directories:
        if is_told and not is_first and children:
            yield ""
        if is_told:
            is_first = False
            if children:
                yield f"{name}:"
        yield from columns(children, shell.width)


def columns(entries: list[str], width: int | None) -> list[str]:
    """Names in as many columns as fit on the terminal, going down first; one column in a pipe."""
    if not entries:
        return []
    for count in range((width or 0) // 4, 1, -1):
        depth = -(-len(entries) // count)
        parts = [entries[at : at + depth] for at in range(0, len(entries), depth)]
        widths = [max(map(len, part)) + 2 for part in parts]
        if len(parts) == count and sum(widths) <= (width or 0):
            rows = [[part[row] for part in parts if row < len(part)] for row in range(depth)]
            return ["".join(name.ljust(size) for name, size in zip(row, widths, strict=False)).rstrip() for row in rows]
    return entries


def _man(shell: Shell, words: list[str]) -> Iterator[str]:
    name = words[0]
    if name not in COMMANDS:
        shell.has_failed = True
        yield f"man: unknown command {name}. Type help to get a list of commands."
        return
    command = COMMANDS[name]
    yield f"{name}: {command.description}"
    yield ""
    if command.takes is None:
        yield f"usage: {name}"
        return
    argument, least, most, text = command.takes
    usage = {(1, 1): argument, (0, 1): f"[{argument}]", (1, None): f"{argument} [{argument} ...]"}
    yield f"usage: {name} {usage.get((least, most), f'[{argument} [{argument} ...]]')}"
    yield ""
    yield "positional arguments:"
    yield f"  {argument}".ljust(_HELP_COLUMN + 2) + text


def _pwd(shell: Shell, _: list[str]) -> Iterator[str]:
    yield shell.working_directory


def _tree(shell: Shell, paths: list[str]) -> Iterator[str]:
    for path in paths:
        found = find(shell, path)
        for each in found:
            yield from _print(each.node, "")
        if not found:
            shell.has_failed = True
            yield f"tree: {path}: No such file or directory."


def _print(node: Node, indent: str) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield f"{indent}{node.text}"
        return
    for name in node.names():
        yield f"{indent}{name}:"
        child = node.child(name)
        if child is not None:
            yield from _print(child, f"{indent}  ")


COMMANDS: dict[str, Command] = {
    "cat": Command(
        _cat, "Show the contents of metadata files.", ("targets", 1, None, "The metadata files to display.")
    ),
    "cd": Command(
        _cd,
        "Set the current working directory.",
        ("target", 0, 1, "The directory to change to."),
        is_interactive=True,
    ),
    "exit": Command(_exit, "Exit the metadata shell.", is_interactive=True),
    "find": Command(
        _find, "Search for nodes in the directory hierarchy.", ("paths", 0, None, "The paths to start at.")
    ),
    "help": Command(_help, "Display this help message.", is_interactive=True),
    "history": Command(
        _history,
        "Print command history.",
        ("numEntriesToShow", 0, 1, "The number of entries to show."),
        is_interactive=True,
    ),
    "ls": Command(_ls, "List metadata nodes.", ("targets", 0, None, "The metadata node paths to list.")),
    "man": Command(
        _man,
        "Show the help text for a specific command.",
        ("cmd", 1, 1, "The command to get help text for."),
        is_interactive=True,
    ),
    "pwd": Command(_pwd, "Print the current working directory.", is_interactive=True),
    "tree": Command(
        _tree,
        "Show the contents of metadata nodes in a tree structure.",
        ("targets", 1, None, "The metadata nodes to display."),
    ),
}


def completions(shell: Shell, words: list[str]) -> list[str]:
    """What the last of `words` may go on with: a command, or a path."""
    if len(words) <= 1:
        begun = words[0] if words else ""
        return [name for name in COMMANDS if name.startswith(begun)]
    if words[0] == "man":
        return [name for name in COMMANDS if name.startswith(words[-1])]
    if words[0] not in ("cat", "cd", "find", "ls", "tree"):
        return []
    head, slash, begun = words[-1].rpartition("/")
    where = find(shell, head + slash or ".")
    if not where or not isinstance(where[0].node, Directory):
        return []
    names = [name for name in where[0].node.names() if name.startswith(begun)]
    is_directory = {name: isinstance(where[0].node.child(name), Directory) for name in names}
    return [f"{head}{slash}{name}{'/' if is_directory[name] else ''}" for name in names]
