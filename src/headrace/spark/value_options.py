"""The options that decode values: `valueFormat`, `valueSchema`, `rescuedColumn`, `deadLetterTopic`, and those of a schema registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.arrow.value_rows import ValueColumns

REGISTRY_PREFIX: Final = "schema.registry."
_FORMATS: Final = ("json", "csv", "avro", "protobuf")
_TAKEN: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamptype", "headers")
_DEPENDENT: Final = (
    "valueSchema", "rescuedColumn", "deadLetterTopic", "valueSubject", "valueSubjectVersion",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """The format and the schema of values as they were given; `rescued_column` and `dead_letter_topic` get what does not fit.

    `registry` are the settings of a schema registry's client; without `schema`, values are read as its `subject` says, in the latest version unless `version`
    says another. `settled` is what that was once somebody asked: a query keeps it.
    """

    value_format: str
    schema: str | None
    rescued_column: str | None = None
    dead_letter_topic: str | None = None
    registry: tuple[tuple[str, str], ...] | None = field(default=None, repr=False)
    subject: str | None = None
    version: int | None = None
    settled: ValueColumns | None = None

    def columns(self) -> ValueColumns:
        """The same for the decoder. Raises OperatorError for a format or a schema that cannot be, or a registry that does not tell."""
        from headrace.arrow.value_rows import ValueColumns
        from headrace.arrow.value_schema import parse_value_schema

        if self.settled is not None:
            return self.settled
        schema = self._registered() if self.schema is None else parse_value_schema(self.schema)
        return ValueColumns(
            value_format=self.value_format, schema=schema, rescued_column=self.rescued_column, registry=self.registry
        )

    def settle(self) -> ValueOptions:
        """The same, with what the registry says now."""
        return replace(self, settled=self.columns())

    def _registered(self) -> object:
        import pyarrow as pa

        from headrace.arrow.registered import schema_columns
        from headrace.arrow.registry import registry_of

        assert self.registry is not None
        assert self.subject is not None
        found = registry_of(self.registry).of_subject(self.subject, self.version)
        return pa.schema(list(schema_columns(found, self.value_format)))


def parse_value_options(options: Mapping[str, str]) -> ValueOptions | None:
    """The options out of those under lower-case names; None where values stay bytes. Raises OperatorError."""
    given = options.get("valueformat", "").strip().lower()
    registry = tuple(
        (name.removeprefix(REGISTRY_PREFIX), value)
        for name, value in sorted(options.items())
        if name.startswith(REGISTRY_PREFIX)
    )
    if not given:
        _check_alone(options, registry)
        return None
    if given not in _FORMATS:
        raise OperatorError(f"valueFormat={given}: must be {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
    schema = options.get("valueschema", "").strip() or None
    rescued = options.get("rescuedcolumn", "").strip() or None
    if rescued is not None and rescued.lower() in _TAKEN:
        raise OperatorError(f"rescuedColumn={rescued}: there is a column of this name")
    dead = options.get("deadlettertopic", "").strip() or None
    if dead is not None and dead in [each.strip() for each in options.get("subscribe", "").split(",")]:
        raise OperatorError(f"deadLetterTopic={dead} is read by this query: leave it out, or name another")
    parsed = ValueOptions(
        value_format=given,
        schema=schema,
        rescued_column=rescued,
        dead_letter_topic=dead,
    )
    if not registry:
        if given in ("avro", "protobuf"):
            raise OperatorError(f"valueFormat={given} needs schema.registry.url, the address of a schema registry")
        if schema is None:
            raise OperatorError(f"valueFormat={given} needs valueSchema, such as valueSchema='id bigint, name string'")
        return parsed
    return _with_registry(parsed, options, registry)


def _check_alone(options: Mapping[str, str], registry: tuple[tuple[str, str], ...]) -> None:
    """Raise OperatorError for an option that says how to decode where nothing is decoded."""
    name = next((each for each in _DEPENDENT if options.get(each.lower(), "").strip()), None)
    if name is None and registry:
        name = REGISTRY_PREFIX + registry[0][0]
    if name is not None:
        raise OperatorError(
            f"{name} has no meaning without valueFormat: say {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}"
        )


def _with_registry(
    parsed: ValueOptions, options: Mapping[str, str], registry: tuple[tuple[str, str], ...]
) -> ValueOptions:
    if not dict(registry).get("url", "").strip():
        raise OperatorError("schema.registry.url is missing: say the address of a schema registry")
    if parsed.value_format == "csv":
        raise OperatorError("valueFormat=csv: a schema registry has no schemas of CSV; leave schema.registry.url out")
    version = options.get("valuesubjectversion", "").strip()
    if version and not (version.isdecimal() and int(version) > 0):
        raise OperatorError(f"valueSubjectVersion={version}: must be a whole number from 1")
    subject = options.get("valuesubject", "").strip() or _subject(options)
    if parsed.schema is None and subject is None:
        raise OperatorError("which schema do the values of several topics have? say valueSubject or valueSchema")
    return replace(parsed, registry=registry, subject=subject, version=int(version) if version else None)


def _subject(options: Mapping[str, str]) -> str | None:
    """The subject of the one topic that is read, by Confluent's usual strategy of names."""
    topic = options.get("subscribe", "").strip()
    return f"{topic}-value" if topic and "," not in topic else None
