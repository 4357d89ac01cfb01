"""The offsets of a stream as Spark stores them in its checkpoint: positions by topic, and two things of ours under keys that no topic can have.

Positions have the form of Spark's `kafka` source, `{"topic": {"0": 23}}`, the next offset to read of each partition. `START_KEY`, in the first batch
only, says where the query began, which Spark does not store. `TOPICS_KEY` has the id of each topic: one that was deleted and made again under its name
is another topic, whose offsets mean other records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import from_json, to_json

START_KEY: Final = "headrace:start"
"""Beside the topics in the first batch's end: the offsets at which the query began. A topic's name has no colon."""
TOPICS_KEY: Final = "headrace:topics"
"""Beside the topics: their ids, where the cluster has ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffsets:
    """Positions, the ids of their topics as far as known, and in the end of a first batch its start."""

    positions: dict[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    start: dict[TopicPartition, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """The object that Spark stores."""
        stored: dict[str, Any] = to_json(self.positions)
        topics = {each.topic for each in self.positions}
        ids = {name: topic_id for name, topic_id in sorted(self.topic_ids.items()) if name in topics}
        if ids:
            stored[TOPICS_KEY] = ids
        if self.start is not None:
            stored[START_KEY] = to_json(self.start)
        return stored

    def remade(self, topic_ids: Mapping[str, str]) -> set[str]:
        """Topics that have another id now."""
        return {name for name, known in self.topic_ids.items() if topic_ids.get(name, known) != known}


def parse_stored(offsets: Mapping[str, Any]) -> StoredOffsets:
    """The reverse of `as_json`, for offsets without ids, too. Raises OperatorError where a checkpoint holds something else."""
    try:
        ids = {str(name): str(each) for name, each in offsets.get(TOPICS_KEY, {}).items()}
        positions = {name: each for name, each in offsets.items() if name not in (START_KEY, TOPICS_KEY)}
        start = from_json(offsets[START_KEY]) if START_KEY in offsets else None
        return StoredOffsets(positions=from_json(positions), topic_ids=ids, start=start)
    except (AttributeError, TypeError, ValueError):
        raise OperatorError(
            f'the checkpoint says {json.dumps(offsets)[:200]} where offsets such as {{"topic": {{"0": 23}}}} belong: '
            "restore it, or begin anew with another checkpointLocation"
        ) from None
