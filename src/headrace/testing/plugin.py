"""Which fixture does pytest find after an install? ``headrace_node``: a real node for one test, in its process, gone after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headrace.testing.node import Node


@pytest.fixture
def headrace_node() -> Iterator[Node]:
    """A running node with temporary data on a random port of 127.0.0.1; ``headrace_node.bootstrap_servers`` says where."""
    from headrace.testing.node import Node

    with Node(in_process=True) as node:
        yield node
