"""Release note of a version: its section of CHANGELOG.md, as `make dist` puts it beside the wheel.

    python -m tools.release_note [VERSION]

Without a version, that of the package; while the changelog has no section for it, the section of what is not released yet.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from headrace import __version__

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def section(changelog: str, version: str) -> str | None:
    """What stands below `## [version]`, without the heading; None when there is no such section."""
    found = re.search(rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S)
    return found[1].strip() if found else None


def note(changelog: str, version: str) -> str:
    """The release note in Markdown. Raises ValueError when the changelog says nothing of the version."""
    text = section(changelog, version) or section(changelog, "Unreleased")
    if not text:
        raise ValueError(f"CHANGELOG.md has neither a section [{version}] nor [Unreleased]")
    return f"# Headrace {version}\n\n{text}\n"


if __name__ == "__main__":
    sys.stdout.write(note(CHANGELOG.read_text(), sys.argv[1] if sys.argv[1:] else __version__))
