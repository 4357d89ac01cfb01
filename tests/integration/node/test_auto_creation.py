"""Is a topic that several brokers are asked for at once created once?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.roles import unfenced, until

NAMES = tuple(f"auto-{number}" for number in range(5))


def ids_at(member: Member, *, may_create: bool) -> dict[str, Any]:
    """Topic -> its id, of those that the broker says to exist."""
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in NAMES), allow_auto_topic_creation=may_create
    )
    answer: Any = ask(member.place.host, member.port, request, 12)
    return {each.name: each.topic_id for each in answer.topics if each.error_code == 0}


def test_a_topic_asked_of_three_brokers_at_once_is_created_once() -> None:
    """S2-28: a broker asks the active controller for it and never writes metadata itself, so all three get one topic with one id."""
    with Cluster(controllers=1, brokers=3) as cluster:
        until(lambda: len(unfenced(cluster.brokers[0])) == 3)
        with ThreadPoolExecutor(9) as asking:
            list(asking.map(lambda member: ids_at(member, may_create=True), cluster.brokers * 3))

        def known() -> list[dict[str, Any]] | None:
            found = [ids_at(member, may_create=False) for member in cluster.brokers]
            return found if all(len(each) == len(NAMES) for each in found) else None

        first, second, third = until(known)
        assert first == second == third
        assert len(set(first.values())) == len(NAMES)
