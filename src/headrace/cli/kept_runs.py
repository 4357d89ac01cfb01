"""The runs of a suite that takes an hour, kept in a file, so that it can be stopped and gone on with."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.core.errors import OperatorError
from headrace.sim.outcome import RunKey, RunResult

if TYPE_CHECKING:
    from collections.abc import Iterable

Name: TypeAlias = tuple[str, int, str]
_BEGIN: Final = '{"level": "'
"""So every line begins."""


class KeptRuns:
    """A line of JSON for each run that kept every rule, with the commit that made it. One that failed leaves none: it is made again."""

    def __init__(self, path: Path, commit: str) -> None:
        """Read what is there. Raises OperatorError for a file of something else."""
        self._path = path
        self._commit = commit
        self._kept: dict[Name, tuple[RunResult, str]] = {}
        self.commits: Counter[str] = Counter()
        """Of each commit, how many of the runs that were taken from the file it made."""
        self._read()

    def _read(self) -> None:
        """What a process that was killed left of its last line goes; anything else that is no run is refused, and the file stays as it is."""
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        whole, _, rest = text.rpartition("\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                result, made_by = _parse(line)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._refusal(number) from None
            self._kept[_name(result.key)] = result, made_by
        if rest:
            if not rest.startswith(_BEGIN) and not _BEGIN.startswith(rest):
                raise self._refusal(whole.count("\n") + bool(whole) + 1)
            os.truncate(self._path, len(text.encode()) - len(rest.encode()))

    def _refusal(self, number: int) -> OperatorError:
        return OperatorError(f"{self._path}, line {number}: no run of `headrace sim --keep`; name another file")

    def take(self, keys: Iterable[RunKey]) -> tuple[list[RunResult], list[RunKey]]:
        """The results of those that were made before, and the keys of the others."""
        taken, left = [], []
        for key in keys:
            kept = self._kept.get(_name(key))
            if kept is None:
                left.append(key)
                continue
            result, made_by = kept
            taken.append(result)
            self.commits[made_by] += 1
        return taken, left

    def note(self, result: RunResult) -> None:
        """One more run is over."""
        if result.failure is not None:
            return
        line = {
            "level": result.key.level,
            "seed": result.key.seed,
            "options": dict(result.key.options),
            "steps": result.steps,
            "simulated_ms": result.simulated_ms,
            "digest": result.digest,
            "markers": dict(result.markers),
            "commit": self._commit,
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")


def _name(key: RunKey) -> Name:
    return key.level, key.seed, json.dumps(dict(key.options), sort_keys=True)


def _parse(line: str) -> tuple[RunResult, str]:
    data: Any = json.loads(line)
    key = RunKey(level=str(data["level"]), seed=int(data["seed"]), options=dict(data["options"]))
    result = RunResult(
        key=key,
        steps=int(data["steps"]),
        simulated_ms=int(data["simulated_ms"]),
        digest=str(data["digest"]),
        markers={str(name): int(count) for name, count in data["markers"].items()},
    )
    return result, str(data["commit"])
