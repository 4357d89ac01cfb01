"""Logs that go to another directory of their broker: where the metadata say that they are is where they went, unless there is nothing to say."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.ids import MIGRATING_DIRECTORY, TopicPartition, Uuid
from headrace.metadata.image import MetadataImage
from headrace.sim.checkers.log_directories import LogDirectories
from headrace.sim.observation import LogMoved
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import breaks
from tests.support.made_up_metadata import TOPIC, image_of, partition

OLD, NEW = (Uuid(bytes([number] * 16)) for number in (1, 2))


def _said(directory: Uuid, *more: Message, replica: int = 1, level: int = 30) -> MetadataImage:
    """Partition 0 of `t` on one broker, in this directory."""
    return image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=level),
        TopicRecord(name="t", topic_id=TOPIC),
        partition(replicas=(replica,), directories=(directory,)),
        *more,
    )


@pytest.mark.parametrize(
    ("own", "committed", "is_wrong"),
    [
        (_said(OLD), _said(NEW), False),
        (_said(OLD), _said(OLD), True),
        (_said(NEW), None, False),
        (_said(OLD), None, True),
        (_said(OLD), _said(OLD, RemoveTopicRecord(topic_id=TOPIC)), False),
        (_said(OLD), _said(OLD, replica=2), False),
        (_said(OLD, RemoveTopicRecord(topic_id=TOPIC)), _said(OLD), False),
        (_said(OLD), _said(MIGRATING_DIRECTORY), False),
        (_said(OLD, level=16), _said(OLD), False),
    ],
)
def test_a_log_goes_where_the_metadata_say(own: MetadataImage, committed: MetadataImage | None, is_wrong: bool) -> None:
    """inv:P20: by what is committed, though the broker's own metadata are older; a topic that is gone says nothing."""
    step: Any = SimpleNamespace(node=SimpleNamespace(machine=SimpleNamespace(image=own)))
    ghost = SimpleNamespace(committed=SimpleNamespace(end=9, image_at=lambda end: committed), lives={})
    group = LogDirectories(SimpleNamespace(step=step, ghost=ghost, markers=SimpleNamespace(hit=lambda *_: None)))  # type: ignore[arg-type]
    moved = LogMoved(TopicPartition("t", 0), TOPIC, "/data", NEW, is_same=True, is_as_durable=True)
    with breaks("P20") if is_wrong else nullcontext():
        group.after_changes()[LogMoved](SimpleNamespace(node_id=1), moved)  # type: ignore[arg-type]
