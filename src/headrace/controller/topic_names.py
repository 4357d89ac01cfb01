"""Names of existing topics that a new one collides with.

Metric names cannot tell `.` from `_`, so topics whose names differ only there are kept apart (B26). Derived from the image and kept by
the active controller, so that a creation does not look at every topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class TopicNames:
    """The names with a `.` or `_` in them, by what metrics make of them."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._by_key: dict[str, dict[str, None]] = {}
        for name in sorted(names):
            self.add(name)

    def add(self, name: str) -> None:
        """A topic appeared."""
        if _can_collide(name):
            self._by_key.setdefault(_key(name), {})[name] = None

    def remove(self, name: str) -> None:
        """A topic went."""
        names = self._by_key.get(_key(name))
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._by_key[_key(name)]

    def colliding(self, name: str) -> str | None:
        """The first existing topic that metrics could not tell from `name`, or None."""
        names = self._by_key.get(_key(name)) if _can_collide(name) else None
        return next(iter(names)) if names else None


def _can_collide(name: str) -> bool:
    return "." in name or "_" in name


def _key(name: str) -> str:
    return name.replace(".", "_")
