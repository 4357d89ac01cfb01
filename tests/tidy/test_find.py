"""Does `docs/find.md` lead to what it names?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "find.md"
NAMED = sorted(set(re.findall(r"`([\w/]+\.py):(\w+)`", PAGE.read_text())))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_name_is_in_its_file(file: str, name: str) -> None:
    """A class, function, constant or field that the page names is made in the file that it names, not only used there."""
    text = (ROOT / "src" / "headrace" / file).read_text()
    made = rf"(?m)^\s*(?:(?:async )?def|class) {name}\b|^\s*(?:self\.)?{name}\b\s*[:=]"
    assert re.search(made, text) is not None


def test_twelve_things_and_more_are_found() -> None:
    """Every row leads to a file or a page."""
    rows = re.findall(r"(?m)^\| (?!looking for|---)(.+?) \| (.+?) \| (.*?) ?\|$", PAGE.read_text())
    assert len(rows) >= 12
    assert [row for row in rows if "`" not in row[1] and "](" not in row[1]] == []
