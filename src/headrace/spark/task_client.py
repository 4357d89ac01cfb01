"""Clients of a Spark worker that outlive a task: the next one of the same query need not connect, log in and look up nodes again.

Spark gives a worker one task at a time, and ends workers that have had none for a minute; connections go with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.spark.cluster import open_client

if TYPE_CHECKING:
    from headrace.client.blocking import BlockingClient

MOST_KEPT: Final = 4
"""So many clients, for as many clusters or users, a worker keeps."""
_idle: Final[dict[frozenset[tuple[str, str]], BlockingClient]] = {}


@contextmanager
def task_client(properties: Mapping[str, str]) -> Iterator[BlockingClient]:
    """A client for these `kafka.` settings. It is kept if all went well; what a task that failed, or was told to stop, left on its connections is nobody's."""
    settings = frozenset(properties.items())
    client = _idle.pop(settings, None)
    if client is None:
        client = open_client(properties, is_cluster_known=True)
    try:
        yield client
    except BaseException:
        client.close()
        raise
    if len(_idle) >= MOST_KEPT:
        _idle.pop(next(iter(_idle))).close()
    _idle[settings] = client
