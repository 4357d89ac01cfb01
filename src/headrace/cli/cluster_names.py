"""Names that only the cluster knows, for the shell's completion: topics and groups.

The cluster that the command line names so far is asked, with little patience: who presses the tab key at a dead address waits a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from headrace.cli.shell import connect
from headrace.core.errors import OperatorError, PeerError

if TYPE_CHECKING:
    from headrace.client.blocking import BlockingClient

PATIENCE = {
    "socket.connection.setup.timeout.ms": "1000",
    "request.timeout.ms": "1000",
    "default.api.timeout.ms": "1000",
}


def topic_names(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """The topics whose names begin so; internal ones only when their underscores were typed."""
    from headrace.client.admin_topics import list_topics

    found = _asked(context, lambda client: client.run(list_topics))
    return sorted(name for name in found if name.startswith(begun) and (begun or not name.startswith("__")))


def group_ids(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """The groups whose ids begin so."""
    from headrace.client.groups import list_groups

    found = _asked(context, lambda client: [each.group_id for each in client.run(list_groups)])
    return sorted(name for name in found if name.startswith(begun))


def _asked(context: click.Context, ask: Callable[[BlockingClient], Iterable[str]]) -> Iterable[str]:
    """What the cluster says; nothing when it cannot be asked, since a completion has no place for an error."""
    given = context.params
    try:
        with connect(
            given.get("bootstrap_server"),
            given.get("command_config"),
            bootstrap_controller=given.get("bootstrap_controller"),
            overrides=PATIENCE,
        ) as client:
            return ask(client)
    except (OperatorError, PeerError, OSError):
        return ()
