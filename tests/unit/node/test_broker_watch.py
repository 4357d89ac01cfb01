"""Is a killed broker told from a slow one by what its host answers?"""

from __future__ import annotations

from dataclasses import replace

from immutables import Map

from headrace.config.node_config import NodeConfig
from headrace.core.ids import Uuid
from headrace.core.peers import SendFailure
from headrace.metadata.image import EMPTY_IMAGE, BrokerRegistration, ClusterImage, EndPoint, MetadataImage
from headrace.node.broker_watch import LOOKS_EVERY_MS, MOST_ADDRESSES, MOST_UNDER_WAY, PAUSES_MS, BrokerWatch, Probe

ONE = ("CONTROLLER", 7)
TWO = ("CONTROLLER", 8)


HOME, OTHER = Uuid(b"directory-------"), Uuid(b"other-directory-")
FORMER, LATTER = Uuid(b"incarnation-----"), Uuid(b"incarnation-two-")


def broker(*, epoch: int = 5, fenced: bool = False, ports: tuple[int, ...] = (9092,)) -> BrokerRegistration:
    """Broker 3 with a listener a port."""
    return BrokerRegistration(
        broker_id=3,
        broker_epoch=epoch,
        incarnation_id=FORMER,
        end_points=tuple(EndPoint(f"L{port}", "host", port, 0) for port in ports),
        log_dirs=(HOME,),
        fenced=fenced,
    )


def image(*brokers: BrokerRegistration) -> MetadataImage:
    """A cluster of these brokers."""
    return replace(EMPTY_IMAGE, cluster=ClusterImage(brokers=Map({each.broker_id: each for each in brokers})))


class Bench:
    """The watch of an active controller, and the probes that nobody answered yet."""

    def __init__(self, *brokers: BrokerRegistration) -> None:
        self.image = image(*brokers)
        self.is_active = True
        self.probes: list[Probe] = []
        self.gone: list[tuple[int, int]] = []
        self.watch = BrokerWatch(
            NodeConfig(node_id=1, log_dirs=("/d",)),
            image=lambda: self.image,
            is_active=lambda: self.is_active,
            probe=self.probes.append,
            gone=lambda broker_id, epoch: self.gone.append((broker_id, epoch)),
        )

    def answer(self, *failures: SendFailure | None) -> None:
        """One outcome for each waiting probe, in order."""
        probes, self.probes[:] = list(self.probes), []
        assert len(probes) == len(failures)
        for each, failure in zip(probes, failures, strict=True):
            self.watch.probed(each.correlation, failure, 100)


REFUSED, SILENT = SendFailure.REFUSED, SendFailure.TIMED_OUT


def test_a_broker_whose_listeners_all_refuse_twice_is_gone() -> None:
    """S1-32, C14: the exception to both, after the connection closed."""
    bench = Bench(broker(ports=(1, 2)))
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None, None)
    bench.watch.closed(ONE, 100)
    bench.answer(REFUSED, REFUSED)
    assert bench.gone == []
    bench.answer(REFUSED, REFUSED)
    assert bench.gone == [(3, 5)]
    assert bench.probes == []


def test_one_listener_that_refuses_says_nothing_while_another_may_answer() -> None:
    """S1-32, C14: each of them must have refused, in each of the two rounds; a broker that listens at one lives."""
    bench = Bench(broker(ports=(1, 2)))
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None, None)
    bench.watch.closed(ONE, 100)
    for outcome in (REFUSED, None):
        first, second = bench.probes
        bench.probes.clear()
        bench.watch.probed(first.correlation, REFUSED, 100)
        assert (bench.probes, bench.gone) == ([], [])
        bench.watch.probed(second.correlation, outcome, 100)
    assert (bench.probes, bench.gone) == ([], [])


def test_a_listener_that_dies_last_is_probed_again_a_few_times() -> None:
    """A killed process closes its connections and listeners one after the other; a broker that stays up is left in peace."""
    bench = Bench(broker())
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None)
    bench.watch.closed(ONE, 100)
    bench.answer(None)
    assert bench.watch.next_deadline_ms() == 100 + PAUSES_MS[0]
    bench.watch.tick(100 + PAUSES_MS[0])
    bench.answer(REFUSED)
    bench.answer(REFUSED)
    assert bench.gone == [(3, 5)]
    alive = Bench(broker())
    alive.watch.heard(3, 5, ONE, 100)
    alive.answer(None)
    alive.watch.closed(ONE, 100)
    for pause_ms in PAUSES_MS:
        alive.answer(None)
        alive.watch.tick(100 + pause_ms)
    alive.answer(None)
    assert alive.watch.next_deadline_ms() is None
    assert alive.gone == []


