"""Which topics do the members of a group ask for?"""

from __future__ import annotations

from headrace.coordinator.groups.subscription import subscribed_topics
from headrace.wire.codec import encode
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription


def subscription(*topics: str, version: int = 0, user_data: bytes | None = None) -> bytes:
    """What a consumer says when it joins."""
    body = encode(ConsumerProtocolSubscription(topics=topics, user_data=user_data), version)
    return version.to_bytes(2, "big") + body


def test_topics_of_all_members_count() -> None:
    """Whatever else they say, and in whichever version."""
    said = [subscription("a", "b"), subscription("a", "b", version=1, user_data=b"x"), subscription("b", "ä")]
    assert subscribed_topics(said) == frozenset({"a", "b", "ä"})
    assert subscribed_topics([]) == frozenset()


def test_a_longer_list_that_begins_alike_is_read() -> None:
    """What is read once is the same list, its length included."""
    assert subscribed_topics([subscription("a"), subscription("a", "b")]) == frozenset({"a", "b"})


def test_what_cannot_be_read_may_be_anything() -> None:
    """None: every topic may have readers."""
    assert subscribed_topics([subscription("a"), b"\0"]) is None


def test_very_many_names_are_not_read_in_one_turn() -> None:
    """PR8, M6: a client may send a million in one JoinGroup; consumers that name the same few thousand are read."""
    many = tuple(f"topic-{number}" for number in range(15_000))
    assert subscribed_topics([subscription(*many)] * 100) is not None
    assert subscribed_topics([subscription(*many), subscription(*many[:-1])]) is None
    assert subscribed_topics([subscription(*many)] * 1_000) is None
