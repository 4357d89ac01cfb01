"""Is a forecast told in numbers that an operator can use, and a plan refused when what it depends on has changed?"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from headrace.cli.main import run
from headrace.cli.plan_file import depends_on, differences, parse_plan, plan_document
from headrace.cli.plan_report import Report, lines, plain, report
from headrace.client.admin_placement import Replica
from headrace.controller.forecast import if_broker_dies, if_broker_stops, if_reassigned
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.controller import ControllerBench
from tests.support.partitions import cluster, fence, join, topic

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
SIZES = {
    Replica("t", 0, 1): 1_000,
    Replica("t", 0, 2): 990,
    Replica("t", 1, 2): 50,
    Replica("t", 2, 1): 7,
}


def three_partitions() -> tuple[ControllerBench, dict[int, int]]:
    bench, epochs = cluster(4)
    topic(bench, (1, 2), (2, 3), (1, 2), min_insync_replicas="2")
    return bench, epochs


def told(bench: ControllerBench, how: Any, *arguments: Any) -> Report:
    forecast = how(bench.committed_image, *arguments, config=bench.config, rng=random.Random(0))
    return report("If so:", forecast, SIZES, min_insync_replicas=1, has_sizes=True)


def test_a_broker_that_dies_moves_leaders_and_leaves_partitions_short() -> None:
    """Leaders that move, ISRs below the minimum, what has a copy fewer, and each broker before and after."""
    bench, _ = three_partitions()
    found = told(bench, if_broker_dies, 1)
    assert found.moved == ((T0, 1, 2), (T2, 1, 2))
    assert found.below_minimum == ((T0, 1, 2), (T2, 1, 2))
    assert (found.lost, found.unclean, found.unfinished, found.copied, found.exposed) == ((), (), (), 0, 1_007)
    before, after = found.loads[2]
    assert ((before.leaders, before.replicas, before.size), after.leaders) == ((1, 3, 1_057), 3)
    assert list(lines(found)) == [
        "Below min.insync.replicas: 2: t-0 (1 of 2), t-2 (1 of 2)",
        "Leaders move: 2: t-0 (1 -> 2), t-2 (1 -> 2)",
        "Bytes with one copy fewer: 1,007",
    ]
    assert plain(found)["leadersMoved"][0] == {"partition": "t-0", "from": 1, "to": 2}


def test_a_partition_that_only_one_broker_has_in_sync_loses_its_leader() -> None:
    """C7: nobody else may lead, unless the topic allows it; then records are lost, and that is said."""
    bench, epochs = three_partitions()
    join(bench, 1, epochs, (1,))
    for how in (if_broker_dies, if_broker_stops):
        assert told(bench, how, 1).lost == (T0,)
    bench, epochs = cluster(2)
    topic(bench, (1, 2), unclean_leader_election_enable="true")
    join(bench, 1, epochs, (1,))
    unclean = told(bench, if_broker_dies, 1)
    assert (unclean.lost, unclean.unclean, unclean.moved) == ((), (T0,), ((T0, 1, 2),))


def test_a_reassignment_says_what_is_copied_and_what_does_not_end() -> None:
    """A new replica copies what the leader has; one on a broker that is away never comes into sync."""
    bench, epochs = three_partitions()
    fence(bench, 4, epochs[4])
    found = told(bench, if_reassigned, {T0: (2, 3), T1: (2, 4), T2: (2, 1)})
    assert found.unfinished == ((T1, (4,)),)
    assert "Do not end as things are: 1: t-1 (waits for broker 4)" in list(lines(found))
    assert (plain(found)["unfinished"], plain(found)["unfinishedWaitFor"]) == (["t-1"], {"t-1": [4]})
    assert found.moved == ((T0, 1, 2),)
    assert found.copied == 1_000 + 50
    refused = told(bench, if_reassigned, {T0: (9,)})
    assert [where for where, _ in refused.refused] == [T0]


def test_a_reassignment_that_waits_already_is_told_too() -> None:
    """Whoever began it: the broker that it waits for is away, and the same order changes nothing."""
    bench, epochs = three_partitions()
    part = ReassignablePartition(partition_index=1, replicas=(2, 4))
    asked = AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=(part,)),))
    assert bench.ask(asked).responses[0].partitions[0].error_code == 0
    fence(bench, 4, epochs[4])
    for found in (told(bench, if_reassigned, {T1: (2, 4)}), told(bench, if_broker_dies, 4)):
        assert list(lines(found)) == ["Do not end as things are: 1: t-1 (waits for broker 4)"]


def test_nothing_is_told_as_nothing() -> None:
    """A broker that is fenced already."""
    bench, epochs = three_partitions()
    fence(bench, 4, epochs[4])
    assert list(lines(told(bench, if_broker_dies, 4))) == ["Nothing changes."]


def test_a_plan_is_for_the_cluster_that_it_was_made_for() -> None:
    """What it depends on: the partitions' epochs, and the epochs and states of the brokers that have them or get them; nothing else."""
    bench, epochs = three_partitions()
    targets = {T0: (2, 3)}
    image = bench.committed_image
    read, planned, cluster_id = parse_plan(plan_document(image, targets, "c"))
    assert (read, cluster_id) == (targets, "c")
    fence(bench, 4, epochs[4])
    join(bench, 2, epochs, (2,), 1)
    assert list(differences(planned, depends_on(bench.committed_image, targets))) == []
    join(bench, 1, epochs, (1,))
    (said,) = differences(planned, depends_on(bench.committed_image, targets))
    assert said.startswith("partition t-0: ")
    assert said.endswith("leaderEpoch 0, partitionEpoch 1 now")
    fence(bench, 3, epochs[3])
    assert [each.split(":")[0] for each in differences(planned, depends_on(bench.committed_image, targets))] == [
        "partition t-0",
        "broker 3",
    ]
    gone = depends_on(cluster(2)[0].committed_image, targets)
    assert "partition t-0: topicId" in (first := next(differences(planned, gone)))
    assert first.endswith("not there now")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "headrace-plan-1", "reassignment": {"partitions": []}}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    """B78: in one line that says how to make one."""
    with pytest.raises(OperatorError, match=r"make (it|one)"):
        parse_plan(text)


def test_a_plan_without_its_surroundings_is_refused() -> None:
    """B78: nothing that was cut out of a plan counts as unchanged."""
    bench, _ = three_partitions()
    document = json.loads(plan_document(bench.committed_image, {T0: (2, 3)}, "c"))
    del document["dependsOn"]["brokers"]
    _, planned, _ = parse_plan(json.dumps(document))
    assert list(differences(planned, depends_on(bench.committed_image, {T0: (2, 3)}))) == [
        "the plan does not say which brokers it depends on"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--broker-gone, --broker-stopped or --reassignment"),
        (["--broker-gone", "1", "--broker-stopped", "2"], "exactly one"),
        (["--broker-gone", "1", "--save", "f"], "--save goes with --reassignment"),
        (["--broker-gone", "1", "apply", "f"], "takes the file of a plan"),
        (["--reassignment", "/nothing/here"], "/nothing/here"),
    ],
)
def test_options_of_plan_that_do_not_go_together_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """B78: before anything is asked."""
    with pytest.raises(OperatorError) as caught:
        run(["plan", *arguments])
    assert said in str(caught.value) + capsys.readouterr().err
