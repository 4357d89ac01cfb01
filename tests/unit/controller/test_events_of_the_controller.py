"""One event at a time, in order, each with a name, a deadline and its times."""

from __future__ import annotations

import random
import re
from importlib import import_module
from itertools import count
from pathlib import Path

import pytest

import headrace
from headrace.controller import event_names
from headrace.controller.events import Answer, AppendRecords, RequestArrived, RequestCause, TimeAdvanced
from headrace.controller.machine import ControllerMachine
from headrace.controller.requests import HANDLED
from headrace.core.error_code import ErrorCode
from headrace.core.histogram import BOUNDS_MS, Histogram
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.controller import ControllerBench, active, registration
from tests.support.partitions import cluster, topic

SOURCE = Path(headrace.__file__).parent


def new(name: str = "t") -> CreateTopicsRequest:
    """One topic."""
    return CreateTopicsRequest(
        topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=1),), timeout_ms=1
    )


def late_heartbeat(bench: ControllerBench, epoch: int, *, waited_ms: int) -> Answer:
    """A heartbeat of broker 1 that was read so long ago."""
    event = RequestArrived(
        token=next(bench.tokens),
        request=BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=99, want_fence=True),
        cause=RequestCause(api_version=1),
        now_ms=bench.now_ms,
        deadline_ms=bench.now_ms + 1_000,
        received_ms=bench.now_ms - waited_ms,
    )
    effects = bench.take(bench.machine.step(event)) + bench.commit()
    [answer] = [each for each in effects if isinstance(each, Answer)]
    return answer


def test_every_source_of_change_is_an_event_with_a_name() -> None:
    """S2-02..S2-11: partitions, brokers, topics, reassignments, elections, ISRs, shutdown, and what time brings."""
    assert {each.__name__ for each in HANDLED} == set(event_names.REQUEST_EVENTS)
    names = set(event_names.REQUEST_EVENTS.values()) | set(event_names.TIMER_EVENTS)
    assert {
        "createPartitions", "registerBroker", "processBrokerHeartbeat", "unregisterBroker", "deleteTopics",
        "alterPartitionReassignments", "electLeaders", "alterPartition", "createTopics",
        "maybeFenceStaleBroker", "maybeBalancePartitionLeaders", "maybeElectUncleanLeaders", "writeNoOpRecord",
    } <= names  # fmt: skip
    assert len(names) == len(event_names.REQUEST_EVENTS) + len(event_names.TIMER_EVENTS)


def test_every_request_is_made_of_a_message_of_its_name() -> None:
    """S2-02: the names are those of classes that exist."""
    for name in event_names.REQUEST_EVENTS:
        module = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).lower()
        assert getattr(import_module(f"headrace.wire.messages.{module}"), name) in HANDLED


def test_events_do_not_nest() -> None:
    """S2-12: a step inside a step is a bug of ours, and is caught before it changes anything."""
    bench = ControllerBench()

    class Meddler(random.Random):
        def randbytes(self, n: int) -> bytes:
            bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))
            return super().randbytes(n)

    bench.machine._around = bench.machine._around._replace(rng=Meddler(1))
    bench.gain()
    bench.broker(1)
    with pytest.raises(AssertionError, match="inside another"):
        bench.send(new())


def test_handlers_enqueue_and_do_not_decide() -> None:
    """S2-13: handlers of requests know the controller's events at most, and none of its decisions."""
    for folder in ("broker/handlers", "node/controller_handlers"):
        for path in (SOURCE / folder).glob("*.py"):
            imported = re.findall(r"headrace\.controller\.(\w+)", path.read_text())
            assert set(imported) <= {"events", "refusals"}, path.name


def test_the_state_of_the_controller_has_no_locks() -> None:
    """S2-16, S2-14: one caller at a time, which waits for nothing: no locks, threads or coroutines."""
    for path in (SOURCE / "controller").glob("*.py"):
        assert not re.search(r"\b(threading|asyncio|Lock|await|async def)\b", path.read_text()), path.name