def test_silence_leaves_it_to_the_session_timeout() -> None:
    """C14: a pause or a partition cannot be told apart by a probe."""
    for second in (SILENT, SendFailure.DISCONNECTED):
        bench = Bench(broker())
        bench.watch.heard(3, 5, ONE, 100)
        bench.answer(None)
        bench.watch.closed(ONE, 100)
        bench.answer(REFUSED)
        bench.answer(second)
        assert bench.gone == []
        assert bench.probes == []


def test_a_listener_that_was_never_reached_in_this_epoch_does_not_count() -> None:
    """Refusals of localhost, containers and NAT mean nothing: with no eligible listener nobody probes."""
    bench = Bench(broker(ports=(1, 2)))
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(REFUSED, None)
    bench.watch.closed(ONE, 100)
    assert [each.port for each in bench.probes] == [2]
    never = Bench(broker())
    never.watch.heard(3, 5, ONE, 100)
    never.answer(REFUSED)
    never.watch.closed(ONE, 100)
    assert never.probes == []


def test_a_new_epoch_begins_anew() -> None:
    """A broker that registered again is another incarnation: what was learned of the one before is forgotten."""
    bench = Bench(broker())
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None)
    bench.watch.closed(ONE, 100)
    bench.image = image(broker(epoch=9, fenced=True))
    bench.watch.heard(3, 9, TWO, 200)
    bench.answer(REFUSED)
    assert bench.probes == []
    assert bench.gone == []


def test_a_heartbeat_on_another_connection_ends_the_probing() -> None:
    """The broker lives and only changed its connection."""
    bench = Bench(broker())
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None)
    bench.watch.closed(ONE, 100)
    bench.watch.heard(3, 5, TWO, 101)
    bench.answer(REFUSED)
    assert bench.probes == []
    assert bench.gone == []


def test_listeners_are_learned_when_the_broker_is_unfenced() -> None:
    """Before that they are not open yet; and not more often than every ten seconds."""
    bench = Bench(broker(fenced=True))
    bench.watch.heard(3, 5, ONE, 100)
    assert bench.probes == []
    bench.image = image(broker())
    bench.watch.changed([3, 4], 120)
    bench.answer(REFUSED)
    bench.watch.heard(3, 5, ONE, 2_000)
    assert bench.probes == []
    bench.watch.heard(3, 5, ONE, 10_120)
    assert len(bench.probes) == 1


def test_a_standby_probes_nobody_that_may_be_gone() -> None:
    """S1-32: only the active controller has brokers to watch, and only those of their present epoch."""
    bench = Bench(broker())
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None)
    bench.is_active = False
    bench.watch.closed(ONE, 100)
    bench.watch.heard(3, 5, TWO, 100)
    bench.watch.closed(TWO, 100)
    assert bench.probes == []
    bench.is_active = True
    bench.watch.heard(3, 4, ONE, 200)
    assert bench.probes == []


def standby() -> Bench:
    """A standby controller that has reached broker 3, as the metadata told it of that."""
    bench = Bench(broker(fenced=True))
    bench.is_active = False
    bench.watch.changed([3], 100)
    assert bench.probes == [], "its listeners are not open yet"
    bench.image = image(broker())
    bench.watch.changed([3], 110)
    bench.answer(None)
    return bench


def test_a_controller_that_becomes_active_looks_for_brokers_that_went_with_the_former() -> None:
    """S1-32, C14, fault:S3: such a broker has no connection to it that could close."""
    bench = standby()
    bench.watch.activity_changed()
    assert bench.watch.next_deadline_ms() is None
    bench.is_active = True
    bench.watch.activity_changed()
    assert bench.probes == [], "not in the turn in which it takes over"
    assert bench.watch.next_deadline_ms() == 0
    bench.watch.tick(200)
    bench.answer(REFUSED)
    bench.answer(REFUSED)
    assert bench.gone == [(3, 5)]
    assert bench.watch.next_deadline_ms() is None


