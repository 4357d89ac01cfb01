"""Files that users name on the command line: their text, and JSON in them."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.core.errors import OperatorError


def read_text(path: str) -> str:
    """A UTF-8 file's text. Raises OperatorError."""
    try:
        return Path(path).read_bytes().decode()
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise OperatorError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def read_json_text(path: str) -> str:
    """The text of a file that is JSON, still to be parsed. Raises OperatorError with the place where it is none."""
    text = read_text(path)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise OperatorError(
            f"{path} is not a valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except (ValueError, RecursionError):  # nested without end, or a number of thousands of digits
        raise OperatorError(f"{path} is not a valid JSON: it is nested too deeply, or has too long a number") from None
    return text
