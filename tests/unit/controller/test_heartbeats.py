"""B-K05: the whole table of states, and the sessions behind it."""

from __future__ import annotations

import itertools

import pytest

from headrace.controller.heartbeats import BrokerControlState as State
from headrace.controller.heartbeats import Heartbeats, Wants, next_control_state

FLAGS = list(itertools.product([False, True], repeat=5))


def plain_next(state: State, fence: bool, stop: bool, caught_up: bool, leads: bool, seen: bool) -> State:
    """The table of B-K05 as a row of ifs."""
    if state is State.FENCED and stop:
        return State.SHUTDOWN_NOW
    if state is State.FENCED and not fence and caught_up:
        return State.UNFENCED
    if state is State.UNFENCED and fence:
        return State.SHUTDOWN_NOW if stop else State.FENCED
    if state is State.UNFENCED and stop:
        return State.CONTROLLED_SHUTDOWN if leads else State.SHUTDOWN_NOW
    if state is State.CONTROLLED_SHUTDOWN and not leads and seen:
        return State.SHUTDOWN_NOW
    return state


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize(("fence", "stop", "caught_up", "leads", "seen"), FLAGS)
def test_the_full_truth_table(state: State, fence: bool, stop: bool, caught_up: bool, leads: bool, seen: bool) -> None:
    """B-K05, S0-22: every state with every wish and fact."""
    wants = Wants(fence=fence, shut_down=stop, is_caught_up=caught_up)
    found = next_control_state(state, wants, has_leaderships=leads, others_have_caught_up=seen)
    assert found is plain_next(state, fence, stop, caught_up, leads, seen)


def test_only_two_states_are_fenced() -> None:
    """S1-59: what the response calls fenced."""
    assert [state.is_fenced for state in State] == [True, False, False, True]


def sessions() -> Heartbeats:
    """Brokers 1 and 2 unfenced, 3 fenced, heard from at 0."""
    found = Heartbeats(session_timeout_ms=9_000)
    for broker_id in (1, 2, 3):
        found.register(broker_id, is_fenced=broker_id == 3, now_ms=0)
    return found


def test_a_session_lasts_its_timeout_and_not_a_millisecond_more() -> None:
    """C14, S1-15: silent for longer than the timeout; a fenced broker that sent no heartbeat yet has no session."""
    found = sessions()
    assert found.next_expiry_ms() == 9_001
    assert found.expired(9_000) == []
    assert found.expired(9_001) == [1, 2]
    assert [found.has_valid_session(each, 9_000) for each in (1, 2, 3, 4)] == [True, True, False, False]
    found.touch(1, metadata_offset=5, now_ms=4_000)
    assert found.expired(9_001) == [2]
    found.fenced(2)
    assert found.next_expiry_ms() == 13_001
    found.remove(1)
    assert found.next_expiry_ms() is None


def test_a_controller_that_stood_still_gives_the_time_back() -> None:
    """C14: heartbeats may have waited unread."""
    found = sessions()
    found.forgive(20_000)
    assert found.expired(29_000) == []
    assert found.expired(29_001) == [1, 2]


def test_a_controlled_shutdown_waits_for_the_others() -> None:
    """S1-58, S2-20: every other active broker has read past the records that moved the leaderships."""
    found = sessions()
    found.begin_controlled_shutdown(1, 50)
    assert found.state(1) is State.CONTROLLED_SHUTDOWN
    assert not found.others_have_caught_up(1)
    found.touch(2, metadata_offset=49, now_ms=1)
    assert not found.others_have_caught_up(1)
    found.touch(2, metadata_offset=50, now_ms=1)
    assert found.others_have_caught_up(1)
    found.begin_controlled_shutdown(1, 99)
    assert found.others_have_caught_up(1)
    found.fenced(2)
    assert found.others_have_caught_up(1)


@pytest.mark.parametrize("is_same", [True, False])
def test_a_process_that_registers_again_stays_in_controlled_shutdown(is_same: bool) -> None:
    """inv:C15, S2-20: it was told to wait for the others, and does; another process of the broker begins anew."""
    found = sessions()
    found.touch(1, metadata_offset=40, now_ms=1)
    found.begin_controlled_shutdown(1, 50)
    found.touch(2, metadata_offset=49, now_ms=1)
    found.register(1, is_fenced=not is_same, now_ms=2, is_same=is_same)
    assert found.metadata_offset(1) == (40 if is_same else -1)
    assert found.state(1) is (State.CONTROLLED_SHUTDOWN if is_same else State.FENCED)
    assert found.others_have_caught_up(1) is not is_same


def test_a_fenced_broker_leaves_controlled_shutdown() -> None:
    """KIP-841: its next heartbeat lets it stop at once."""
    found = sessions()
    found.begin_controlled_shutdown(1, 50)
    found.agree(1, is_fenced=True)
    found.touch(1, metadata_offset=60, now_ms=5)
    assert found.state(1) is State.FENCED


def test_a_session_agrees_with_the_image_and_a_contact_alone_changes_nothing() -> None:
    """C14, C16: a broker that is being fenced slice by slice stays fenced in its session, whoever hears from it."""
    found = sessions()
    found.fenced(1)
    found.touch(1, metadata_offset=60, now_ms=5)
    assert (found.state(1), found.has_valid_session(1, 5)) == (State.FENCED, True)
    found.agree(1, is_fenced=False)
    assert (found.state(1), found.has_valid_session(1, 5)) == (State.UNFENCED, True)
    found.begin_controlled_shutdown(2, 50)
    found.agree(2, is_fenced=False)
    assert found.state(2) is State.CONTROLLED_SHUTDOWN


def test_a_process_that_is_heard_from_has_its_id_to_itself_fenced_or_not() -> None:
    """S1-29: until it is silent for the timeout, was told to end, or is known to be gone; the same process keeps its session when it registers again."""
    found = sessions()
    found.touch(3, metadata_offset=1, now_ms=1_000)
    assert [found.has_valid_session(3, now_ms) for now_ms in (10_000, 10_001)] == [True, False]
    found.register(3, is_fenced=True, now_ms=2_000, is_same=True)
    assert found.has_valid_session(3, 2_000)
    found.ended(3)
    assert not found.has_valid_session(3, 2_000)
    found.touch(3, metadata_offset=1, now_ms=3_000)
    assert found.has_valid_session(3, 3_000)
    found.register(3, is_fenced=True, now_ms=3_000)
    assert not found.has_valid_session(3, 3_000)