def test_brokers_that_live_are_left_in_peace_by_a_new_controller() -> None:
    """Its listener takes the connect, or its heartbeat comes first; one that is fenced already is not looked for."""
    bench = standby()
    bench.is_active = True
    bench.watch.activity_changed()
    bench.watch.heard(3, 5, ONE, 150)
    bench.watch.tick(200)
    assert bench.probes == []
    fenced = standby()
    fenced.is_active = True
    fenced.watch.activity_changed()
    fenced.image = image(broker(fenced=True))
    fenced.watch.tick(200)
    assert fenced.probes == []
    resigned = standby()
    resigned.is_active = True
    resigned.watch.activity_changed()
    resigned.watch.tick(200)
    resigned.is_active = False
    resigned.watch.activity_changed()
    resigned.answer(REFUSED)
    assert (resigned.probes, resigned.gone) == ([], [])


def test_a_new_controller_looks_for_very_many_brokers_in_turns() -> None:
    """inv:M6: a few in each turn of the loop."""
    many = [replace(broker(), broker_id=number) for number in range(10, 130)]
    bench = Bench(*many)
    bench.is_active = False
    bench.watch.changed(range(10, 130), 100)
    bench.answer(*[None] * 120)
    bench.is_active = True
    bench.watch.activity_changed()
    turns = []
    while bench.watch.next_deadline_ms() == 0:
        bench.watch.tick(100)
        turns.append(len(bench.probes))
        bench.answer(*[None] * len(bench.probes))
    assert turns == [50, 50, 20]


def test_a_broker_that_is_unregistered_is_forgotten() -> None:
    """Whoever it was that listened there."""
    bench = standby()
    bench.image = image()
    bench.watch.changed([3], 120)
    bench.image = image(broker())
    bench.is_active = True
    bench.watch.activity_changed()
    assert bench.watch.next_deadline_ms() is None


def test_a_process_with_the_directories_of_one_that_was_never_heard_has_it_looked_for() -> None:
    """S1-29, fault:S5: a new controller that reached nobody yet; all listeners of the registration count."""
    bench = Bench(broker(ports=(1, 2)))
    bench.watch.succeeded(3, LATTER, [OTHER, HOME])
    assert [probe.port for probe in bench.probes] == [1, 2]
    bench.watch.succeeded(3, LATTER, [OTHER, HOME])
    bench.answer(REFUSED, REFUSED)
    bench.answer(REFUSED, REFUSED)
    assert (bench.gone, bench.probes) == ([(3, 5)], [])


def test_a_listener_that_answers_keeps_the_id() -> None:
    """S1-29: a copy of its disk is no successor, and is probed for no more often than others, however often it asks."""
    bench = Bench(broker())
    bench.watch.succeeded(3, LATTER, [HOME])
    bench.answer(None)
    for pause_ms in PAUSES_MS:
        bench.watch.succeeded(3, LATTER, [HOME])
        bench.watch.tick(100 + pause_ms)
        bench.answer(None)
    bench.watch.succeeded(3, LATTER, [HOME])
    assert (bench.gone, bench.probes) == ([], [])


def test_nobody_is_looked_for_on_less_proof() -> None:
    """S1-29, C14: other directories, no directories, the same process, a broker that was heard, one that is fenced or unknown, a standby."""
    bench = Bench(broker())
    bench.watch.succeeded(3, LATTER, [OTHER])
    bench.watch.succeeded(3, FORMER, [HOME])
    bench.watch.succeeded(4, LATTER, [HOME])
    bench.is_active = False
    bench.watch.succeeded(3, LATTER, [HOME])
    fenced = Bench(broker(fenced=True))
    fenced.watch.succeeded(3, LATTER, [HOME])
    without = Bench(replace(broker(), log_dirs=()))
    without.watch.succeeded(3, LATTER, [])
    heard = Bench(broker())
    heard.watch.heard(3, 5, ONE, 100)
    heard.answer(SILENT)
    heard.watch.closed(ONE, 100)
    heard.watch.succeeded(3, LATTER, [HOME])
    for each in (bench, fenced, without, heard):
        assert each.probes == []


def test_a_heartbeat_of_the_former_process_ends_the_look() -> None:
    """S1-29: its listeners' refusals, when nobody had reached them before, mean nothing then."""
    bench = Bench(broker())
    bench.watch.succeeded(3, LATTER, [HOME])
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(REFUSED, REFUSED)  # the look's, and what is learned of its listeners
    bench.watch.closed(ONE, 100)
    bench.watch.succeeded(3, LATTER, [HOME])
    assert (bench.gone, bench.probes) == ([], [])


