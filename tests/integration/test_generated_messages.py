"""Are the committed message classes what the tool makes of Kafka's definitions?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import kafka

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "src" / "headrace" / "wire"


@pytest.mark.java
def test_the_committed_classes_are_those_of_the_definitions(tmp_path: Path) -> None:
    """B-W01: no class was edited by hand, none is missing, and none is left from another version of Kafka."""
    definitions, target = tmp_path / "definitions", tmp_path / "wire"
    assert kafka.definitions(definitions) > 250
    tool = ROOT / "tools" / "generate_messages.py"
    # inside the project, so that the formatter finds its settings
    subprocess.run([sys.executable, str(tool), str(definitions), str(target)], check=True, timeout=120, cwd=ROOT)
    made = {path.relative_to(target): path for path in target.rglob("*.py")}
    assert len(made) > 180
    different = [str(name) for name, path in made.items() if _plain(WIRE / name) != _plain(path)]
    assert different == []
    generated = "Written by tools/generate_messages.py"
    ours = {path.relative_to(WIRE) for path in WIRE.rglob("*.py") if generated in path.read_text()}
    assert ours <= set(made)


def _plain(path: Path) -> str:
    """A file without its line breaks: where lines are broken is the formatter's matter."""
    return "".join(path.read_text().split()).replace(",)", ")").replace(",]", "]") if path.exists() else ""
