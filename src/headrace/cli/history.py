"""The command `headrace history`: who led when, what changed, and why; or an object as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from headrace.cli.clock import wall_ms
from headrace.cli.cluster_names import topic_names
from headrace.cli.history_source import Beginning, DirectorySource, Source, quorum_source
from headrace.cli.history_view import event_facts, object_at, show_object, told_line
from headrace.cli.moments import Moment, iso, parse_moment
from headrace.cli.output import show_json
from headrace.cli.shell import DEFAULT_SERVER, connection_options, json_option, read_properties
from headrace.core.errors import OperatorError
from headrace.metadata.history import QUORUM_LEADER, Happened, Historian, HistoryFault
from headrace.metadata.image import MetadataImage

_CLOCKS_DIFFER_MS = 60_000
"""A node's clock may be so far before this one's; its records then have times that have not come here."""


@click.command(help="Tell what changed in a cluster, in which order, and why.")
@connection_options(controller=True)
@click.option(
    "--directory",
    type=click.Path(),
    metavar="DIR",
    help="Read a node's files: its log directory, or __cluster_metadata-0 in it. The last records may not be committed.",
)
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="Only what happened to this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only what happened to this partition of it.")
@click.option("--broker", type=click.IntRange(0), metavar="ID", help="Only what has to do with this broker.")
@click.option("--leaders", is_flag=True, help="Only changes of leaders.")
@click.option("--since", metavar="OFFSET|TIME|AGO", help="From this offset or time on: 4711, 2026-11-24T12:00, 15m.")
@click.option(
    "--at",
    metavar="OFFSET|TIME|AGO",
    help="Show the topic, partition or broker, or else the cluster, as it was there, and what changed it last.",
)
@json_option
def command(topic: str | None, partition: int | None, broker: int | None, **given: Any) -> int:
    """Events in the order of the log, which is the order in which they were decided (S3-08)."""
    if partition is not None and topic is None:
        raise OperatorError("--partition needs --topic")
    if given["at"] is not None and given["since"] is not None:
        raise OperatorError("Give either --since or --at, not both.")
    now_ms = wall_ms()
    since = None if given["since"] is None else parse_moment(given["since"], now_ms, "--since")
    at = None if given["at"] is None else parse_moment(given["at"], now_ms, "--at")
    wanted = Wanted(topic, partition, broker, only_leaders=given["leaders"])
    _refuse_what_is_to_come(since or at, now_ms)
    with source_of(given) as source:
        try:
            if at is None:
                _tell(source, wanted, since, as_json=given["as_json"])
            else:
                _show(source, wanted, at, as_json=given["as_json"])
        except HistoryFault as fault:
            raise OperatorError(f"the metadata log cannot be understood: {fault}") from None
    return 0


class Wanted:
    """Which events are to be told."""

    def __init__(self, topic: str | None, partition: int | None, broker: int | None, *, only_leaders: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self._only_leaders = only_leaders

    @property
    def name(self) -> str:
        """What is asked about, in words."""
        topic = f"topic {self.topic}" if self.partition is None else f"partition {self.topic}-{self.partition}"
        broker = f"broker {self.broker}"
        return " with ".join(
            [*([topic] if self.topic is not None else []), *([broker] if self.broker is not None else [])]
        )

    def is_about(self, event: Happened) -> bool:
        """Whether the event shows that what is asked about was there once."""
        is_topic = event.topic == self.topic and self.partition in (None, event.partition)
        return (self.topic is None or is_topic) and (self.broker is None or event.concerns(self.broker))

    def is_in(self, image: MetadataImage) -> bool:
        """Whether it is there."""
        topic = None if self.topic is None else image.topics.by_name.get(self.topic)
        has_topic = topic is not None and (self.partition is None or self.partition in topic.partitions)
        return (self.topic is None or has_topic) and (self.broker is None or self.broker in image.cluster.brokers)

    def has(self, event: Happened) -> bool:
        """Whether it is one of them. Who leads the quorum is told with everything, and with what a broker did when it is that node."""
        if event.what == QUORUM_LEADER:
            return self.topic is None and self.broker in (None, event.broker) and not self._only_leaders
        if self._only_leaders and event.what not in ("leader", "leader-lost", "partition-created"):
            return False
        if self.topic is not None and event.topic != self.topic:
            return False
        if self.partition is not None and event.partition not in (self.partition, -1):
            return False
        return self.broker is None or event.concerns(self.broker)


@contextmanager
def source_of(given: dict[str, Any]) -> Iterator[Source]:
    """The log that the options name. Raises OperatorError, PeerError."""
    directory, server, controllers = given["directory"], given["bootstrap_server"], given["bootstrap_controller"]
    if sum(each is not None for each in (directory, server, controllers)) > 1:
        raise OperatorError("Give one of --directory, --bootstrap-server and --bootstrap-controller.")
    if directory is not None:
        yield DirectorySource(directory)
        return
    properties = read_properties(given["command_config"]) if given["command_config"] else {}
    if controllers is None and server is None:
        server = properties.get("bootstrap.servers", DEFAULT_SERVER)
    with quorum_source(server, controllers, properties) as source:
        yield source


def _refuse_what_is_to_come(moment: Moment | None, now_ms: int) -> None:
    """Raises OperatorError for a time that has not come."""
    if moment is not None and moment.time_ms is not None and moment.time_ms > now_ms + _CLOCKS_DIFFER_MS:
        raise OperatorError(f"{moment} has not come yet: it is {iso(now_ms)} (times are in UTC where no zone is given)")


def _check_end(moment: Moment | None, image: MetadataImage) -> None:
    """Raises OperatorError for an offset that the log does not have yet, now that it was read to its end."""
    end = image.provenance.last_contained_offset
    if moment is not None and moment.offset is not None and moment.offset > end:
        raise OperatorError(f"{moment} is not there yet: the log ends at offset {end}")


def _tell(source: Source, wanted: Wanted, since: Moment | None, *, as_json: bool) -> None:
    """One line an event. What is older than a snapshot is said to be not kept. Raises OperatorError: nobody ever knew what is asked for."""
    historian = Historian()
    is_known = False
    for each in source.read(historian):
        if isinstance(each, Beginning):
            if since is None or since.is_before(each.offset - 1, each.time_ms) or since.offset == 0:
                _not_kept(each)
            continue
        is_known = is_known or wanted.is_about(each)
        if (since is not None and since.is_after(each.offset, each.time_ms)) or not wanted.has(each):
            continue
        if as_json:
            show_json(event_facts(each))
        else:
            print(told_line(each))
    _check_end(since, historian.image)
    if not is_known and not wanted.is_in(historian.image):
        raise OperatorError(f"there is no {wanted.name}, and what is kept of the log knows of none")


def _not_kept(beginning: Beginning) -> None:
    print(
        f"What happened before offset {beginning.offset} ({iso(beginning.time_ms)}) is not kept: a snapshot says how things were there, not why.",
        file=sys.stderr,
    )


def _show(source: Source, wanted: Wanted, at: Moment, *, as_json: bool) -> None:
    """The object as it was behind the last record at or before the moment."""
    historian = Historian()
    last: Happened | None = None
    image = historian.image
    is_empty = True
    for each in source.read(historian):
        if isinstance(each, Beginning):
            if at.is_before(each.offset - 1, each.time_ms):
                message = f"{at} is older than the oldest snapshot, which ends at offset {each.offset} ({iso(each.time_ms)}): that is not kept"
                raise OperatorError(message)
            image = historian.image
            is_empty = False
            continue
        if at.is_before(each.offset, each.time_ms):
            break
        image, is_empty = each.after, False
        if wanted.has(each):
            last = each
    else:
        _check_end(at, historian.image)
    if is_empty:
        raise OperatorError(f"at {at} there was nothing yet")
    facts = object_at(image, wanted.topic, wanted.partition, wanted.broker, last=last)
    show_object(facts, last, as_json=as_json)
