"""One line, taken apart into headers, key and value."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.core.errors import OperatorError
from headrace.core.values import value_class
from headrace.records.record import Headers


@value_class
class LineSettings:
    """The reader's properties, named as Kafka's `LineMessageReader` names them. The pattern is `headers<TAB>key<TAB>value`."""

    parses_key: bool = False
    parses_headers: bool = False
    ignores_errors: bool = False
    key_separator: str = "\t"
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    headers_key_separator: str = ":"
    null_marker: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LineSettings:
        """Settings from reader properties; others are ignored. Raises OperatorError for separators that cannot be told apart."""

        def is_true(key: str) -> bool:
            return properties.get(key, "false").strip().lower() == "true"

        found = cls(
            parses_key=is_true("parse.key"),
            parses_headers=is_true("parse.headers"),
            ignores_errors=is_true("ignore.error"),
            key_separator=properties.get("key.separator", "\t"),
            headers_delimiter=properties.get("headers.delimiter", "\t"),
            headers_separator=properties.get("headers.separator", ","),
            headers_key_separator=properties.get("headers.key.separator", ":"),
            null_marker=properties.get("null.marker"),
        )
        names = {
            "headers.delimiter": found.headers_delimiter,
            "headers.separator": found.headers_separator,
            "headers.key.separator": found.headers_key_separator,
        }
        taken: dict[str, str] = {}
        for name, text in names.items():
            if text in taken:
                raise OperatorError(f"{taken[text]} and {name} may not be equal")
            taken[text] = name
        for name, text in {"key.separator": found.key_separator, **names}.items():
            if text == found.null_marker:
                raise OperatorError(f"null.marker and {name} may not be equal")
            if not text:
                raise OperatorError(f"{name} may not be empty")
        return found


class LineReader:
    """Takes lines apart and counts them, to say where an error is."""

    def __init__(self, settings: LineSettings) -> None:
        self._settings = settings
        self._number = 0
        self._marker = None if settings.null_marker is None else settings.null_marker.encode()
        self._is_plain = not (settings.parses_key or settings.parses_headers) and self._marker is None

    def parse(self, line: bytes) -> tuple[bytes | None, bytes | None, Headers]:
        """Key, value and headers of one line without its end. Raises OperatorError for a separator that is missing."""
        self._number += 1
        if self._is_plain:
            return None, line, ()
        settings = self._settings
        head, rest = (
            self._cut(line, settings.headers_delimiter, "headers delimiter")
            if settings.parses_headers
            else (None, line)
        )
        key, value = (
            self._cut(rest, settings.key_separator, "key separator", line) if settings.parses_key else (None, rest)
        )
        headers = self._headers(head) if head is not None and head != self._marker else ()
        return (
            (None if key is None or key == self._marker else key),
            (None if value == self._marker else value),
            headers,
        )

    def _cut(self, text: bytes, separator: str, name: str, line: bytes | None = None) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator.encode())
        if found:
            return before, after
        if self._settings.ignores_errors:
            return None, text
        shown = (line if line is not None else text).decode(errors="replace")
        raise OperatorError(f"No {name} found on line number {self._number}: '{shown[:200]}'")

    def _headers(self, head: bytes) -> Headers:
        found: list[tuple[str, bytes | None]] = []
        for pair in re.split(self._settings.headers_separator, head.decode(errors="replace")):
            key, separator, value = pair.partition(self._settings.headers_key_separator)
            if not separator:
                if not self._settings.ignores_errors:
                    raise OperatorError(f"No header key separator found in pair '{pair}' on line number {self._number}")
                found.append((pair, None))
                continue
            if key == self._settings.null_marker:
                raise OperatorError(f"Header keys should not be equal to the null marker '{key}' as they can't be null")
            found.append((key, None if value == self._settings.null_marker else value.encode()))
        return tuple(found)