def test_time_goes_on_while_writes_wait() -> None:
    """S2-14, S2-27: nothing is committed, and yet decisions, timers and refusals go on; no answer leaves early (inv:C3)."""
    bench, epochs = cluster(2)
    for _ in range(2):  # the second is refused, but tells of the first, so that it waits too
        assert [each for each in bench.send(new("a")) if isinstance(each, Answer)] == []
    bench.now_ms += 8_900
    assert [type(each) for each in bench.send(new("b"))] == [AppendRecords]
    bench.send(BrokerHeartbeatRequest(broker_id=2, broker_epoch=epochs[2], current_metadata_offset=0))
    effects = bench.advance(200)
    assert any(isinstance(each, AppendRecords) for each in effects)
    assert bench.machine.image.cluster.brokers[1].fenced
    assert not bench.committed_image.cluster.brokers[1].fenced
    assert len([each for each in bench.commit() if isinstance(each, Answer)]) == 4


def test_answers_leave_in_the_order_of_their_events() -> None:
    """S2-15: first come, first decided, first answered."""
    bench, _ = cluster(1)
    requests = [
        new("a"),
        CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="a", count=3, assignments=None),), timeout_ms=1),
        DeleteTopicsRequest(topics=(DeleteTopicState(name="a"),), timeout_ms=1),
        new("a"),
    ]
    for request in requests:
        bench.send(request)
    answers = [each for each in bench.commit() if isinstance(each, Answer)]
    assert [type(each.response).__name__ for each in answers] == [
        "CreateTopicsResponse",
        "CreatePartitionsResponse",
        "DeleteTopicsResponse",
        "CreateTopicsResponse",
    ]
    assert [each.token for each in answers] == sorted(each.token for each in answers)


def test_activation_comes_before_every_request() -> None:
    """S2-15, B-C21: what arrives before is refused, what arrives after finds the first records written."""
    bench = ControllerBench()
    [early] = bench.send(new())
    assert isinstance(early, Answer)
    assert early.response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    bench.gain()
    assert type(bench.log[0]).__name__ == "BeginTransactionRecord"


def test_a_session_follows_the_broker() -> None:
    """S2-25, S2-26: it begins with the registration, goes on with heartbeats, ends without; partitions come from the log."""
    bench, epochs = cluster(1)
    topic(bench, (1,))
    bench.advance(8_000)
    bench.heartbeat(1, epochs[1])
    bench.advance(8_000)
    fenced = [bench.machine.image.cluster.brokers[1].fenced]
    bench.advance(1_001)
    fenced.append(bench.machine.image.cluster.brokers[1].fenced)
    assert fenced == [False, True]
    assert bench.machine.statistics.fenced_by_timeout == 1


def test_a_controlled_shutdown_moves_leaders_in_one_batch() -> None:
    """S2-10, S2-23: 2,000 led partitions cost one append, not one round trip each."""
    bench, epochs = cluster(2)
    topic(bench, *[(1, 2)] * 2_000)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset, want_shut_down=True
    )
    appends = [each for each in bench.send(request) if isinstance(each, AppendRecords)]
    assert [len(each.records) for each in appends] == [2_001]


def test_a_heartbeat_that_waited_only_renews_the_session() -> None:
    """S2-30, B-C27: past half the interval it has no other effect; the count grows; nobody is fenced."""
    bench, epochs = cluster(1)
    bench.now_ms += 8_500
    answer = late_heartbeat(bench, epochs[1], waited_ms=1_001)
    assert answer.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert bench.machine.statistics.timed_out_heartbeats == 1
    bench.advance(8_900)
    assert not bench.machine.image.cluster.brokers[1].fenced
    assert late_heartbeat(bench, epochs[1], waited_ms=1_000).response.is_fenced is True


