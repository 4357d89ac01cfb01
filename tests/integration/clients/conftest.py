"""Which broker do other makers' clients talk to? One Headrace node for the whole folder.

``HEADRACE_TEST_BOOTSTRAP=host:port`` runs the same scenarios against another broker, Apache Kafka for instance: what a scenario
expects is what Kafka does.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from headrace.testing import Node


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """``host:port`` of the broker under test."""
    other = os.environ.get("HEADRACE_TEST_BOOTSTRAP")
    if other:
        yield other
        return
    with Node() as node:
        yield node.bootstrap_servers


@pytest.fixture(scope="session")
def new_name() -> Callable[[str], str]:
    """A name for a topic or a group that no other test of this run uses."""
    numbers = itertools.count()
    return lambda what: f"{what}-{os.getpid()}-{next(numbers)}"
