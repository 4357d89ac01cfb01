"""How is a conversation held in a test: which outcomes does the cluster play, and what was asked of it?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.client.cluster_view import NodeView, PartitionView, TopicView
from headrace.client.session import Session
from headrace.client.settings import ClientSettings
from headrace.client.talk import Address, Ask, AskAll, Call, Conversation, Effect, Elapsed, Pause
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid

T = TypeVar("T")
FIRST = Address(host="one", port=9092)
SECOND = Address(host="two", port=9092)
TOPIC_ID = Uuid(b"0123456789abcdef")


def session(**settings: Any) -> Session:
    """A session bootstrapped at FIRST whose chance is seeded."""
    return Session(settings=ClientSettings(bootstrap=(FIRST,), **settings), rng=random.Random(1))


def knowing(*, leaders: Iterable[int] = (1,), topic: str = "t", has_id: bool = True) -> Session:
    """A session that knows nodes 1 (FIRST) and 2 (SECOND), and a topic whose partitions have these leaders."""
    found = session()
    found.cluster.learn_nodes([NodeView(node_id=1, address=FIRST), NodeView(node_id=2, address=SECOND)])
    found.cluster.learn_topic(view(topic, leaders, has_id=has_id))
    return found


def view(topic: str, leaders: Iterable[int], *, has_id: bool = True, epoch: int = 1) -> TopicView:
    """A topic as metadata would describe it."""
    return TopicView(
        name=topic,
        topic_id=TOPIC_ID if has_id else Uuid(bytes(16)),
        is_internal=False,
        partitions=tuple(
            PartitionView(
                partition=number,
                leader=leader,
                leader_epoch=epoch,
                replicas=(leader,),
                isr=(leader,),
                offline_replicas=(),
                error_code=ErrorCode.NONE,
            )
            for number, leader in enumerate(leaders)
        ),
    )


def message_of(ask: Ask, version: int = 0) -> Any:
    """The message that an ask sends in a version."""
    return ask.request.build(version) if isinstance(ask.request, Call) else ask.request


@dataclass
class Cluster:
    """Plays the cluster: `answer(ask)` gives the outcome of each request; pauses move the session's clock."""

    session: Session
    answer: Callable[[Ask], Any]
    asked: list[Ask] = field(default_factory=list)
    paused_ms: int = 0

    def hold(self, conversation: Conversation[T]) -> T:
        """Hold a conversation to its end."""
        outcome: Any = None
        while True:
            try:
                effect: Effect = conversation.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = self._outcome(effect)

    def _outcome(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            self.asked.append(effect)
            return self.answer(effect)
        if isinstance(effect, AskAll):
            self.asked += effect.asks
            return [self.answer(ask) for ask in effect.asks]
        assert isinstance(effect, Pause)
        self.paused_ms += effect.ms
        self.session.now_ms += effect.ms
        return Elapsed()
