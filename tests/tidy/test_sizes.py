"""Is every function and file of a size that can be read at once?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 500

# What is over a limit today, with its size. The numbers only go down; a line that is no longer needed must go.
LONG_FILES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}
# Generated from Kafka's definitions, or facts in tables: their length says nothing about how they read.
TABLES = ("src/headrace/wire/messages/", "src/headrace/wire/metadata_records/", "src/headrace/wire/group_records/")


def _sources() -> list[Path]:
    return sorted((ROOT / "src").rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _statements(within: ast.AST) -> Iterator[ast.AST]:
    """All of them, at any depth; not what expressions are made of."""
    for node in ast.iter_child_nodes(within):
        if not isinstance(node, ast.expr):
            yield node
            yield from _statements(node)


def _functions(path: Path) -> dict[str, int]:
    """Of several with the same name the longest."""
    sizes: dict[str, int] = {}
    for node in _statements(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            name = f"{_name(path)}:{node.name}"
            sizes[name] = max(sizes.get(name, 0), node.end_lineno - node.lineno + 1)
    return sizes


def test_no_file_is_longer_than_the_limit() -> None:
    """House rule: 500 lines a file; an exception is listed with its size, which only goes down."""
    sizes = {
        _name(path): len(path.read_text().splitlines()) for path in _sources() if not _name(path).startswith(TABLES)
    }
    over = {name: size for name, size in sizes.items() if size > LONG_FILES.get(name, MAX_FILE_LINES)}
    assert over == {}
    assert {name for name in LONG_FILES if sizes.get(name, 0) <= MAX_FILE_LINES} == set()


def test_no_function_is_longer_than_the_limit() -> None:
    """House rule: 60 lines a function; an exception is listed with its size, which only goes down."""
    sizes = {name: size for path in _sources() for name, size in _functions(path).items()}
    over = {name: size for name, size in sizes.items() if size > LONG_FUNCTIONS.get(name, MAX_FUNCTION_LINES)}
    assert over == {}
    assert {name for name in LONG_FUNCTIONS if sizes.get(name, 0) <= MAX_FUNCTION_LINES} == set()


@pytest.mark.parametrize("folder", ["src", "tests", "tools", "benchmarks", "docs"])
def test_no_path_of_a_machine_is_named(folder: str) -> None:
    """A checkout works wherever it lies: nothing names a home directory."""
    homes = ("/ro" + "ot/", "/ho" + "me/", "/wo" + "rk/")
    found = [
        _name(path)
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".toml", ".txt", ".sh", ".json", ".java"}
        and any(home in path.read_text(errors="replace") for home in homes)
    ]
    assert found == []
