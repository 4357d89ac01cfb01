"""Do the pages for readers name what there is: files, commands and their options, settings with their defaults?"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from headrace.cli.main import COMMANDS
from headrace.cli.start import HELP
from headrace.config.key import Type
from headrace.config.project_keys import PROJECT_KEYS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PLACES = ("", "src", "src/headrace", "tests", "benchmarks")
_FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|md|txt|toml))`")
_TARGET = re.compile(r"(?:^|`)make ([a-z-]+)", re.M)
_COMMAND = re.compile(r"(?:^|`|\$ |\$\()headrace ([a-z][^`#|\n)]*)", re.M)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_that_are_named_exist(page: Path) -> None:
    """A page that leads to a file that has moved leads nowhere."""
    named = _FILE.findall(page.read_text())
    assert [file for file in named if not any((ROOT / place / file).exists() for place in PLACES)] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    """Links to other pages and files of the repository."""
    links = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())]
    assert [link for link in links if link and "://" not in link and not (page.parent / link).exists()] == []


def test_make_targets_that_are_named_exist() -> None:
    """`make TARGET` in the README."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(_TARGET.findall((ROOT / "README.md").read_text())) - targets == set()


def test_what_the_readme_claims_was_measured() -> None:
    """Each row of "How fast" names a command that there is, and a commit of which a run is kept."""
    text = (ROOT / "README.md").read_text().partition("## How fast")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| .* \| `make ([\w-]+)` \| (\w+) \|$|`make ([\w-]+)` at commit (\w+)", text)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    runs = [path.read_text() for path in (ROOT / "benchmarks" / "results").glob("*.json")]
    claims = {(one or other, commit or at) for one, commit, other, at in rows}
    assert claims
    assert [
        (target, commit)
        for target, commit in claims
        if target not in targets or not any(f'"commit": "{commit}' in run for run in runs)
    ] == []


def _unknown(words: list[str]) -> list[str]:
    """What of a command line there is not: the command, its sub-command, or an option."""
    if words[0] not in COMMANDS:
        return words[:1]
    if words[0] in ("start", "stop"):
        return [word for word in words[1:] if word.startswith("-") and word not in HELP]
    command: click.Command = import_module(f"headrace.cli.{words[0].replace('-', '_')}").command
    known = {option for each in command.params for option in each.opts} | {"--help"}
    wrong: list[str] = []
    for word in words[1:]:
        if isinstance(command, click.Group) and word in command.commands:
            command = command.commands[word]
            known = {option for each in command.params for option in each.opts} | {"--help"}
        elif word.startswith("-") and word not in known:
            wrong.append(f"{words[0]} {word}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_that_are_shown_are_understood(page: Path) -> None:
    """Every `headrace ...` of a page: its command, its sub-commands, its options."""
    lines = [found.split() for found in _COMMAND.findall(page.read_text())]
    assert [wrong for words in lines for wrong in _unknown(words)] == []


def test_settings_that_kafka_does_not_have_are_listed_with_their_defaults() -> None:
    """The table of the operator's guide; no setting is missing, none is told that there is not."""
    text = (ROOT / "docs" / "quorum.md").read_text().partition("## Settings that Kafka does not have")[2]
    told = {row[0]: row[1].strip() for row in re.findall(r"^\| `([\w.]+)` \| ([^|]*)\|", text, re.M)}
    assert told == {key.name: _shown(key.type, key.default) for key in PROJECT_KEYS}


def _shown(kind: Type, default: object) -> str:
    return str(default).lower() if kind is Type.BOOLEAN else str(default)
