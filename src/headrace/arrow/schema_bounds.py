"""The bounds of registered schemas, which anybody may have written who may write to the registry."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from headrace.core.errors import OperatorError

MOST_TYPES: Final = 10_000
"""Each takes some kilobytes and a tenth of a millisecond, before the first value is read."""
NOT_UNDERSTOOD: Final = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, pa.ArrowException,
)  # fmt: skip
"""What a schema may run into that is not what its readers expect: parts are missing, or of another kind, or nested without end."""


class TypeCount:
    """The number of types that a schema is made of, each as often as it is used: names that are used twice in each other grow to any number in a few lines."""

    def __init__(self, what: str) -> None:
        self._what = what
        self.count = 0

    def add(self) -> None:
        """One more. Raises OperatorError for too many."""
        self.count += 1
        if self.count > MOST_TYPES:
            raise OperatorError(f"{self._what} is made of more than {MOST_TYPES} types, so it has no columns")


def in_short(error: Exception) -> str:
    """What went wrong, as a part of one line; a schema may be long."""
    return f"{type(error).__name__} {' '.join(str(error).split())[:200]}".strip()
