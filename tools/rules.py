"""The rules that code and tests cite, where each is held, and what is wrong with the list.

A rule is a row of a table in `docs/rules`: its code, one sentence, its source, and where it is held. The last column is made from the citations:
docstrings, comments and texts of Python files, and transcripts. Codes stand there bare or with a kind before them (`inv:R1`, `fault:S1`, `input:B51`,
`defect:K1`), alone or as ranges (`S1-05..S1-12`, `B40-B43`).

    python -m tools.rules              what is wrong: unknown codes, bare ones, rules that no test names, rows that are not true
    python -m tools.rules --write      renew the column (`make rules`)
    python -m tools.rules R21 S4-19    each place that names them
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "rules"
SOURCES = ("src/headrace", "tools", "benchmarks")
TESTS = ("tests", "tools/mutants")
KINDS = ("inv", "fault", "input", "defect")
FAMILIES = {
    **{f"S{number}": rf"S{number}-\d{{2,3}}" for number in range(5)},
    **{f"B-{letter}": rf"B-{letter}\d\d" for letter in "RSCKPTMWU"},
    "D-0": r"D-\d\d",
    **{
        name: rf"{name}[1-9]\d{{0,2}}"
        for name in (
            "PR",
            "RL",
            "CL",
            "PL",
            "GL",
            "R",
            "C",
            "P",
            "E",
            "G",
            "D",
            "A",
            "M",
            "H",
            "S",
            "B",
            "K",
            "X",
            "Y",
            "W",
        )
    },
}
"""The families of codes, each with the form of its codes."""

_CODE = "|".join(f"(?:{form})" for form in FAMILIES.values())
_BEFORE = rf"(?<![\w.:/-])(?:(?:{'|'.join(KINDS)}):)?"
_RANGE = re.compile(rf"{_BEFORE}({_CODE})(?:(?:\.\.| to |-)({_CODE})|\.\.(\d{{1,3}}))(?![\w-])")
_ONE = re.compile(rf"{_BEFORE}({_CODE})(?![\w-])")
_FIRST = re.compile(rf"{_BEFORE}(?:{_CODE})(?![\w-])")
_LIKE_A_CODE = re.compile(_CODE)
"""A text without it names none. Most files are such, and to parse one costs more than to look through it."""
_STRING_OF_A_CODE = re.compile(rf"[\"']{_FIRST.pattern}")
_ROW = re.compile(r"^\| ([A-Z][\w-]*\d) \| (.*?) \| (.*?) \| ?(.*?) ?\|$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the pages."""

    code: str
    sentence: str
    source: str
    held_in: str
    page: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where a code is named: a file, relative to the repository, and a line."""

    file: str
    line: int


def read_rules() -> list[Rule]:
    """All rows, in the order of pages and rows."""
    return [
        Rule(code=row[1], sentence=row[2], source=row[3], held_in=row[4], page=page.name)
        for page in sorted(PAGES.glob("*.md"))
        for row in _ROW.finditer(page.read_text())
    ]


def codes_in(text: str, known: Sequence[str] = ()) -> Iterator[str]:
    """The codes that a text names. Of a range its ends, and those of `known` that lie between."""
    for found in _RANGE.finditer(text):
        first = found[1]
        family, low = _split(first)
        last = found[2] or f"{family}{found[3]}"
        high = _split(last)[1]
        yield from (first, last)
        for code in known:
            its_family, number = _split(code)
            if its_family == family and low < number < high:
                yield code
    for found in _ONE.finditer(text):
        yield found[1]


def _split(code: str) -> tuple[str, int]:
    """`S1-05` is (`S1-`, 5), `B-K08` is (`B-K`, 8), `R21` is (`R`, 21)."""
    found = re.fullmatch(r"(S\d-|D-|B-[A-Z]|[A-Z]+)(\d+)", code)
    assert found is not None, code
    return found[1], int(found[2])


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of a file in which a code is a citation: of Python its strings and comments."""
    content = path.read_text(errors="replace")
    if path.suffix != ".py":
        yield from enumerate(content.splitlines(), start=1)
        return
    if not _LIKE_A_CODE.search(content):
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _LIKE_A_CODE.search(node.value):
            for number, line in enumerate(node.value.splitlines()):
                yield node.lineno + number, line
    for number, line in enumerate(content.splitlines(), start=1):
        before, found, comment = line.partition("#")
        if found and not comment.lstrip().startswith("noqa") and before.count('"') % 2 == 0:
            yield number, comment


def _files(folder: str) -> Iterator[Path]:
    for path in sorted((ROOT / folder).rglob("*")):
        is_this_tool = path == Path(__file__) or path.parts[-2:] == ("tidy", "test_rules.py")
        if not is_this_tool and (path.suffix == ".py" or (path.suffix == ".txt" and "transcripts" in path.parts)):
            yield path


