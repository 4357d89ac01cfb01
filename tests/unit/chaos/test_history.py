"""What do the lines that clients wrote mean, those that were cut short too?"""

from __future__ import annotations

import json
from typing import Any

from headrace.sim.anomalies.history import (
    NEVER,
    Assigned,
    Change,
    ChangeKind,
    Commit,
    Fatal,
    History,
    Outcome,
    Part,
    Poll,
    PositionRead,
    SeenRecord,
    Send,
    Start,
    TopicRead,
    read_history,
)


def lines(*told: dict[str, Any]) -> list[str]:
    """As in a file."""
    return [json.dumps(each) for each in told]


def test_a_call_without_an_end_is_unknown() -> None:
    """Its client was killed, or has never heard."""
    call = {"what": "call", "call": "send", "client": "p", "topic": "t", "partition": 1, "digest": "d"}
    told = lines(
        {**call, "id": 0, "at": 1.0, "value": "p-0"},
        {**call, "id": 1, "at": 2.0, "value": "p-1"},
        {**call, "id": 2, "at": 3.0, "value": "p-2"},
        {"what": "end", "client": "p", "id": 0, "at": 4.0, "outcome": "ok", "offset": 7},
        {"what": "end", "client": "p", "id": 1, "at": 5.0, "outcome": "unknown"},
    )
    part = Part("t", 1)
    assert read_history([*told, '{"what": "call", "cl']).sends == [
        Send(
            client="p",
            number=0,
            part=part,
            value="p-0",
            digest="d",
            began=1.0,
            ended=4.0,
            outcome=Outcome.OK,
            offset=7,
        ),
        Send(client="p", number=1, part=part, value="p-1", digest="d", began=2.0, ended=NEVER),
        Send(client="p", number=2, part=part, value="p-2", digest="d", began=3.0, ended=NEVER),
    ]


def test_every_line() -> None:
    """What clients write, and what only a reader of the file wants to know."""
    told = lines(
        {"what": "poll", "client": "c", "at": 2.0, "topic": "t", "records": [[0, 5, "v", "d"]]},
        {"what": "assigned", "client": "c", "at": 1.0, "topic": "t", "positions": [[0, 5]]},
        {
            "what": "call",
            "call": "commit",
            "client": "m",
            "id": 0,
            "at": 3.0,
            "group": "g",
            "topic": "t",
            "positions": [[0, 6], [1, 2]],
        },
        {"what": "end", "client": "m", "id": 0, "at": 4.0, "outcome": "ok"},
        {"what": "position", "client": "r", "at": 5.0, "began": 4.5, "group": "g", "topic": "t", "positions": [[0, 6]]},
        {"what": "call", "call": "create", "client": "a", "id": 0, "at": 1.0, "topic": "x", "partitions": 3},
        {"what": "end", "client": "a", "id": 0, "at": 2.0, "outcome": "failed", "error": "TOPIC_ALREADY_EXISTS"},
        {
            "what": "topic",
            "client": "a",
            "at": 3.0,
            "began": 2.5,
            "broker": 1,
            "topic": "x",
            "topic_id": "A",
            "partitions": 3,
        },
        {"what": "start", "client": "chaos", "at": 0.5, "broker": 2},
        {"what": "fault", "client": "chaos", "at": 0.7, "told": "kill 2"},
        {"what": "fatal", "client": "p", "at": 9.0, "rule": "PR4", "error": "fenced"},
        {"what": "unfinished", "client": "last", "at": 9.0},
    )
    part = Part("t", 0)
    assert read_history(told) == History(
        polls=[Poll(client="c", at=2.0, records=(SeenRecord(part, 5, "v", "d"),))],
        assigned=[Assigned(client="c", at=1.0, positions={part: 5})],
        commits=[
            Commit(
                client="m", group="g", part=Part("t", number), offset=offset, began=3.0, ended=4.0, outcome=Outcome.OK
            )
            for number, offset in ((0, 6), (1, 2))
        ],
        positions=[PositionRead(client="r", group="g", part=part, offset=6, began=4.5, ended=5.0)],
        changes=[
            Change(
                client="a",
                kind=ChangeKind.CREATE,
                topic="x",
                partitions=3,
                began=1.0,
                ended=2.0,
                outcome=Outcome.FAILED,
                error="TOPIC_ALREADY_EXISTS",
            )
        ],
        reads=[TopicRead(client="a", broker=1, topic="x", topic_id="A", partitions=3, began=2.5, ended=3.0)],
        starts=[Start(2, 0.5)],
        fatal=[Fatal(client="p", at=9.0, rule="PR4", error="fenced")],
        is_read_to_end=False,
    )
