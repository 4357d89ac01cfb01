"""One node for the tests of this folder that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.node import Node


@pytest.fixture(scope="session")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Use topics of your own."""
    properties = {"headrace.frame.timeout.ms": "1000", "socket.request.max.bytes": "2097152"}
    with Node(directory=tmp_path_factory.mktemp("node"), properties=properties) as node:
        yield node
