"""Values that nobody may change, made quickly when there are a million of them a minute.

The class of a value that is made with each request, or once a partition, is made without the cost of `frozen`: an `__init__` that goes
through `object.__setattr__` takes three times as long. And a changed copy is made by a function that is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

__all__ = ["changed", "quick_value"]

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def quick_value(cls: type[T]) -> type[T]:
    """A dataclass with slots that is immutable to the type checker only."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)


if TYPE_CHECKING:
    from dataclasses import replace as changed
else:
    _ways: dict[tuple[object, ...], Callable[..., Any]] = {}

    def changed(value: T, /, **changes: object) -> T:
        """As `dataclasses.replace`, of a class whose fields are all in its constructor."""
        key = (type(value), *changes)
        way = _ways.get(key)
        if way is None:
            way = _ways[key] = _compiled(*key)
        return way(value, **changes)

    def _compiled(cls: type, *names: str) -> Callable[..., Any]:
        """A function that makes another value of this class, with other values under these names."""
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in names if name not in known]:
            raise TypeError(f"{cls.__name__} has no field {', '.join(unknown)}")
        parts = ", ".join(f"{name}={name if name in names else f'_value.{name}'}" for name in known)
        scope = {"_make": cls}
        exec(f"def way({', '.join(('_value', *names))}): return _make({parts})", scope)
        return scope["way"]
