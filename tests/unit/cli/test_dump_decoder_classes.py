"""Are keys and values in a segment shown as Kafka's decoder classes show them?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.core.errors import OperatorError
from headrace.records.record import NewRecord, build_batch

PACKAGE = "org.apache.kafka.tools.api."


@pytest.fixture
def segment(tmp_path: Path) -> str:
    """A record whose key is a number of 8 bytes and whose value is one of 4, and one without both."""
    path = tmp_path / "00000000000000000000.log"
    numbers = NewRecord(timestamp=5, key=(-7).to_bytes(8, "big", signed=True), value=(9).to_bytes(4, "big"))
    path.write_bytes(build_batch([numbers, NewRecord(timestamp=5, key=None, value=None)]))
    return str(path)


def shown(segment: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What stands behind the metadata of the first record; the second has nothing there."""
    assert run(["dump-log", "--skip-record-metadata", "--files", segment, *options]) == 0
    first, second = capsys.readouterr().out.splitlines()[3:]
    assert second == ""
    return first.removeprefix("| ")


def test_the_classes_of_keys_and_values_are_chosen_apart(segment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """B-T09: naming a class shows contents, with --print-data-log or without; the class that is not named is StringDecoder."""
    both = ["--key-decoder-class", PACKAGE + "LongDecoder", "--value-decoder-class", PACKAGE + "IntegerDecoder"]
    assert shown(segment, capsys, *both) == "key: -7 payload: 9"
    assert shown(segment, capsys, *both, "--print-data-log") == "key: -7 payload: 9"
    assert shown(segment, capsys, "--value-decoder-class", "DefaultDecoder").endswith(" payload: 00000009")
    assert shown(segment, capsys, "--key-decoder-class", "LongDecoder") == "key: -7 payload: \0\0\0\x09"


def test_bytes_that_are_no_such_number_are_told(segment: str, capsys: pytest.CaptureFixture[str]) -> None:
    """B-T09: the rest of the segment is shown."""
    said = shown(segment, capsys, "--value-decoder-class", PACKAGE + "LongDecoder")
    assert said == "payload: Error at offset 0, skipping. 4 bytes are no number of 8 bytes"


def test_other_classes_are_refused(segment: str) -> None:
    """B78: one line that names those that are known."""
    with pytest.raises(OperatorError, match=r"decoder class my\.Own: must be one of StringDecoder, LongDecoder"):
        run(["dump-log", "--files", segment, "--key-decoder-class", "my.Own"])


@pytest.mark.parametrize("name", ["00000000000000000000.log", "nope.log", "my.index", "notes.txt", "none"])
def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """B78: an OperatorError is one line and exit code 1. Kafka's tool stumbles over some such names, and ignores others; files of other kinds it leaves alone."""
    path = tmp_path / name
    with pytest.raises(OperatorError, match=f"^{re.escape(str(path))}: No such file or directory$"):
        run(["dump-log", "--files", str(path)])
    capsys.readouterr()
    other = tmp_path / "other.txt"
    other.write_text("no segment")
    assert run(["dump-log", "--files", str(other)]) == 0
    assert capsys.readouterr().err == (
        f"Ignoring unknown file {other}: it has no name of a segment, an index or a snapshot, such as 00000000000000000000.log\n"
    )


def test_a_directory_is_no_file_to_dump(tmp_path: Path) -> None:
    """B78: it was ignored as a file of an unknown name."""
    with pytest.raises(OperatorError, match=f"^{re.escape(str(tmp_path))} is a directory: name files in it"):
        run(["dump-log", "--files", str(tmp_path)])
