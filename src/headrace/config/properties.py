"""Keys and values of a .properties file (the format of java.util.Properties).

Lines end with LF, CR or CRLF; a backslash at the end joins the next line (its leading blanks dropped); `#` and `!` start
a comment; a key ends at the first unescaped `=`, `:` or blank; `\\t \\n \\f \\r \\uXXXX` and escaped characters are undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = frozenset("0123456789abcdefABCDEF")


class MalformedProperties(ValueError):
    """A line cannot be read; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def parse_properties(text: str) -> dict[str, str]:
    """Key to value; of a repeated key the last value stays, as in Java.

    Raises MalformedProperties: a `\\u` without four hexadecimal digits.
    """
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        found[_unescape(key, number)] = _unescape(value, number)
    return found


def decode_properties(data: bytes) -> str:
    """The text of a file: UTF-8, or Latin-1 (Java's older encoding) where it is not.

    Raises MalformedProperties: a NUL byte, which no properties file holds, but files of other kinds and torn ones do.
    """
    position = data.find(b"\0")
    if position >= 0:
        raise MalformedProperties(data.count(b"\n", 0, position) + 1, "a NUL byte: this is not a properties file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def format_properties(values: Mapping[str, str], *, comment: str) -> str:
    """The text of a properties file with a comment of one line, as Java would write it (without its date line)."""
    lines = [f"#{comment}"]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, continued ones joined; each with the number of its first line."""
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = 0
    while number < len(natural):
        first, line = number + 1, natural[number].lstrip(_BLANK)
        number += 1
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1]
            if number == len(natural) or not line:
                break
            line += natural[number].lstrip(_BLANK)
            number += 1
        if line or number == len(natural):
            yield first, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value, both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
        elif position < len(text):
            escaped = text[position]
            position += 1
            if escaped == "u":
                digits = text[position : position + 4]
                if len(digits) != 4 or not _HEX.issuperset(digits):
                    raise MalformedProperties(line, "Malformed \\uxxxx encoding.")
                out.append(chr(int(digits, 16)))
                position += 4
            else:
                out.append(_ESCAPES.get(escaped, escaped))
    return _join_surrogates("".join(out))


def _join_surrogates(text: str) -> str:
    """Two `\\u` halves of one character become that character, as they are in Java's UTF-16."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _escape(text: str, *, is_key: bool) -> str:
    out: list[str] = []
    for position, char in enumerate(text):
        if char in "\t\n\r\f":
            out.append("\\" + {"\t": "t", "\n": "n", "\r": "r", "\f": "f"}[char])
        elif char in "\\=:#!" or (char == " " and (is_key or position == 0)):
            out.append("\\" + char)
        elif not 0x20 <= ord(char) <= 0x7E:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
        else:
            out.append(char)
    return "".join(out)
