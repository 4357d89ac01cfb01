"""How long may the text of an error be?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import MAX_ERROR_TEXT, DecodeError, PeerError


@pytest.mark.parametrize("char", ["x", "ä", "\U0001f600"])
def test_the_text_of_an_error_fits_into_an_answer(char: str) -> None:
    """input:B26: names in it are a peer's, and a string on the wire has 32,767 bytes at most."""
    for error in (PeerError(ErrorCode.INVALID_REQUEST, char * 32_767), DecodeError(char * 40_000)):
        assert len(error.message) == MAX_ERROR_TEXT
        assert len(error.message.encode()) < 32_767
        assert error.message == str(error)
        assert error.message.endswith(f"{char}...")


def test_a_shorter_text_stays_as_it_is() -> None:
    assert PeerError(ErrorCode.INVALID_REQUEST, "x" * MAX_ERROR_TEXT).message == "x" * MAX_ERROR_TEXT
    assert PeerError(ErrorCode.INVALID_REQUEST).message == "INVALID_REQUEST"
