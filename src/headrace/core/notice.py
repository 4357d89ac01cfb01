"""One line for the operator's log, as a value: machines have no logging, the driver writes it, or leaves it out when there are too many."""

from __future__ import annotations

from typing import NamedTuple


class Notice(NamedTuple):
    """What happened. `about` is the kind of thing, `subject` which one: the driver bounds the lines of either."""

    about: str
    subject: str
    text: str
    is_warning: bool = False


def unheard(notice: Notice) -> None:
    """Nobody listens to what the operator should know."""
