"""The same admin requests to Apache Kafka 4.3.1 and to Headrace: the same codes, messages and values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ids import ZERO_UUID
from headrace.testing import Node
from headrace.wire.schema import Struct
from tests.integration.metadata.admin_requests import questions
from tests.peers import kafka
from tests.support.raw import RawConnection

pytestmark = pytest.mark.java


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[tuple[RawConnection, RawConnection]]:
    """A fresh Kafka and a fresh Headrace."""
    formatted = kafka.plain_features()
    with (
        kafka.Kafka(tmp_path / "kafka", format_arguments=formatted) as peer,
        Node(directory=tmp_path / "headrace", in_process=True) as node,
        RawConnection(peer.port) as theirs,
        RawConnection(node.port) as ours,
    ):
        yield theirs, ours


def normal(value: Any) -> Any:
    """An answer without what must differ: ids that are drawn, and the order of lists."""
    if isinstance(value, Struct):
        fields = {name: normal(getattr(value, name)) for name in type(value).__facts__}
        if "topic_id" in fields:
            fields["topic_id"] = fields["topic_id"] != ZERO_UUID
        return fields
    if isinstance(value, tuple):
        return sorted((normal(each) for each in value), key=repr)
    return value


def test_admin_requests_are_answered_as_kafka_does(peers: tuple[RawConnection, RawConnection]) -> None:
    """B26, B27, B70, B72, B24, B-U02, B-C22, B-C27, S1-36: some 180 requests in up to six versions, whole answers compared."""
    theirs, ours = peers
    different = []
    asked = 0
    for question in questions():
        expected = normal(theirs.ask(question.request, question.version))
        found = normal(ours.ask(question.request, question.version))
        asked += 1
        if found != expected:
            different.append((question.title, question.version, {"kafka": expected, "headrace": found}))
    assert different == []
    assert asked > 150
