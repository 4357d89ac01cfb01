"""Made-up histories of groups: what breaks a promise is flagged, what only comes near is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.sim.checkers.groups import Attendance, Broken, GroupLedger

MEMBER = ("m1", None, 1)


@contextmanager
def breaks(code: str) -> Iterator[None]:
    """The rule is told, and no other."""
    with pytest.raises(Broken) as caught:
        yield
    assert caught.value.code == code


def acknowledged(ledger: GroupLedger, token: str, offset: int, at: int, member: tuple[str, str | None, int]) -> None:
    """A commit that began and ended then."""
    ledger.committing(0, token, offset, at=at)
    ledger.committed(0, token, at=at + 1, member=member)


def test_a_partition_has_one_owner_in_a_generation() -> None:
    """inv:G1: in the next generation it may have another."""
    ledger = GroupLedger()
    ledger.synced("m1", 1, (0, 1), at=1)
    ledger.synced("m2", 1, (2,), at=2)
    ledger.synced("m1", 1, (0, 1), at=3)
    ledger.synced("m2", 2, (0,), at=4)
    with breaks("G1"):
        ledger.synced("m3", 2, (0,), at=5)


def test_generations_only_rise() -> None:
    """inv:G2: a join that began before the newer one was handed out may still have the older."""
    ledger = GroupLedger()
    ledger.synced("m1", 4, (0,), at=10)
    ledger.joined(4, began=11)
    ledger.joined(5, began=11)
    ledger.joined(3, began=9)
    with breaks("G2"):
        ledger.joined(3, began=11)


def test_after_too_much_was_lost_any_earlier_position_may_show_but_none_that_was_never_set() -> None:
    """inv:G4 inv:PR6: nothing is promised of what was; what is acknowledged from then on counts."""
    before = GroupLedger()
    acknowledged(before, "a", 5, 1, MEMBER)
    acknowledged(before, "b", 7, 3, MEMBER)
    ledger = before.after_a_loss()
    ledger.read(0, "", -1, began=5)
    ledger.read(0, "b", 7, began=6)
    ledger.read(0, "a", 5, began=7)
    with breaks("G4"):
        ledger.read(0, "c", 6, began=8)
    acknowledged(ledger, "d", 9, 10, MEMBER)
    ledger.read(0, "d", 9, began=12)


def test_an_older_generation_commits_nothing() -> None:
    """inv:G3: unless the commit was under way when the newer one was handed out."""
    ledger = GroupLedger()
    ledger.synced("m1", 1, (0,), at=1)
    ledger.committing(0, "late", 5, at=2)
    ledger.synced("m2", 2, (0,), at=3)
    ledger.committed(0, "late", at=4, member=MEMBER)
    with breaks("G3"):
        acknowledged(ledger, "too late", 6, 5, MEMBER)


def test_a_replaced_static_member_commits_nothing() -> None:
    """inv:G3: who took its place does."""
    ledger = GroupLedger()
    ledger.synced("i", 1, (0,), at=1)
    ledger.instance_is("i", "m1", at=1)
    ledger.instance_is("i", "m2", at=5)
    acknowledged(ledger, "a", 1, 6, ("m2", "i", 1))
    with breaks("G3"):
        acknowledged(ledger, "b", 2, 8, ("m1", "i", 1))


def test_what_was_refused_is_never_read() -> None:
    """inv:G3: what only may have been stored may be."""
    ledger = GroupLedger()
    ledger.committing(0, "unknown", 3, at=1)
    ledger.read(0, "unknown", 3, began=2)
    ledger.committing(0, "refused", 4, at=3)
    ledger.refused(0, "refused")
    with breaks("G3"):
        ledger.read(0, "refused", 4, began=5)


def test_the_position_that_is_read_is_the_last_one_acknowledged() -> None:
    """inv:G4: or one that was under way together with it."""
    ledger = GroupLedger()
    ledger.committing(0, "a", 7, at=1)
    acknowledged(ledger, "b", 5, 2, MEMBER)
    ledger.read(0, "a", 7, began=4)
    ledger.committed(0, "a", at=5, member=MEMBER)
    acknowledged(ledger, "c", 6, 6, MEMBER)
    ledger.read(0, "c", 6, began=8)
    with breaks("G4"):
        ledger.read(0, "a", 7, began=8)


def test_a_position_never_goes_back() -> None:
    """inv:H14, defect:K42: a read that began before the later commit ended may show the earlier one."""
    ledger = GroupLedger()
    acknowledged(ledger, "a", 5, 1, MEMBER)
    acknowledged(ledger, "b", 9, 3, MEMBER)
    ledger.read(0, "a", 5, began=4)
    with breaks("H14"):
        ledger.read(0, "a", 5, began=5)


def test_an_acknowledged_position_does_not_vanish() -> None:
    """promise:PR6: one that is still under way may not be there yet."""
    ledger = GroupLedger()
    ledger.committing(0, "a", 5, at=1)
    ledger.read(0, "", -1, began=2)
    ledger.committed(0, "a", at=3, member=MEMBER)
    ledger.read(0, "", -1, began=3)
    with breaks("PR6"):
        ledger.read(0, "", -1, began=4)


def test_a_position_that_nobody_committed_is_not_read() -> None:
    """inv:G4: neither under a token that nobody wrote, nor with another offset."""
    ledger = GroupLedger()
    acknowledged(ledger, "a", 5, 1, MEMBER)
    for token, offset in (("b", 5), ("a", 6)):
        with breaks("G4"):
            ledger.read(0, token, offset, began=9)


def test_commits_that_are_overtaken_are_forgotten() -> None:
    """inv:G4: a long run keeps few of them, and judges as before."""
    ledger = GroupLedger()
    for number in range(100):
        acknowledged(ledger, f"t{number}", number, 2 * number, MEMBER)
        ledger.read(0, f"t{number}", number, began=2 * number + 2)
    with breaks("G4"):
        ledger.read(0, "t1", 1, began=500)


@pytest.mark.parametrize(
    "unsettle",
    [
        lambda attendance: attendance.stands(2, -1),
        lambda attendance: attendance.stands(2, 3),
        lambda attendance: attendance.owns(2, ()),
        lambda attendance: attendance.owns(2, (1, 2)),
    ],
    ids=["one is out", "another generation", "a partition without an owner", "a partition with two"],
)
def test_a_living_group_comes_to_rest(unsettle: Callable[[Attendance], None]) -> None:
    """inv:GL1: with everybody in one generation, and one owner for each partition."""
    attendance = Attendance()
    attendance.at_rest(3)
    for client, partitions in ((1, (0, 1)), (2, (2,))):
        attendance.stands(client, 4)
        attendance.owns(client, partitions)
    attendance.at_rest(3)
    unsettle(attendance)
    with breaks("GL1"):
        attendance.at_rest(3)
