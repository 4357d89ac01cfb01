"""First lines of modules, which are looked for by their nouns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_QUESTION = re.compile(r"(What|How|Which|Who|Whose|Where|When|Why|Is|Are|Does|Do|May|Must|Can) [^.]*\?")


def test_a_module_begins_with_a_noun_phrase() -> None:
    """House rule: the first line says what the thing is; it asks nothing."""
    asking = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
        if _QUESTION.match(first):
            asking[path.relative_to(ROOT).as_posix()] = first
    assert asking == {}