def test_a_late_answer_counts_in_its_own_round_only() -> None:
    """A refusal that took long says nothing of the listener that a later round asks: a broker that takes connects there is alive."""
    bench = Bench(broker(ports=(1, 2)))
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None, None)
    bench.watch.closed(ONE, 100)
    now = 100
    slow = []
    for pause in PAUSES_MS[:3]:
        first, second = bench.probes[-2:]
        bench.watch.probed(second.correlation, None, now)
        slow.append(first)
        now += pause
        bench.watch.tick(now)
    first, second = bench.probes[-2:]
    for late in (*slow, first):
        bench.watch.probed(late.correlation, REFUSED, now)
    assert bench.probes[-1] is second, "no second round before the first one is over"
    assert bench.gone == []
    bench.watch.probed(second.correlation, REFUSED, now)
    assert len(bench.probes) > 2
    for probe in bench.probes[-2:]:
        bench.watch.probed(probe.correlation, REFUSED, now)
    assert bench.gone == [(3, 5)]


def test_of_hundreds_of_addresses_in_a_brokers_name_few_are_probed() -> None:
    """M6: whoever registers a broker chooses them; each close was a connect to each of four hundred."""
    bench = Bench(broker(ports=tuple(range(1, 401))))
    bench.watch.heard(3, 5, ONE, 100)
    assert [each.port for each in bench.probes] == list(range(1, MOST_ADDRESSES + 1))
    bench.answer(*[None] * MOST_ADDRESSES)
    bench.watch.closed(ONE, 100)
    assert len(bench.probes) == MOST_ADDRESSES
    latter = Bench(broker(ports=tuple(range(1, 401))))
    latter.watch.succeeded(3, LATTER, (HOME,))
    assert len(latter.probes) == MOST_ADDRESSES


def test_a_broker_whose_connections_close_again_and_again_is_looked_at_once_a_second() -> None:
    """M6, C14: fifty connections were 22,000 connects to whom their peer had named. The last close is looked at, a little later."""
    bench = Bench(broker())
    bench.watch.heard(3, 5, ONE, 100)
    bench.answer(None)
    for each in range(50):
        bench.watch.heard(3, 5, ("CONTROLLER", 10 + each), 200 + each)
        bench.watch.closed(("CONTROLLER", 10 + each), 200 + each)
    assert len(bench.probes) == 1
    bench.answer(None)
    assert bench.watch.next_deadline_ms() == 200 + LOOKS_EVERY_MS
    bench.watch.tick(200 + LOOKS_EVERY_MS)
    bench.answer(REFUSED)
    bench.answer(REFUSED)
    assert bench.gone == [(3, 5)]


def test_a_broker_that_is_heard_again_is_not_looked_at_for_an_earlier_close() -> None:
    """C14: what was put off is for one that stays away."""
    bench = Bench(broker())
    for connection in (ONE, TWO):
        bench.watch.heard(3, 5, connection, 100)
        bench.answer(*[None] * len(bench.probes))
        bench.watch.closed(connection, 100)
    assert bench.watch.next_deadline_ms() == 100 + LOOKS_EVERY_MS
    bench.watch.heard(3, 5, ("CONTROLLER", 9), 200)
    assert bench.watch.next_deadline_ms() is None


def test_few_probes_are_under_way() -> None:
    """M6: thousands of brokers that are loaded, or go, at one moment were as many sockets, and tasks of one turn."""
    ids = range(10, 10 + 2 * MOST_UNDER_WAY)
    bench = Bench(*(replace(broker(ports=(1, 2)), broker_id=number) for number in ids))
    bench.watch.changed(ids, 100)
    under_way, learned = [], 0
    while bench.probes:
        under_way.append(len(bench.probes))
        learned += len(bench.probes)
        bench.answer(*[None] * len(bench.probes))
        bench.watch.tick(100)
    assert max(under_way) == MOST_UNDER_WAY
    assert learned == 2 * len(ids)
    for number in ids:
        bench.watch.heard(number, 5, ("CONTROLLER", number), 100)
        bench.watch.closed(("CONTROLLER", number), 100)
    assert len(bench.probes) == MOST_UNDER_WAY
    assert bench.watch.next_deadline_ms() is None
    while bench.probes:
        assert len(bench.probes) <= MOST_UNDER_WAY + 1
        bench.answer(*[REFUSED] * len(bench.probes))
        bench.watch.tick(100)
    assert sorted(bench.gone) == [(number, 5) for number in ids]