@pytest.mark.parametrize("stalled_ms", [5_000, 60_000])
def test_a_controller_that_stood_still_fences_nobody(stalled_ms: int) -> None:
    """S2-30, inv:C14: heartbeats may lie unread; each broker gets the time back."""
    bench, epochs = cluster(2, metadata_max_idle_interval_ms=500)
    bench.advance(500)
    bench.now_ms += stalled_ms
    bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert not any(each.fenced for each in bench.machine.image.cluster.brokers.values())
    for broker_id in (1, 2):
        assert bench.heartbeat(broker_id, epochs[broker_id]).is_fenced is False


def test_the_queue_can_be_watched() -> None:
    """S2-33, S4-58, S4-59, S4-61: started, timed out, time in the queue, processing time and time to the answer, by name."""
    ticks = count(0, 0.25)
    bench = active()
    bench.machine.statistics._stopwatch = lambda: next(ticks)
    bench.now_ms = 10_000
    epoch = bench.broker(1)
    before = bench.machine.statistics.started
    late_heartbeat(bench, epoch, waited_ms=700)
    late_heartbeat(bench, epoch, waited_ms=1_700)
    found = bench.machine.statistics
    assert found.started == before + 4
    assert (found.timed_out, found.timed_out_heartbeats) == (1, 1)
    times = found.by_name["processBrokerHeartbeat"]
    assert (times.queued.count, times.queued.highest, times.queued.total) == (3, 1_700, 2_400)
    assert times.processed.highest == 250
    assert times.committed.highest == 700
    assert found.slow[-1].name in {"processBrokerHeartbeat", "handleCommit"}


def test_the_time_to_the_commit_is_counted() -> None:
    """S4-62: from the order to append until the high watermark has passed it, whatever is appended in between."""
    bench = active()
    before = bench.machine.statistics.committed.count
    bench.send(registration(1))
    bench.now_ms += 30
    bench.send(registration(2))
    bench.now_ms += 10
    bench.commit()
    found = bench.machine.statistics.committed
    assert (found.count - before, found.highest, found.total) == (2, 40, 50)


def test_the_controller_knows_what_every_active_broker_has_read() -> None:
    """S2-18: by the offsets in heartbeats; fenced and stopping ones do not count."""
    bench, epochs = cluster(3)
    topic(bench, (3, 1))
    term = bench.machine._active
    assert term is not None
    for broker_id, offset in ((1, 9), (2, 7), (3, 8)):
        bench.heartbeat(broker_id, epochs[broker_id], current_metadata_offset=offset)
    lowest = [term.heartbeats.lowest_active_offset()]
    bench.heartbeat(2, epochs[2], want_fence=True)
    lowest.append(term.heartbeats.lowest_active_offset())
    bench.heartbeat(3, epochs[3], current_metadata_offset=8, want_shut_down=True)
    lowest.append(term.heartbeats.lowest_active_offset())
    assert lowest == [7, 8, 9]


def test_a_machine_without_a_stopwatch_measures_no_processing() -> None:
    """S2-33: time comes from outside; a simulated controller has none to lend."""
    bench = active()
    bench.broker(1)
    assert all(each.processed.count == 0 for each in bench.machine.statistics.by_name.values())


def test_a_histogram_tells_its_quantiles() -> None:
    """S4-58: p50, p99 and the longest."""
    times = Histogram()
    for ms in (*range(1, 100), 5_000):
        times.add(ms)
    assert (times.quantile(0.5), times.quantile(0.99), times.highest) == (50.0, 100.0, 5_000)
    assert sum(times.buckets) == times.count == 100
    assert len(times.buckets) == len(BOUNDS_MS) + 1
    assert Histogram().quantile(0.5) == 0.0


def test_two_machines_share_nothing() -> None:
    """S2-12, S2-17: the state belongs to its machine; what they agree on comes from the log."""
    one, other = active(), active()
    one.broker(1)
    assert isinstance(one.machine, ControllerMachine)
    assert 1 not in other.machine.image.cluster.brokers
    assert other.machine.statistics.by_name == {}
