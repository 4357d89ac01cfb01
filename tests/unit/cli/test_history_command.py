"""What does `headrace history` take, and what does it refuse?"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.history_view import show_object
from headrace.cli.main import run
from headrace.cli.moments import Moment, iso, parse_moment
from headrace.core.errors import OperatorError

NOW_MS = 1_800_000_000_000


def test_a_moment_is_an_offset_a_time_or_how_long_ago() -> None:
    """B-T10: as a user would type it; a time without a zone is UTC, as all times that are shown."""
    assert parse_moment("4711", NOW_MS, "--at") == Moment(4711, None)
    assert parse_moment("15m", NOW_MS, "--at") == Moment(None, NOW_MS - 900_000)
    assert parse_moment("2d", NOW_MS, "--at") == Moment(None, NOW_MS - 172_800_000)
    assert parse_moment("2027-01-15T08:00", NOW_MS, "--at") == Moment(None, NOW_MS)
    assert parse_moment("2027-01-15T10:00:00.5+02:00", NOW_MS, "--at") == Moment(None, NOW_MS + 500)
    assert parse_moment(iso(NOW_MS + 7), NOW_MS, "--at") == Moment(None, NOW_MS + 7)
    for wrong in ("", "soon", "-5", "2027-13-01", "9" * 30 + "m", "9" * 30):
        with pytest.raises(OperatorError, match="--at"):
            parse_moment(wrong, NOW_MS, "--at")


def test_a_moment_lies_before_or_behind_a_record() -> None:
    """Offsets are compared with offsets, times with times."""
    assert Moment(5, None).is_after(4, 99)
    assert not Moment(5, None).is_after(5, 0)
    assert Moment(5, None).is_before(6, 0)
    assert Moment(None, 50).is_after(9, 49)
    assert Moment(None, 50).is_before(0, 51)
    assert (str(Moment(5, None)), str(Moment(None, 0))) == ("offset 5", "1970-01-01 00:00:00.000")


def test_a_time_to_come_is_refused(tmp_path: Path) -> None:
    """S3-08: the present was shown as if it were the state then, and nothing where events were asked for."""
    for option in ("--at", "--since"):
        with pytest.raises(OperatorError, match=r"^2399-01-01 00:00:00\.000 has not come yet"):
            run(["history", "--directory", str(tmp_path), option, "2399-01-01"])


def test_an_object_is_shown_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    """S3-08: no None, no False."""
    facts = {"rack": None, "partitions": [{"leader_epoch": 3, "elr": [], "is_recovering": False}]}
    show_object(facts, None, as_json=False)
    assert capsys.readouterr().out == ("rack: none\n  leader epoch 3, elr -, not recovering\nlast change: not known\n")


def test_what_contradicts_itself_is_refused_in_one_line(tmp_path: Path) -> None:
    """B78: options that do not go together, a directory without a log."""
    for arguments, said in (
        (["--partition", "1"], "--partition needs --topic"),
        (["--at", "1", "--since", "2"], "Give either --since or --at"),
        (["--directory", str(tmp_path), "--bootstrap-server", "h:1"], "Give one of --directory"),
        (["--directory", str(tmp_path)], "there is no metadata log"),
        (["--since", "x"], "--since x: give an offset"),
    ):
        with pytest.raises(OperatorError, match=said):
            run(["history", *arguments])
