"""Reads to compare between two sources: what is selected, where it begins and ends, how it is cut. Drawn from a seed, so that all kinds meet each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from headrace.core.ids import TopicPartition
from tests.spark.row_topics import BASE_MS, PLAIN, TOPICS, TRIMMED, Log

Edges = Mapping[TopicPartition, Log]
Options = dict[str, str]
LATE_MS: Final = 4_000_000_000_000
QUICKLY: Final = {
    "kafkaConsumer.pollTimeoutMs": "2000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "1",
}
"""For offsets that will never be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCase:
    """One read; what its words mean is settled once the topics are there."""

    number: int
    topic: str
    select: str
    start: str
    end: str
    cut: str
    switches: tuple[str, ...]

    def __str__(self) -> str:
        """The name of the test."""
        return "-".join(
            [
                str(self.number),
                self.topic.removeprefix("rows-"),
                self.select,
                self.start,
                self.end,
                self.cut,
                *self.switches,
            ]
        )

    @property
    def is_cut_alike(self) -> bool:
        """Whether tasks begin and end at the same offsets: Spark's connector does not cut a batch by `maxRecordsPerPartition` where its end is `latest`."""
        return self.cut not in ("most", "both") or self.end not in ("default", "latest", "last")

    def options(self, known: Edges) -> Options:
        """As Spark takes them."""
        rng = Random(self.number)
        chosen = _chosen(self.topic, self.select, known)
        options = {
            **_selection(self.topic, self.select, chosen),
            **_STARTS[self.start](chosen, known, rng),
            **_ENDS[self.end](chosen, known, rng),
            **_CUTS[self.cut],
        }
        for name in self.switches:
            options |= _SWITCHES[name]
        return options


def draw(count: int) -> list[ReadCase]:
    """The first `count` cases: topics in turn, all else by chance."""
    rng = Random(20)
    return [
        ReadCase(
            number=number,
            topic=TOPICS[number % len(TOPICS)],
            select=rng.choice(_SELECTS),
            start=rng.choice(list(_STARTS)),
            end=rng.choice(list(_ENDS)),
            cut=rng.choice(list(_CUTS)),
            switches=tuple(name for name in _SWITCHES if rng.random() < 0.4),
        )
        for number in range(count)
    ]


def _chosen(topic: str, select: str, known: Edges) -> list[TopicPartition]:
    """The partitions that are read."""
    topics = {"two": {topic, PLAIN[0]}, "pattern": {topic, PLAIN[1], PLAIN[3]}}.get(select, {topic})
    everything = sorted(each for each in known if each.topic in topics)
    return everything[:1] if select == "assign-one" else everything


_SELECTS: Final = ("one", "two", "pattern", "assign", "assign-one")


def _selection(topic: str, select: str, chosen: list[TopicPartition]) -> Options:
    if select == "one":
        return {"subscribe": topic}
    if select == "two":
        return {"subscribe": f" {topic},{PLAIN[0]} ,"}
    if select == "pattern":
        return {"subscribePattern": f"{topic}|rows-[gl].*[4p]"}
    return {
        "assign": json.dumps({name: [each.partition for each in chosen if each.topic == name] for name, _ in chosen})
    }


def _nested(numbers: Mapping[TopicPartition, int]) -> str:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), number in numbers.items():
        nested.setdefault(topic, {})[str(partition)] = number
    return json.dumps(nested)


Draw = Callable[[list[TopicPartition], Edges, Random], Options]


def _at(option: str, number: Callable[[Log, Random], int]) -> Draw:
    """Offsets for each partition."""
    return lambda chosen, known, rng: {option: _nested({each: number(known[each], rng) for each in chosen})}


def _times(option: str) -> Draw:
    return lambda chosen, _, rng: {option: _nested({each: BASE_MS + rng.randrange(0, 90) for each in chosen})}


def _plain(**options: str) -> Draw:
    return lambda *_: dict(options)