@cache
def citations() -> Mapping[str, Sequence[Place]]:
    """Each code that is named anywhere, with its places in order."""
    known = [rule.code for rule in read_rules()]
    places: defaultdict[str, set[Place]] = defaultdict(set)
    for folder in dict.fromkeys((*SOURCES, *TESTS)):
        for path in _files(folder):
            name = path.relative_to(ROOT).as_posix()
            for line, text in _texts(path):
                for code in codes_in(text, known):
                    places[code].add(Place(file=name, line=line))
    return {code: sorted(found) for code, found in places.items()}


def is_test(place: Place) -> bool:
    """A test, or a defect that is planted to see whether the tests find it."""
    return place.file.startswith(tuple(f"{folder}/" for folder in TESTS))


def held_in(code: str) -> str:
    """Where a rule is held, for its row: files, or folders where there are many."""
    places = citations().get(code, ())
    code_files = sorted({place.file.removeprefix("src/headrace/") for place in places if not is_test(place)})
    test_files = sorted({place.file for place in places if is_test(place)})
    parts = [_shortened(code_files, 3, depth=1), _shortened(test_files, 2, depth=3)]
    return "; ".join(part for part in parts if part)


def _shortened(files: Sequence[str], most: int, *, depth: int) -> str:
    if len(files) > most:
        files = sorted({"/".join(file.split("/")[:-1][:depth]) + "/" for file in files})
    if len(files) > 2 * most and depth > 1:
        return _shortened([f"{file}x" for file in files], most, depth=depth - 1)
    return ", ".join(f"`{file}`" for file in files)


def unknown_codes() -> dict[str, Place]:
    """Codes that are cited and have no row, each with the first place."""
    known = {rule.code for rule in read_rules()}
    return {code: places[0] for code, places in sorted(citations().items()) if code not in known}


def untested_rules() -> list[str]:
    """Rules that no test names."""
    return [rule.code for rule in read_rules() if not any(is_test(place) for place in citations().get(rule.code, ()))]


def untrue_rows() -> list[str]:
    """Rules whose row names a place that does not name them any more, or no test. (A place more makes no row untrue; `--write` adds it.)"""
    return [rule.code for rule in read_rules() if not _is_true(rule)]


def _is_true(rule: Rule) -> bool:
    files = [place.file.removeprefix("src/headrace/") for place in citations().get(rule.code, ())]
    said = re.findall(r"`([^`]+)`", rule.held_in)
    is_tested = any(each.startswith(TESTS) for each in said)
    return is_tested and all(any(file.startswith(each) for file in files) for each in said)


def bare_citations() -> list[Place]:
    """Where in `src` a docstring, or a comment by itself, begins with a code: no word and no KIP stands before it."""
    found = []
    for path in _files("src/headrace"):
        name, content = path.relative_to(ROOT).as_posix(), path.read_text()
        texts = [
            (node.lineno, node.value.value)
            for node in ast.walk(ast.parse(content if _STRING_OF_A_CODE.search(content) else ""))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        lines = [line.strip() for line in content.splitlines()]
        for number, (before, line) in enumerate(pairwise(["", *lines]), start=1):
            if line.startswith("# ") and not before.startswith("#"):
                texts.append((number, line[2:]))
        found += [Place(file=name, line=number) for number, text in texts if _FIRST.match(text)]
    return sorted(found)


def write() -> None:
    """Renew the last column of every page."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        page.write_text(
            _ROW.sub(lambda row: f"| {row[1]} | {row[2]} | {row[3]} | {held_in(row[1])} |".replace("|  |", "| |"), text)
        )


def _problems() -> list[str]:
    twice = [code for code, times in Counter(rule.code for rule in read_rules()).items() if times > 1]
    return [
        *(f"{code}: no row in docs/rules, but {place.file}:{place.line}" for code, place in unknown_codes().items()),
        *(f"{code}: no test names it" for code in untested_rules()),
        *(f"{code}: has two rows" for code in twice),
        *(f"{place.file}:{place.line}: a code without a word before it" for place in bare_citations()),
        *(f"{code}: its row is not true any more; make rules" for code in untrue_rows()),
    ]


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; the exit code is 1 when something is wrong."""
    if arguments == ["--write"]:
        write()
        return 0
    if not arguments:
        problems = _problems()
        print("\n".join(problems) or f"{len(read_rules())} rules, each tested")
        return 1 if problems else 0
    rules = {rule.code: rule for rule in read_rules()}
    for code in arguments:
        rule = rules.get(code)
        print(f"{code}: {rule.sentence} ({rule.source}; docs/rules/{rule.page})" if rule else f"{code}: not a rule")
        for place in citations().get(code, ()):
            print(f"  {place.file}:{place.line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
