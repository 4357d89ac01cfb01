"""One page of metrics out of those of several processes: each sample says by a label of which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LABEL: Final = "process"


def merged_page(pages: Mapping[str, str]) -> str:
    """The pages, Prometheus' text, by the value of the label; what says the same of a family stands once, before all of its samples."""
    headers: dict[str, dict[str, None]] = {}
    samples: dict[str, list[str]] = {}
    for value, page in pages.items():
        label, family = f'{LABEL}="{value}"', ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                headers.setdefault(family, {})[line] = None
            elif line:
                samples.setdefault(family, []).append(_labelled(line, label))
    return "".join(line + "\n" for family, header in headers.items() for line in (*header, *samples.get(family, ())))


def _labelled(line: str, label: str) -> str:
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{label},{rest}" if not rest.startswith("}") else f"{name}{{{label}{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{label}}} {value}"
