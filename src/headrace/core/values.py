"""Values that nobody may change, made quickly when there are a million of them a minute, as their classes are when a process starts.

An `__init__` of a frozen dataclass goes through `object.__setattr__` and takes three times as long as a plain one; and `dataclass` compiles six methods
of each class when the class is made, which was half of what it took to import a node. Here one is compiled at once, and two when they are first
needed. A changed copy is made by a function that is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform, overload

__all__ = ["changed", "value_class"]

T = TypeVar("T")


@overload
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value_class(cls: type[T], /) -> type[T]: ...


@overload
@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value_class(*, kw_only: bool = True, eq: bool = True) -> Callable[[type[T]], type[T]]: ...


def value_class(
    cls: type[Any] | None = None, /, *, kw_only: bool = True, eq: bool = True
) -> type[Any] | Callable[[type[Any]], type[Any]]:
    """A dataclass with slots that can be hashed and is immutable to the type checker only. Without `eq` each of its values is equal to itself alone."""

    def made(plain: type[Any]) -> type[Any]:
        own = set(vars(plain))
        value: Any = dataclass(slots=True, kw_only=kw_only, eq=False, repr=False)(plain)
        if "__repr__" not in own:
            value.__repr__ = _shown
        if eq and "__eq__" not in own:
            _compile_when_compared(value)
        return cast("type[Any]", value)

    return made if cls is None else made(cls)


def _shown(value: Any) -> str:
    """As a dataclass shows itself."""
    parts = ", ".join(f"{each.name}={getattr(value, each.name)!r}" for each in fields(value) if each.repr)
    return f"{type(value).__qualname__}({parts})"


def _compile_when_compared(cls: Any) -> None:
    """Let the first comparison, or the first hash, compile both methods."""

    def equal(self: object, other: object) -> Any:
        _compile(cls)
        return cls.__eq__(self, other)

    def hashed(self: object) -> int:
        _compile(cls)
        return int(cls.__hash__(self))

    cls.__eq__ = equal
    cls.__hash__ = hashed


def _compile(cls: Any) -> None:
    names = [each.name for each in fields(cls) if each.compare]
    mine, others = (f"({''.join(f'{whose}.{name}, ' for name in names)})" for whose in ("self", "other"))
    scope: dict[str, Any] = {}
    exec(
        f"def __eq__(self, other):\n return {mine} == {others} if other.__class__ is self.__class__ else NotImplemented\n"
        f"def __hash__(self):\n return hash({mine})\n",
        scope,
    )
    cls.__eq__ = scope["__eq__"]
    cls.__hash__ = scope["__hash__"]


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
