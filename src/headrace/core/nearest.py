"""Which of the known names was probably meant by one that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """The most alike of the known names, None where none is alike; `least` is difflib's ratio, from 0 to 1."""
    from difflib import get_close_matches  # only a refusal needs it, and it takes milliseconds to load

    return next(iter(get_close_matches(name, list(known), n=1, cutoff=least)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the end of a refusal, or the empty text."""
    meant = nearest_name(name, known)
    return "" if meant is None else f"; did you mean {meant}?"
