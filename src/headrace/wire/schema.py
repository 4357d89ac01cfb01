"""The description of a message: its fields, in which versions each exists, and what stands for an absent one.

A message is one class for all its versions. Every field is one line, `name: type = field("facts", default=...)`, whose
facts are those of Kafka's definitions in a compact text:

    TYPE VERSIONS [nullable=VERSIONS] [tag=N@VERSIONS] [ignorable] [key] [entity=KIND] [inflexible] [name=KafkaName]

TYPE is `bool int8 int16 int32 int64 uint16 uint32 float64 uuid string bytes records`, the name of a struct of the same
module, or `[]` and one of these. VERSIONS is `3`, `0-7` or `2+`. The texts are parsed when a codec is first compiled,
so importing a module of messages is cheap.

Messages are immutable to the type checker. At run time their slots can be written, because decoders fill them that way.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar, cast, dataclass_transform

from headrace.core.values import value_class

T = TypeVar("T")

Records = bytes | memoryview
"""Record batches as they travel: decoders give a view onto the frame, never a copy."""

FIXED_SIZES: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
"""Types of one size, in bytes."""

_NO_LIMIT = 0x7FFF


@value_class(kw_only=False)
class VersionRange:
    """Versions from `first` to `last`, both inclusive; empty when `first` is above `last`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """A range written as `3`, `0-7`, `2+` or `none`. Raises ValueError for anything else."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), _NO_LIMIT)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSIONS: Final = VersionRange(0, -1)


@value_class
class FieldSpec:
    """One field: what Kafka's definition says of it."""

    name: str
    kafka_name: str
    kind: str
    is_array: bool
    struct: type[Struct] | None
    versions: VersionRange
    nullable: VersionRange
    tag: int | None
    tagged: VersionRange
    is_ignorable: bool
    is_key: bool
    is_inflexible: bool
    entity: str
    default: Any

    @property
    def json_name(self) -> str:
        """The field's name in Kafka's JSON: camel case."""
        return self.kafka_name[0].lower() + self.kafka_name[1:]


class _Facts:
    """What `field` keeps until somebody needs the field's specification."""

    __slots__ = ("default", "text")

    def __init__(self, text: str, default: Any) -> None:
        self.text = text
        self.default = default


def field(facts: str, *, default: T) -> T:
    """Declare a field of a message by its facts (see the module's docstring) and its default."""
    return cast(T, _Facts(facts, default))


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _parse_field(owner: type[Struct], name: str, facts: _Facts) -> FieldSpec:
    kind, versions, *rest = facts.text.split()
    is_array = kind.startswith("[]")
    kind = kind.removeprefix("[]")
    options = dict(part.partition("=")[::2] for part in rest)
    tag, _, tagged = options.get("tag", "").partition("@")
    return FieldSpec(
        name=name,
        kafka_name=options.get("name", _camel(name)),
        kind=kind,
        is_array=is_array,
        struct=getattr(sys.modules[owner.__module__], kind) if kind[0].isupper() else None,
        versions=VersionRange.parse(versions),
        nullable=VersionRange.parse(options.get("nullable", "none")),
        tag=int(tag) if tag else None,
        tagged=VersionRange.parse(tagged or "none"),
        is_ignorable="ignorable" in options,
        is_key="key" in options,
        is_inflexible="inflexible" in options,
        entity=options.get("entity", ""),
        default=facts.default,
    )


@dataclass_transform(eq_default=True, kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _StructType(type):
    """Turns annotated `field(...)` lines into slots; keyword facts of a message into class attributes."""

    __facts__: dict[str, _Facts]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: object) -> _StructType:
        declared = {key: value for key, value in namespace.items() if isinstance(value, _Facts)}
        for key in declared:
            del namespace[key]
        namespace["__slots__"] = tuple(declared)
        namespace["__match_args__"] = ()
        cls = super().__new__(mcs, name, bases, namespace)
        cls.__facts__ = declared
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **facts: object) -> None:
        super().__init__(name, bases, namespace)
        if facts:
            cls.SCHEMA = _message_facts(facts)


def _message_facts(facts: Mapping[str, object]) -> MessageFacts:
    key = facts.get("api_key")
    return MessageFacts(
        kind=str(facts["kind"]),
        api_key=int(str(key)) if key is not None else -1,
        versions=VersionRange.parse(str(facts["versions"])),
        flexible=VersionRange.parse(str(facts["flexible"])),
    )


class _DataclassFields:
    """Lets `dataclasses.replace`, `fields` and `asdict` work on messages; built when first asked for."""

    def __get__(self, instance: object, owner: _StructType) -> dict[str, dataclasses.Field[Any]]:
        twin = dataclasses.make_dataclass(
            owner.__name__,
            [(name, Any, dataclasses.field(default=facts.default)) for name, facts in owner.__facts__.items()],
            kw_only=True,
        )
        found = {part.name: part for part in dataclasses.fields(twin)}
        type.__setattr__(owner, "__dataclass_fields__", found)
        return found


class Struct(metaclass=_StructType):
    """A part of a message: a value with typed fields, equal to another of the same class and the same fields."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = _DataclassFields()  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        _install_init(cls)
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash((type(self), _values(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__facts__)
        return f"{type(self).__name__}({shown})"


class Message(Struct):
    """A request, response, header or record: what is encoded and decoded on its own."""

    SCHEMA: ClassVar[MessageFacts]


@value_class
class MessageFacts:
    """What holds for a whole message. `api_key` is -1 where there is none; `kind` is Kafka's, such as `request`."""

    kind: str
    api_key: int
    versions: VersionRange
    flexible: VersionRange


def _values(value: Struct) -> tuple[Any, ...]:
    names = type(value).__facts__
    if len(names) > 1:
        found: tuple[Any, ...] = attrgetter(*names)(value)
        return found
    return tuple(getattr(value, name) for name in names)


def _install_init(cls: _StructType) -> None:
    """Compile the constructor of a class: as a dataclass's, but only when it is first called."""
    names = list(cls.__facts__)
    parameters = "".join(f", {name}=d{number}" for number, name in enumerate(names))
    star = ", *" if names else ""
    body = "\n".join(f"    self.{name} = {name}" for name in names) or "    pass"
    scope: dict[str, Any] = {f"d{number}": cls.__facts__[name].default for number, name in enumerate(names)}
    exec(f"def __init__(self{star}{parameters}):\n{body}\n", scope)
    type.__setattr__(cls, "__init__", scope["__init__"])


_specs: dict[type[Struct], tuple[FieldSpec, ...]] = {}


def fields_of(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """The specifications of a struct's fields, in the order in which they are written."""
    found = _specs.get(cls)
    if found is None:
        found = _specs[cls] = tuple(_parse_field(cls, name, facts) for name, facts in cls.__facts__.items())
    return found