_STARTS: Final[Mapping[str, Draw]] = {
    "default": _plain(),
    "earliest": _plain(startingOffsets="Earliest"),
    "first": _at("startingOffsets", lambda log, rng: rng.choice([-2, log.first, (log.first + log.end) // 2])),
    "middle": _at("startingOffsets", lambda log, rng: rng.randint(log.first, (log.first + log.end) // 2)),
    "end": _at("startingOffsets", lambda log, _: log.end),
    "time": lambda chosen, known, rng: {"startingTimestamp": str(BASE_MS + rng.randrange(0, 60))},
    "times": _times("startingOffsetsByTimestamp"),
    "time-or-latest": lambda chosen, known, rng: {
        "startingTimestamp": str(BASE_MS + rng.randrange(0, 400)), "startingOffsetsByTimestampStrategy": "LATEST",
    },
    "late": _plain(startingTimestamp=str(LATE_MS), startingOffsetsByTimestampStrategy="latest"),
    "too-late": _plain(startingTimestamp=str(LATE_MS), startingOffsetsByTimestampStrategy="error"),
    "latest": _plain(startingOffsets="latest"),
    "gone": _at("startingOffsets", lambda log, _: 0),
}  # fmt: skip
_ENDS: Final[Mapping[str, Draw]] = {
    "default": _plain(),
    "latest": _plain(endingOffsets="latest"),
    "last": _at("endingOffsets", lambda log, rng: rng.choice([-1, log.end])),
    "middle": _at("endingOffsets", lambda log, rng: rng.randint((log.first + log.end + 1) // 2, log.end)),
    "time": lambda chosen, known, rng: {"endingTimestamp": str(BASE_MS + rng.randrange(60, 400))},
    "times": _times("endingOffsetsByTimestamp"),
    "late": _plain(endingTimestamp=str(LATE_MS)),
    "behind": lambda chosen, known, rng: _at("endingOffsets", lambda log, _: log.end + 2)(chosen, known, rng) | QUICKLY,
}
_CUTS: Final[Mapping[str, Options]] = {
    "whole": {},
    "min": {"minPartitions": "7"},
    "few": {"minPartitions": "1"},
    "most": {"maxRecordsPerPartition": "6"},
    "both": {"minPartitions": "9", "maxRecordsPerPartition": "11"},
}
_SWITCHES: Final[Mapping[str, Options]] = {
    "headers": {"includeHeaders": "true"},
    "committed": {"kafka.isolation.level": "read_committed"},
    "lossy": {"failOnDataLoss": "false"},
}


def stream_options() -> Iterator[tuple[str, Options]]:
    """Options of streams over several topics, by the name of the test."""
    topics = f"{PLAIN[0]},rows-transactions,rows-hanging,rows-compacted"
    everything = {"subscribe": topics, "startingOffsets": "earliest"}
    yield "everything", everything
    yield "limited", everything | {"maxOffsetsPerTrigger": "37"}
    yield "committed-limited", everything | {"maxOffsetsPerTrigger": "40", "kafka.isolation.level": "read_committed"}
    yield "headers-cut", everything | {"includeHeaders": "true", "minPartitions": "9", "maxRecordsPerPartition": "20"}
    yield "latest", {"subscribe": topics}
    yield (
        "few-at-a-time",
        {"subscribePattern": "rows-(none|empty)", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"},
    )
    yield (
        "time",
        {
            "subscribe": PLAIN[2],
            "startingTimestamp": str(BASE_MS + 77),
            "maxOffsetsPerTrigger": "12",
            "startingOffsetsByTimestampStrategy": "latest",
        },
    )
    yield (
        "trimmed",
        {"subscribe": TRIMMED, "startingOffsets": _nested({TopicPartition(TRIMMED, 0): 3}), "failOnDataLoss": "false"}
        | QUICKLY,
    )
    yield "at-least", everything | {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "10m"}
    yield (
        "some-and-edges",
        {
            "assign": _assigned(),
            "startingOffsets": _nested({TopicPartition(PLAIN[1], 0): 5, TopicPartition(PLAIN[1], 1): -1}),
        },
    )


def _assigned() -> str:
    return json.dumps({PLAIN[1]: [0, 1]})
