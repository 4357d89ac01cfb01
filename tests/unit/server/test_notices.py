"""How many lines a client can make a node write."""

from __future__ import annotations

import logging

import pytest

from headrace.core.notice import Notice
from headrace.server.notices import SUBJECTS_KEPT, Story


class Clock:
    """Seconds that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """One that stands still."""
    return Clock()


@pytest.fixture
def story(clock: Clock, caplog: pytest.LogCaptureFixture) -> Story:
    """The log of a node at INFO."""
    caplog.set_level(logging.INFO, logger="headrace.server")
    return Story(clock)


def test_one_group_cannot_fill_the_log(story: Story, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """M5: six lines at once, then one every ten seconds; another group's lines are written beside them, and what was left out is counted."""
    for number in range(1_000):
        story.tell(Notice("groups", "wild", f"generation {number}"))
    story.tell(Notice("groups", "calm", "hello"))
    clock.now += 10
    story.tell(Notice("groups", "wild", "again"))
    story.tell(Notice("groups", "wild", "and again"))
    assert caplog.messages == [
        *(f"generation {number}" for number in range(6)),
        "hello (994 lines like this were left out)",
        "again",
    ]


def test_many_groups_cannot_fill_the_log(story: Story, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """M5: sixty lines of a kind at once, then one a second; the memory for names is bounded too."""
    for number in range(5 * SUBJECTS_KEPT):
        story.tell(Notice("groups", f"g-{number}", "rebalances"))
    assert len(caplog.messages) == 60
    clock.now += 3
    for number in range(100):
        story.tell(Notice("groups", f"h-{number}", "rebalances"))
    assert len(caplog.messages) == 63
    assert len(story._subjects) == SUBJECTS_KEPT
    story.tell(Notice("quorum", "", "node 2 leads"))
    assert caplog.messages[-1] == "node 2 leads"


def test_a_name_cannot_forge_a_line(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    """M5: control characters of a client's names are escaped, and long ones are cut."""
    story.tell(Notice("groups", "g", "group a\nERROR all is lost " + "x" * 1_000))
    (line,) = caplog.messages
    assert line.startswith("group a\\nERROR all is lost xx")
    assert len(line) < 310


def test_a_warning_is_one(story: Story, caplog: pytest.LogCaptureFixture) -> None:
    """M5: the same bounds hold for lines at WARNING."""
    story.tell(Notice("copies", "", "one copy only", is_warning=True))
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", "one copy only")]
