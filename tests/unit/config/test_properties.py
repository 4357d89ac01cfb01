"""Are .properties files read exactly as Java reads them?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.config.properties import MalformedProperties, decode_properties, format_properties, parse_properties

JAVA = json.loads((Path(__file__).parents[2] / "golden/config/java-properties.json").read_text())


@pytest.mark.parametrize(("text", "pairs"), JAVA, ids=[repr(text) for text, _ in JAVA])
def test_java_reads_the_same(text: str, pairs: dict[str, str] | None) -> None:
    """B75: separators, escapes, continued lines and comments are those of java.util.Properties."""
    if pairs is None:
        with pytest.raises(MalformedProperties):
            parse_properties(text)
    else:
        assert parse_properties(text) == pairs


def test_a_malformed_escape_names_its_line() -> None:
    """B75: one clear error."""
    with pytest.raises(MalformedProperties, match=r"line 3: Malformed \\uxxxx encoding"):
        parse_properties("a=1\n\nb=\\u12g4\n")


def test_a_nul_byte_is_refused_with_its_line() -> None:
    """B75: a torn or binary file is no properties file."""
    with pytest.raises(MalformedProperties, match="line 2: a NUL byte"):
        decode_properties(b"a=1\nb=\0\0\n")


def test_utf8_with_a_mark_and_latin1_are_both_text() -> None:
    """B75: Java wrote Latin-1 for a long time."""
    assert decode_properties(b"\xef\xbb\xbfa=\xc3\xa9") == "a=é"
    assert decode_properties(b"a=\xe9") == "a=é"


@pytest.mark.parametrize(
    "values",
    [{}, {"a": "b"}, {" a b": " c d"}, {"k:=#!\\": "\t\n\r\f\\=:#!"}, {"": ""}, {"ключ": "€ 😀 é"}, {"a": "x y  z "}],
)
def test_what_is_written_is_read_again(values: dict[str, str]) -> None:
    """S1-01: whatever the values, reading gives them back."""
    assert parse_properties(format_properties(values, comment="any: comment")) == values
