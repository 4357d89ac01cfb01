"""The wait until brokers have done what was decided (`--wait-ms`): asked again and again, shown as a progress bar to a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import click

from headrace.cli.reassignment_file import name_of
from headrace.cli.shell import F
from headrace.client import admin_placement
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition

_POLL_S = 0.1
_ANSWER_MS = 2_000
"""How long one broker may take to say what is in its directories, before it is asked again."""


class Progress(NamedTuple):
    """How far something is: `left` says what is missing, one text each; nothing left is the end."""

    done: int
    total: int
    left: list[str]


def wait_option(function: F) -> F:
    """`--wait-ms`."""
    return click.option(
        "--wait-ms",
        type=click.IntRange(min=0),
        metavar="MS",
        help="Wait until every live broker has done its part; exit code 1 with the brokers that are missing after MS milliseconds.",
    )(function)


def wait_for(look: Callable[[int], Progress], wait_ms: int, what: str) -> None:
    """Call `look` with the milliseconds that are left until it finds nothing left. Raises OperatorError at the end of `wait_ms`."""
    end = time.monotonic() + wait_ms / 1000
    with progress_bar(what) as show:
        while True:
            left_ms = round(max(0.0, end - time.monotonic()) * 1000)
            found = look(left_ms)
            show(found)
            if not found.left:
                return
            if left_ms == 0:
                raise OperatorError(f"{what}: not done after {wait_ms} ms: {'; '.join(found.left)}")
            time.sleep(min(_POLL_S, left_ms / 1000))


@contextmanager
def impatient(client: BlockingClient, wait_ms: int) -> Iterator[None]:
    """Meanwhile no single broker is waited for long: one that hangs must not use up what the others may take."""
    before = client.session.settings
    client.session.settings = replace(
        before,
        request_timeout_ms=min(before.request_timeout_ms, _ANSWER_MS),
        default_api_timeout_ms=max(_ANSWER_MS, wait_ms),
    )
    try:
        yield
    finally:
        client.session.settings = before


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on standard error, if a person looks at it."""
    if not sys.stderr.isatty():
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[missing]}", markup=False),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, missing="")

        def show(progress: Progress) -> None:
            missing: Any = progress.left[0] if progress.left else ""
            bar.update(task, completed=progress.done, total=progress.total, missing=missing, refresh=True)

        yield show


def wait_for_replicas(
    client: BlockingClient,
    wait_ms: int,
    what: str,
    *,
    present: Mapping[TopicPartition, Iterable[int]] | None = None,
    absent: Callable[[TopicPartition, int], bool] = lambda _where, _broker_id: False,
) -> None:
    """Wait until each live broker has its replicas of `present`, and none of which `absent` says that it should be gone.

    A broker that the cluster counts as dead is not waited for (S3-73). Raises OperatorError with the brokers that are missing (S3-68).
    """
    with impatient(client, wait_ms):
        wait_for(lambda left_ms: replicas_made(client, left_ms, present or {}, absent), wait_ms, what)


def replicas_made(
    client: BlockingClient,
    left_ms: int,
    present: Mapping[TopicPartition, Iterable[int]],
    absent: Callable[[TopicPartition, int], bool] = lambda _where, _broker_id: False,
) -> Progress:
    """How many live brokers have what `wait_for_replicas` waits for now; each is asked, and has `left_ms` milliseconds at most."""
    wanted: dict[int, set[TopicPartition]] = {}
    for where, replicas in present.items():
        for broker_id in replicas:
            wanted.setdefault(broker_id, set()).add(where)
    told = client.run(admin_placement.hosted, timeout_ms=max(1, min(_ANSWER_MS, left_ms)))
    left = [text for each in sorted(told) for text in _missing(each, told[each], wanted.get(each, set()), absent)]
    return Progress(len(told) - len(left), len(told), left)


def _missing(
    broker_id: int,
    found: frozenset[TopicPartition] | None,
    wanted: set[TopicPartition],
    absent: Callable[[TopicPartition, int], bool],
) -> Iterator[str]:
    """What is still to be done on one broker, in one text."""
    if found is None:
        yield f"broker {broker_id} does not answer"
        return
    lacking = sorted(wanted - found)
    extra = sorted(where for where in found if absent(where, broker_id))
    if lacking or extra:
        said = [f"has not {name_of(where)} yet" for where in lacking[:3]]
        said += [f"still has {name_of(where)}" for where in extra[:3]]
        more = len(lacking) + len(extra) - len(said)
        yield f"broker {broker_id} {', '.join(said)}{f' and {more} more' if more > 0 else ''}"
