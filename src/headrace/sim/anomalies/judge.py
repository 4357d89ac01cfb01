"""What a client would notice: the anomalies that a history of records and positions shows.

Nothing here has a clock, chance or files. An outcome that is not known stays unknown: such a call may have had its effect, once, at any
time after its beginning, and nothing is held against the cluster that either would explain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from headrace.sim.anomalies.history import (
    NOWHERE,
    Assigned,
    Commit,
    History,
    Outcome,
    Part,
    Poll,
    PositionRead,
    SeenRecord,
    Send,
)
from headrace.sim.anomalies.judge_topics import topic_anomalies

EACH: Final = 5
"""Of one kind no more are told; they are counted."""


@dataclass(frozen=True, slots=True, order=True)
class Anomaly:
    """One thing that must not be: the rule's code, and what was seen."""

    code: str
    told: str


def judge(history: History) -> list[Anomaly]:
    """Every anomaly, by code."""
    known = _Known(history)
    found = [
        *(Anomaly("H1", told) for told in _inconsistent(known)),
        *_lost(history, known),
        *(Anomaly("H6", told) for told in _duplicates(known)),
        *_jumps(history, known),
        *(Anomaly("H9", told) for told in _backward_sends(history, known)),
        *(Anomaly("H13", told) for told in topic_anomalies(history)),
        *(Anomaly("H14", told) for told in _positions_gone_back(history)),
        *(Anomaly("H15", told) for told in _wrong_bytes(history)),
        *(Anomaly(each.rule, f"{each.client}: {each.error}") for each in history.fatal),
    ]
    return sorted(found)


def summary(anomalies: Iterable[Anomaly]) -> list[str]:
    """A line for each of the first few of a kind, and how many more there are."""
    by_code: dict[str, list[str]] = defaultdict(list)
    for each in anomalies:
        by_code[each.code].append(each.told)
    lines = []
    for code, told in sorted(by_code.items()):
        lines += [f"{code}: {each}" for each in told[:EACH]]
        if len(told) > EACH:
            lines.append(f"{code}: and {len(told) - EACH} more")
    return lines


class _Known:
    """What lies where, as acknowledgements and polls say: a slot may have been said to hold several values, that is what is looked for."""

    def __init__(self, history: History) -> None:
        self.values: dict[tuple[Part, int], set[str]] = defaultdict(set)
        self.offsets: dict[tuple[Part, str], set[int]] = defaultdict(set)
        self.polled: dict[Part, set[str]] = defaultdict(set)
        self.highest: dict[Part, int] = defaultdict(lambda: NOWHERE)
        for send in history.sends:
            if send.outcome is Outcome.OK and send.offset != NOWHERE:
                self._lies(send.part, send.offset, send.value)
        for poll in history.polls:
            for record in poll.records:
                self._lies(record.part, record.offset, record.value)
                self.polled[record.part].add(record.value)
                self.highest[record.part] = max(self.highest[record.part], record.offset)
        existing: dict[Part, list[int]] = defaultdict(list)
        for part, offset in self.values:
            existing[part].append(offset)
        self.existing = {part: sorted(offsets) for part, offsets in existing.items()}

    def _lies(self, part: Part, offset: int, value: str) -> None:
        self.values[part, offset].add(value)
        self.offsets[part, value].add(offset)

    def between(self, part: Part, first: int, end: int) -> list[int]:
        """Offsets from `first` up to `end`, without it, at which something lies."""
        offsets = self.existing.get(part, [])
        return offsets[bisect_right(offsets, first - 1) : bisect_right(offsets, end - 1)]

    def place(self, send: Send) -> int:
        """Where a record lies, whether its producer was told or not."""
        return min(self.offsets.get((send.part, send.value), {NOWHERE}))


def _name(part: Part) -> str:
    return f"{part.topic}-{part.number}"


def _inconsistent(known: _Known) -> Iterator[str]:
    """One offset was seen with two values (H1)."""
    for (part, offset), values in known.values.items():
        if len(values) > 1:
            yield f"{_name(part)} has {' and '.join(sorted(values))} at offset {offset}"


def _lost(history: History, known: _Known) -> Iterator[Anomaly]:
    """An acknowledged record lies below what was polled, and nobody polled it (H2); or it was not seen by the end of the last reading (H3)."""
    for send in history.sends:
        if send.outcome is not Outcome.OK or send.value in known.polled[send.part]:
            continue
        told = f"{send.value} was acknowledged at offset {send.offset} of {_name(send.part)} and never seen"
        if send.offset < known.highest[send.part]:
            yield Anomaly("H2", told)
        elif history.is_read_to_end:
            yield Anomaly("H3", told)


