"""Do all tests of the Spark session go to one worker, and does every other file go by itself?"""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.scheduling import SPARK, unit

ROOT = Path(__file__).parents[2]
OF_THE_SESSION = {"spark", "load"}
"""Fixtures of `tests/spark/conftest.py` that need it."""


def test_files_are_handed_out_with_what_they_share() -> None:
    """A test that asks for the session has the unit of them all."""
    for file in (ROOT / SPARK).glob("test_*.py"):
        functions = [each for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.FunctionDef)]
        tests = [each for each in functions if each.name.startswith("test_")]
        shares = any(OF_THE_SESSION & {argument.arg for argument in each.args.args} for each in tests)
        name = f"{SPARK}/{file.name}"
        assert unit(f"{name}::test_any[a-b]") == (SPARK if shares else name)
    assert unit("tests/unit/core/test_ids.py::Class::test_any[a::b]") == "tests/unit/core/test_ids.py"
