"""Is the reference what the code says?"""

from __future__ import annotations

from tools import reference


def test_the_pages_are_what_the_tool_makes_of_the_code() -> None:
    """`make reference` renews them."""
    assert reference.stale() == [], "`make reference` renews these pages"