def _duplicates(known: _Known) -> Iterator[str]:
    """One value at two offsets (H6)."""
    for (part, value), offsets in known.offsets.items():
        if len(offsets) > 1:
            yield f"{value} lies at the offsets {sorted(offsets)} of {_name(part)}"


def _jumps(history: History, known: _Known) -> Iterator[Anomaly]:
    """A consumer jumps over a record (H7), or is given one again, or an earlier one (H8), within one assignment."""
    following: dict[str, dict[Part, int]] = defaultdict(dict)
    sights: list[Assigned | Poll] = [*history.assigned, *history.polls]
    sights.sort(key=lambda each: each.at)
    for sight in sights:
        next_offset = following[sight.client]
        if isinstance(sight, Assigned):
            next_offset.clear()
            next_offset.update(sight.positions)
            continue
        for record in sight.records:
            yield from _jump(sight.client, record, next_offset, known)


def _jump(client: str, record: SeenRecord, next_offset: dict[Part, int], known: _Known) -> Iterator[Anomaly]:
    part = record.part
    expected = next_offset.get(part, NOWHERE)
    if expected != NOWHERE:
        if record.offset < expected:
            told = f"{client} was given offset {record.offset} of {_name(part)} after {expected - 1}"
            yield Anomaly("H8", told)
        missed = known.between(part, expected, record.offset)
        if missed:
            told = f"{client} was given offset {record.offset} of {_name(part)} before {missed[0]}"
            yield Anomaly("H7", told)
    if part in next_offset:
        next_offset[part] = record.offset + 1


def _backward_sends(history: History, known: _Known) -> Iterator[str]:
    """A producer's records in another order than they were sent (H9)."""
    by_producer: dict[tuple[str, Part], list[Send]] = defaultdict(list)
    for send in history.sends:
        if known.place(send) != NOWHERE:
            by_producer[send.client, send.part].append(send)
    for (client, part), sends in by_producer.items():
        for former, later in pairwise(sorted(sends, key=lambda each: each.number)):
            if known.place(later) <= known.place(former):
                places = f"{known.place(former)} and {known.place(later)}"
                yield f"{client} sent {former.value} before {later.value} to {_name(part)}: offsets {places}"


def _positions_gone_back(history: History) -> Iterator[str]:
    """The position that is read is not the latest that was set, and nothing that is still under way explains it (H14)."""
    commits: dict[tuple[str, Part], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        if commit.outcome is not Outcome.FAILED:
            commits[commit.group, commit.part].append(commit)
    for read in history.positions:
        made = commits[read.group, read.part]
        if not any(_explains(commit, read, made) for commit in made) and not _is_before_all(read, made):
            latest = max((each.offset for each in made if _is_done(each, read)), default=NOWHERE)
            yield f"group {read.group} had {read.offset} in {_name(read.part)} after {latest} was acknowledged"


def _is_done(commit: Commit, read: PositionRead) -> bool:
    return commit.outcome is Outcome.OK and commit.ended < read.began


def _is_before_all(read: PositionRead, made: list[Commit]) -> bool:
    return read.offset == NOWHERE and not any(_is_done(each, read) for each in made)


def _explains(commit: Commit, read: PositionRead, made: list[Commit]) -> bool:
    """Whether the position may be this commit's: it began before the read ended, and no later one was done when the read began."""
    if commit.offset != read.offset or commit.began > read.ended:
        return False
    return not any(_is_done(later, read) and commit.ended < later.began for later in made)


def _wrong_bytes(history: History) -> Iterator[str]:
    """What is read differs from what was sent in key, value, headers or timestamp, or nobody sent it there (H15)."""
    sent = {(send.part, send.value): send.digest for send in history.sends}
    told: set[tuple[Part, int]] = set()
    for poll in history.polls:
        for record in poll.records:
            where = (record.part, record.offset)
            if where not in told and sent.get((record.part, record.value)) != record.digest:
                told.add(where)
                what = "was sent otherwise" if (record.part, record.value) in sent else "was never sent there"
                yield f"{record.value} at offset {record.offset} of {_name(record.part)} {what}"
