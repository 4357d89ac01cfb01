"""Which topics do the members of a group ask for?"""

from __future__ import annotations

import random
import tracemalloc

from headrace.coordinator.groups.subscription import subscribed_topics
from headrace.core.errors import DecodeError
from headrace.wire.codec import decode, encode
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


def test_any_bytes_are_read_as_the_message_is() -> None:
    """Topics alone are read, and the rest is no less looked at than by the message's own reader in version 0, as Kafka reads them."""
    rng = random.Random(4)
    whole = [subscription("a", "bc", version=version, user_data=rng.randbytes(9)) for version in (0, 1, 3)]
    whole += [subscription(), subscription("", user_data=b"")]
    spoilt = [bytes(rng.randrange(256) if rng.random() < 0.1 else each for each in data) for data in whole * 400]
    cut = [data[:end] for data in whole for end in range(len(data))]
    said = [*whole, *spoilt, *cut]
    assert [subscribed_topics([data]) for data in said] == [_read_whole(data) for data in said]


def _read_whole(data: bytes) -> frozenset[str] | None:
    """The slow twin."""
    if len(data) < 2 or data[0] & 0x80:
        return None
    try:
        return frozenset(decode(ConsumerProtocolSubscription, data[2:], 0, allow_trailing=True).topics)
    except DecodeError:
        return None


def test_megabytes_of_user_data_are_not_copied() -> None:
    """M6: what is read is the list of topics, which is short."""
    data = subscription("a", user_data=bytes(16 << 20))
    tracemalloc.start()
    assert subscribed_topics([data]) == frozenset({"a"})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
