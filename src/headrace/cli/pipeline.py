"""The command `headrace pipeline`: declarative pipelines from topics into tables and topics, on Spark."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli.shell import Group
from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.spark.declarative.notes import RunNotes

F = TypeVar("F", bound=Callable[..., Any])


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Make, check and run declarative pipelines on Spark.",
)
def command() -> None:
    """The group of what is done with a pipeline."""


_PROJECT = click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The project's directory or spec file.  [default: this directory or one above]",
)
_PICTURE = click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.svg", help="Draw the graph there, too."
)


def _running_options(function: F) -> F:
    """Which project, and where it runs."""
    for option in reversed(
        (
            _PROJECT,
            click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]"),
            click.option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server to run at."),
            click.option(
                "--conf", "confs", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be given often."
            ),
        )
    ):
        function = option(function)
    return function


@command.command(help="Make a project that reads a topic: a spec file and transformations in Python and SQL.")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--bootstrap-server", required=True, metavar="HOST:PORT,...", help="The cluster that has the topic.")
@click.option("--topic", required=True, metavar="TOPIC", help="The topic to read.")
def init(directory: Path, bootstrap_server: str, topic: str) -> int:
    """Write the files."""
    from headrace.spark.declarative.project import NewProject, create_project

    for file in create_project(NewProject(directory=directory, servers=bootstrap_server, topic=topic)):
        print(file)
    print(f"Run it: headrace pipeline run --project {directory}")
    return 0


@command.command(help="Check a pipeline, its files and how its tables hang together, and run nothing.")
@_running_options
def validate(**options: Any) -> int:
    """A dry run."""
    from headrace.spark.declarative.run import Refresh, run_pipeline

    with _opened(**options) as (spark, path, spec):
        run_pipeline(spark, path, spec, Refresh(is_dry=True))
    print(f"{path}: the pipeline {spec.name} is valid")
    return 0


@command.command(help="Run a pipeline to the end of what is in its topics now, and show its flows.")
@_running_options
@click.option("--refresh", metavar="TABLE,...", help="Update these only.")
@click.option(
    "--full-refresh", metavar="TABLE,...", help="Empty these, forget their checkpoints, and compute them anew."
)
@click.option("--full-refresh-all", is_flag=True, help="The same with everything.")
@_PICTURE
def run(
    refresh: str | None, full_refresh: str | None, full_refresh_all: bool, picture: Path | None, **options: Any
) -> int:
    """Run; exit code 1 if a flow failed."""
    from headrace.cli.pipeline_view import LiveView, show_notes
    from headrace.spark.declarative.graph import plain_name
    from headrace.spark.declarative.notes import EventTail, RunNotes, count_rows, previous_rows, save
    from headrace.spark.declarative.run import Refresh, run_pipeline

    wanted = Refresh(only=_names(refresh), full=_names(full_refresh), is_full=full_refresh_all)
    project = _spec_path(options["project"]).parent
    notes = RunNotes(pipeline=project.name, rows=previous_rows(project))
    view = LiveView(notes, EventTail(_events(project)))
    counted: dict[str, int] = {}
    try:
        with _opened(**options) as (spark, path, spec):
            notes.pipeline = spec.name
            with view:
                outcome = run_pipeline(spark, path, spec, wanted, graph=notes.graph, tell=view.tell)
            counted = count_rows(spark, notes.finished_tables(), spec.database)
    finally:
        if notes.graph.flows:  # the last reports are there when Spark has ended
            view.catch_up()
            notes.take_rows(counted, None if wanted.is_full else tuple(map(plain_name, wanted.full)))
            save(notes, project)
    show_notes(notes)
    if picture is not None:
        _draw(notes, picture)
    for flow, error in outcome.errors.items():
        print(f"{flow}: {error}", file=sys.stderr)
    return 1 if outcome.errors else 0


@command.command(help="Show what the last run of a pipeline did: its flows with rows and lag, its tables with rows.")
@_PROJECT
@_PICTURE
def status(project: Path | None, picture: Path | None) -> int:
    """Show the notes of the last run; nothing is started."""
    from headrace.cli.pipeline_view import show_notes
    from headrace.spark.declarative.notes import load

    notes = load(_spec_path(project).parent)
    show_notes(notes)
    if picture is not None:
        _draw(notes, picture)
    return 0


def _draw(notes: RunNotes, picture: Path) -> None:
    from headrace.spark.declarative.picture import draw_svg

    if picture.suffix.lower() != ".svg":
        raise OperatorError(f"--picture {picture}: the picture is SVG, so the name ends in .svg")
    picture.write_text(draw_svg(notes), encoding="utf-8")


def _spec_path(project: Path | None) -> Path:
    from headrace.spark.declarative.project import find_spec

    return find_spec(project).resolve()


def _events(directory: Path) -> Path:
    """Where Spark writes its event log."""
    from headrace.spark.declarative.session import NOTES

    return directory / NOTES / "events"


@contextmanager
def _opened(
    project: Path | None, master: str | None, remote: str | None, confs: tuple[str, ...]
) -> Iterator[tuple[Any, Path, Any]]:
    """A session for the project: session, spec file, spec."""
    if master is not None and remote is not None:
        raise OperatorError("--master and --remote exclude each other: a Connect server has a master of its own")
    try:
        from headrace.spark.declarative.notes import event_log
        from headrace.spark.declarative.project import load_spec
        from headrace.spark.declarative.session import NOTES, Place, connect_session, project_config

        path = _spec_path(project)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="pyspark")
            spec = load_spec(path)
    except ImportError as error:
        raise OperatorError(f"pipelines need more packages: pip install 'headrace[spark]' ({error})") from error
    given = _settings(confs)
    notes = path.parent / NOTES
    events = _events(path.parent)
    shutil.rmtree(events, ignore_errors=True)
    events.mkdir(parents=True)
    place = Place(
        master=master or "local[*]",
        remote=remote,
        config=given if remote else project_config(path.parent, {**event_log(events), **given}),
        log_path=notes / "spark.log",
    )
    with connect_session(place) as spark:
        yield spark, path, spec


def _settings(confs: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for each in confs:
        key, equals, value = each.partition("=")
        if not equals or not key.strip():
            raise OperatorError(f"--conf {each}: give KEY=VALUE")
        settings[key.strip()] = value
    return settings


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (text or "").split(",") if each.strip())
