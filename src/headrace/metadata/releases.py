"""Levels of features by release of Apache Kafka, and what they need.

Facts of Apache Kafka 4.3.1, for `headrace storage version-mapping`, `feature-dependencies` and `headrace features`. What this
node itself can work with is in `metadata.versions`.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.core.errors import OperatorError
from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.versions import LATEST_METADATA_VERSION, METADATA_VERSION_NAMES, metadata_version_name

FEATURES: Final = (
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
"""The features beside metadata.version, in the order in which Kafka's tools list them."""

_DEFAULT_SINCE: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "kraft.version": ((21, 1),),
    "transaction.version": ((24, 2),),
    "group.version": ((22, 1),),
    "eligible.leader.replicas.version": ((26, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
}
"""From which metadata.version on which level is a new cluster's default."""

HIGHEST_LEVEL: Final = {name: steps[-1][1] for name, steps in _DEFAULT_SINCE.items()}
"""The highest level of each feature in Kafka 4.3.1."""

_NEEDS: Final[dict[tuple[str, int], dict[str, int]]] = {("eligible.leader.replicas.version", 1): {METADATA_VERSION: 23}}


def parse_release(text: str) -> int:
    """The metadata.version of a release: `4.3-IV0`, or `4.3` and `4.3.1` for the last one of 4.3.

    Raises OperatorError: no such release.
    """
    by_name = {name: level for level, name in METADATA_VERSION_NAMES.items()}
    if text in by_name:
        return by_name[text]
    numbers = re.fullmatch(r"([0-9]+\.[0-9]+)(\.[0-9]+)?", text)
    of_release = [level for name, level in by_name.items() if numbers and name.startswith(f"{numbers[1]}-")]
    if not of_release:
        raise OperatorError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: {', '.join(METADATA_VERSION_NAMES.values())}"
        )
    return max(of_release)


def default_level(feature: str, metadata_version: int) -> int:
    """The level that a new cluster of that metadata.version gets in Kafka."""
    return max((level for since, level in _DEFAULT_SINCE[feature] if metadata_version >= since), default=0)


def version_mapping(release: str | None) -> list[str]:
    """The lines of `version-mapping`. Raises OperatorError: no such release."""
    level = LATEST_METADATA_VERSION if release is None else parse_release(release)
    shown = release or metadata_version_name(level)
    lines = [f"{METADATA_VERSION}={level} ({shown})"]
    return lines + [f"{name}={default_level(name, level)}" for name in FEATURES]


def feature_dependencies(features: dict[str, int]) -> list[str]:
    """The lines of `feature-dependencies`. Raises OperatorError: an unknown feature or level."""
    lines: list[str] = []
    for name, level in features.items():
        shown = _shown(name, level)
        needed = _NEEDS.get((name, level), {})
        if not needed:
            lines.append(f"{shown} has no dependencies.")
            continue
        lines.append(f"{shown} requires:")
        lines += [f"    {_shown(other, least)}" for other, least in needed.items()]
    return lines


def _shown(name: str, level: int) -> str:
    if name == METADATA_VERSION:
        if level not in METADATA_VERSION_NAMES:
            raise OperatorError(f"Unknown metadata.version {level}")
        return f"{name}={level} ({metadata_version_name(level)})"
    if name not in HIGHEST_LEVEL:
        raise OperatorError(f"Unknown feature: {name}")
    if not 0 <= level <= HIGHEST_LEVEL[name]:
        raise OperatorError(f"Feature level {level} is not supported for feature {name}")
    return f"{name}={level}"


def parse_feature(text: str) -> tuple[str, int]:
    """Name and level of `feature=level`. Raises OperatorError."""
    name, equals, level = text.partition("=")
    if not equals:
        raise OperatorError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,5}\s*", level) or not -(2**15) <= int(level) < 2**15:
        raise OperatorError(f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short.")
    return name.strip(), int(level)
