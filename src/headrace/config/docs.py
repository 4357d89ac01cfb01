"""The meaning of each configuration key, in a line."""

from __future__ import annotations

from headrace.config.key import ConfigKey, Update, value_text

_UNITS = (
    (".ms", "milliseconds"),
    (".millis", "milliseconds"),
    (".seconds", "seconds"),
    (".minutes", "minutes"),
    (".hours", "hours"),
    (".bytes", "bytes"),
    (".bytes.per.second", "bytes a second"),
    (".bytes.between.snapshots", "bytes"),
)


def documentation_of(key: ConfigKey) -> str:
    """What the tables know of a key in one sentence or two: kind, unit, valid values, default, and when it may change."""
    unit = next((words for suffix, words in _UNITS if key.name.endswith(suffix)), None)
    kind = key.type.name.lower()
    parts = [f"A value of type {kind}{f', in {unit}' if unit else ''}."]
    if key.valid:
        parts.append(f"Valid: {key.valid}.")
    default = value_text(key, key.default)
    if key.required:
        parts.append("It has no default.")
    elif default is not None and not key.is_sensitive:
        parts.append(f"Default: {default or 'empty'}.")
    if key.update is not Update.READ_ONLY:
        parts.append("It may change while the broker runs.")
    return " ".join(parts)
