"""Do searches that leave the event loop wait for one another, fairly, and keep nothing while they do?"""

from __future__ import annotations

from headrace.broker.walks import MOST_SEARCHES, WalkJob, Walks
from headrace.records.walk import Search


class Lane:
    """Jobs that the test does."""

    def __init__(self) -> None:
        self.jobs: list[WalkJob] = []
        self.walks = Walks()
        self.walks.begin = self.jobs.append
        self.begun: list[str] = []
        self.done: list[str] = []

    def search(self, name: str, *, asker: str, is_wanted: bool = True, in_place: bool = False, steps: int = 1) -> None:
        """Ask for a search that leaves the loop so many times."""

        def steps_of_it() -> Search[str]:
            self.begun.append(name)
            for _ in range(steps):
                yield None
            return name

        self.walks.in_turn(steps_of_it, self.done.append, asker=asker, is_wanted=lambda: is_wanted, in_place=in_place)

    def go_on(self) -> None:
        """Do the oldest job."""
        job = self.jobs.pop(0)
        job.run(iter)
        job.finish()


def test_some_searches_are_under_way_and_the_others_have_not_begun() -> None:
    """inv:M1: a search keeps the batch that it looks into, one that waits keeps nothing."""
    lane = Lane()
    for number in range(MOST_SEARCHES + 3):
        lane.search(f"a{number}", asker="a")
    assert len(lane.jobs) == len(lane.begun) == MOST_SEARCHES
    lane.go_on()
    assert (lane.done, lane.begun[-1]) == (["a0"], f"a{MOST_SEARCHES}")
    while lane.jobs:
        lane.go_on()
    assert lane.done == [f"a{number}" for number in range(MOST_SEARCHES + 3)]


def test_askers_take_turns() -> None:
    """PR8, M6: who asks once does not wait for all searches of who asks a hundred times."""
    lane = Lane()
    for number in range(100):
        lane.search(f"a{number}", asker="a")
    lane.search("b", asker="b")
    lane.go_on()
    lane.go_on()
    assert lane.begun[MOST_SEARCHES:] == [f"a{MOST_SEARCHES}", "b"]


def test_a_search_that_nobody_wants_any_more_is_not_begun() -> None:
    """A client that goes while it waits for its turn."""
    lane = Lane()
    for number in range(MOST_SEARCHES):
        lane.search(f"a{number}", asker="a")
    lane.search("gone", asker="a", is_wanted=False)
    lane.search("last", asker="a")
    while lane.jobs:
        lane.go_on()
    assert "gone" not in lane.begun
    assert lane.done[-1] == "last"


def test_what_is_found_at_once_waits_for_nobody() -> None:
    """Most searches look into one small batch; one that takes more begins anew in its turn."""
    lane = Lane()
    for number in range(MOST_SEARCHES):
        lane.search(f"a{number}", asker="a")
    lane.search("quick", asker="a", in_place=True, steps=0)
    lane.search("slow", asker="a", in_place=True)
    assert lane.done == ["quick"]
    while lane.jobs:
        lane.go_on()
    assert lane.begun.count("slow") == 2
    assert lane.done[-1] == "slow"


def test_searches_that_end_at_once_in_their_turn_do_not_nest() -> None:
    """A thousand whose log has gone meanwhile."""
    lane = Lane()
    for number in range(MOST_SEARCHES):
        lane.search(f"a{number}", asker="a")
    for number in range(1_000):
        lane.search(f"b{number}", asker="b", steps=0)
    lane.go_on()
    assert len(lane.done) == 1_001
