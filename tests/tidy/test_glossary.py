"""Is the glossary in order?"""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_each_word_stands_once_and_in_its_place() -> None:
    """Sorted, so that a word is found; each with a meaning."""
    rows = re.findall(r"(?m)^\| (?!word|---)(.+?) \| (.+?) \|", PAGE.read_text())
    words = [word.lower() for word, _ in rows]
    assert words == sorted(set(words))
    assert [word for word, meaning in rows if len(meaning.split()) < 4] == []
