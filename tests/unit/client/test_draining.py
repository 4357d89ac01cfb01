"""Where do the replicas of a broker go that is drained?"""

from __future__ import annotations

import pytest

from headrace.cli.cluster_decommission import hint_after_unregistering, refusal
from headrace.client import admin_cluster
from headrace.client.draining import DrainPlan, Placed, can_be_forced, names, plan_drain
from headrace.client.talk import Unsupported
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from tests.support.conversation import Cluster, knowing

RACKS: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


def partitions(*replicas: tuple[int, ...], leader: int | None = None) -> dict[TopicPartition, Placed]:
    """Partitions t-0, t-1, ... led by their first replica."""
    return {
        TopicPartition("t", number): Placed(replicas=each, leader=each[0] if leader is None else leader)
        for number, each in enumerate(replicas)
    }


def test_a_replica_goes_to_a_rack_that_has_none_and_takes_the_place_of_the_former() -> None:
    """S1-66: the factor stays, and so does the order, of which the first leads."""
    plan = plan_drain(partitions((4, 1), (1, 4), (2, 1)), RACKS, 4)
    assert plan == DrainPlan(targets={TopicPartition("t", 0): (3, 1), TopicPartition("t", 1): (1, 5)})


def test_the_least_loaded_broker_is_taken() -> None:
    """S1-66: a broker that is drained does not become the load of a single other one."""
    plan = plan_drain(partitions(*[(4,)] * 8), dict.fromkeys((1, 2, 3, 4, 5)), 4)
    taken = [replicas[0] for replicas in plan.targets.values()]
    assert sorted(taken) == [1, 1, 2, 2, 3, 3, 5, 5]


def test_the_same_rack_is_better_than_none() -> None:
    """S1-66: with all other racks used, a live broker of a used one."""
    plan = plan_drain(partitions((4, 1, 5)), {1: "a", 2: "a", 5: "c", 4: "b"}, 4)
    assert plan.targets == {TopicPartition("t", 0): (2, 1, 5)}


def test_what_has_no_place_or_nobody_to_copy_from_is_told() -> None:
    """S1-66, S1-70: the factor would fall, or there is nothing to copy."""
    assert plan_drain(partitions((4, 1)), {1: None, 4: None}, 4).without_place == [TopicPartition("t", 0)]
    assert plan_drain(partitions((4,), leader=-1), RACKS, 4).without_leader == [TopicPartition("t", 0)]
    assert plan_drain(partitions((1, 2)), RACKS, 4) == DrainPlan()


def test_force_is_promised_only_where_it_is_not_refused() -> None:
    """S1-71, S1-76: what only this broker has goes on, empty, at another live one; what has other replicas goes on with those."""
    alone: dict[int, str | None] = {4: None}
    assert not can_be_forced(partitions((4,), (4, 1)), alone, 4)
    assert can_be_forced(partitions((4, 1)), alone, 4)
    assert can_be_forced(partitions((4,)), {1: None, 4: None}, 4)


def test_what_is_left_to_do_after_a_broker_was_unregistered_is_told() -> None:
    """S1-73, S1-76: one that runs comes back by itself, so it is stopped first, and taken out again then."""
    assert hint_after_unregistering(3, is_live=False, partitions=0) == ""
    assert hint_after_unregistering(3, is_live=True, partitions=0) == (
        "Broker 3 still runs and registers again in a moment, as a new broker that may get new replicas: stop it, then run "
        "`headrace cluster unregister --id 3` again."
    )
    dead = hint_after_unregistering(3, is_live=False, partitions=2)
    assert dead.startswith(
        "2 partition(s) still list broker 3, and wait for it: `headrace cluster decommission --id 3`"
    )
    assert hint_after_unregistering(3, is_live=True, partitions=2).endswith("then stop it, and run that again.")


def test_many_names_are_told_short() -> None:
    """S1-70: ten at most."""
    parts = [TopicPartition("t", number) for number in range(12)]
    assert names(parts[:2]) == "t-0, t-1"
    assert names(parts).endswith("t-9 and 2 more")


@pytest.mark.parametrize("is_decommission", [False, True])
def test_s1_68_a_cluster_without_the_api_gets_one_plain_message(is_decommission: bool) -> None:
    """S1-68: its ApiVersions do not name UnregisterBroker; whatever was asked, the tool says that and not a code."""
    known = knowing()
    cluster = Cluster(known, lambda _ask: Unsupported(api_key=64, reason="ApiVersions do not name it"))
    with pytest.raises(PeerError) as raised:
        cluster.hold(admin_cluster.unregister_broker(known, 3, is_decommission=is_decommission))
    assert str(refusal(3, raised.value)) == "The target cluster does not support the broker unregistration API."
