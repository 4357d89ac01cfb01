"""What is said of a name that nobody knows."""

from __future__ import annotations

from headrace.core.nearest import did_you_mean, nearest_name

KNOWN = ("log.dirs", "log.dir", "node.id")


def test_the_most_alike_name_is_named() -> None:
    assert nearest_name("log.dirss", KNOWN) == "log.dirs"
    assert did_you_mean("node.ids", KNOWN) == "; did you mean node.id?"


def test_nothing_is_said_where_none_is_alike_enough() -> None:
    assert nearest_name("process.roles", KNOWN) is None
    assert nearest_name("nodes.ids", KNOWN, least=0.9) is None
    assert did_you_mean("process.roles", KNOWN) == ""
