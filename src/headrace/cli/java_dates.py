"""Times as Java's `SimpleDateFormat` writes them."""

from __future__ import annotations

import re
import time

from headrace.core.errors import OperatorError

_FIELDS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "Z": "%z",
    "EEE": "%a",
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")


def format_date(at: float, pattern: str) -> str:
    """A time in seconds since 1970, in the local zone. Raises OperatorError for a field that is not known."""
    moment = time.localtime(at)
    written: list[str] = []
    for match in _TOKEN.finditer(pattern):
        token = match[0]
        if match[1] is not None:
            written.append(match[1].replace("''", "'") or "'")
        elif match[2] is None:
            written.append(token)
        elif match[2] == "S":
            written.append(str(int(at * 1000) % 1000).rjust(len(token), "0"))
        elif token in _FIELDS:
            written.append(time.strftime(_FIELDS[token], moment))
        else:
            raise OperatorError(f"--date-format {pattern}: {token} is not known; known are {', '.join(_FIELDS)} and S")
    return "".join(written)
