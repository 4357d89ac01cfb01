"""A history: what clients called, what they were told, and what they saw, as values and as JSON lines.

A call has a line when it begins and one when its outcome is known, so a client that dies in between leaves an unknown outcome. Times are
milliseconds of the machine's monotonic clock, one clock for all processes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headrace.core.values import value_class

NEVER: Final = math.inf
"""When a call ended whose outcome nobody was told: it may take effect at any time after its beginning."""
NOWHERE: Final = -1
"""The offset of what was not stored as far as is known; the position of a group that never committed."""


class Outcome(StrEnum):
    """What a client was told of its call. What failed for certain had no effect; what is unknown may have had it, once."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Part(NamedTuple):
    """A partition."""

    topic: str
    number: int


@value_class
class Send:
    """One record of a producer. `number` is its place in the order of this producer's calls; `digest` is of key, value, headers and timestamp."""

    client: str
    number: int
    part: Part
    value: str
    digest: str
    began: float = 0.0
    ended: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = NOWHERE


class SeenRecord(NamedTuple):
    """A record that a poll returned."""

    part: Part
    offset: int
    value: str
    digest: str


@value_class
class Poll:
    """What a consumer got at once, in the order in which it came."""

    client: str
    at: float
    records: tuple[SeenRecord, ...]


@value_class
class Assigned:
    """From here on a consumer reads these partitions, from these offsets; `NOWHERE` where it does not know from which. Ends what it had before."""

    client: str
    at: float
    positions: Mapping[Part, int]


@value_class
class Commit:
    """A group's position is set."""

    client: str
    group: str
    part: Part
    offset: int
    began: float
    ended: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN


@value_class
class PositionRead:
    """A group's position as a coordinator told it."""

    client: str
    group: str
    part: Part
    offset: int
    began: float
    ended: float


class ChangeKind(StrEnum):
    """What an administrator does with a topic."""

    CREATE = "create"
    DELETE = "delete"
    GROW = "grow"


@value_class
class Change:
    """A change of a topic. A refusal (`FAILED`) says with `error` what the controller found."""

    client: str
    kind: ChangeKind
    topic: str
    partitions: int
    began: float
    ended: float = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    error: str = ""


@value_class
class TopicRead:
    """A topic as one broker told it; without `topic_id` it is not there."""

    client: str
    broker: int
    topic: str
    topic_id: str
    partitions: int
    began: float
    ended: float


class Start(NamedTuple):
    """A broker's process starts: what it knows may be older than what its former process knew."""

    broker: int
    at: float


@value_class
class Fatal:
    """A client's own library says that it cannot go on, against a rule."""

    client: str
    at: float
    rule: str
    error: str


@dataclass(slots=True)
class History:
    """All of it. `is_read_to_end` says that a last reading went over every partition after all faults had ended."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    positions: list[PositionRead] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    reads: list[TopicRead] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    fatal: list[Fatal] = field(default_factory=list)
    is_read_to_end: bool = True

    @property
    def calls(self) -> int:
        """How many calls there are."""
        parts = (self.sends, self.polls, self.commits, self.positions, self.changes, self.reads)
        return sum(len(each) for each in parts)


Line = dict[str, Any]


def read_history(lines: Iterable[str]) -> History:
    """The history that lines of JSON tell, in whatever order their files were read. A last line cut short (its writer was killed) is left out."""
    history = History()
    begun: dict[tuple[str, int], Line] = {}
    for text in lines:
        try:
            line: Line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if line["what"] == "call":
            begun[line["client"], line["id"]] = line
        elif line["what"] == "end":
            _add_call(history, begun.pop((line["client"], line["id"])), line)
        else:
            _add_sight(history, line)
    for line in begun.values():
        _add_call(history, line, {})
    history.sends.sort(key=lambda each: (each.client, each.number))
    for sights in (history.polls, history.assigned):
        sights.sort(key=lambda each: each.at)
    return history


def _part(line: Line) -> Part:
    return Part(line["topic"], line["partition"])


def _add_call(history: History, line: Line, end: Line) -> None:
    client, began = line["client"], line["at"]
    ended, outcome = end.get("at", NEVER), Outcome(end.get("outcome", "unknown"))
    if outcome is Outcome.UNKNOWN:
        ended = NEVER
    offset: int = end.get("offset", NOWHERE)
    match line["call"]:
        case "send":
            history.sends.append(
                Send(
                    client=client,
                    number=line["id"],
                    part=_part(line),
                    value=line["value"],
                    digest=line["digest"],
                    began=began,
                    ended=ended,
                    outcome=outcome,
                    offset=offset,
                )
            )
        case "commit":
            for partition, position in line["positions"]:
                history.commits.append(
                    Commit(
                        client=client,
                        group=line["group"],
                        part=Part(line["topic"], partition),
                        offset=position,
                        began=began,
                        ended=ended,
                        outcome=outcome,
                    )
                )
        case kind:
            history.changes.append(
                Change(
                    client=client,
                    kind=ChangeKind(kind),
                    topic=line["topic"],
                    partitions=line["partitions"],
                    began=began,
                    ended=ended,
                    outcome=outcome,
                    error=end.get("error", ""),
                )
            )


def _add_sight(history: History, line: Line) -> None:
    client, at = line["client"], line["at"]
    match line["what"]:
        case "poll":
            topic = line["topic"]
            seen = tuple(
                SeenRecord(Part(topic, number), offset, value, digest)
                for number, offset, value, digest in line["records"]
            )
            history.polls.append(Poll(client=client, at=at, records=seen))
        case "assigned":
            positions = {Part(line["topic"], number): offset for number, offset in line["positions"]}
            history.assigned.append(Assigned(client=client, at=at, positions=positions))
        case "position":
            history.positions.extend(
                PositionRead(
                    client=client,
                    group=line["group"],
                    part=Part(line["topic"], number),
                    offset=offset,
                    began=line["began"],
                    ended=at,
                )
                for number, offset in line["positions"]
            )
        case "topic":
            history.reads.append(
                TopicRead(
                    client=client,
                    broker=line["broker"],
                    topic=line["topic"],
                    topic_id=line["topic_id"],
                    partitions=line["partitions"],
                    began=line["began"],
                    ended=at,
                )
            )
        case "start":
            history.starts.append(Start(line["broker"], at))
        case "fatal":
            history.fatal.append(Fatal(client=client, at=at, rule=line["rule"], error=line["error"]))
        case "unfinished":
            history.is_read_to_end = False
        case _:  # what broke and when: for whoever reads the file, not for the judge
            return
