"""How much of long answers may lie in memory?"""

from __future__ import annotations

from functools import partial

from headrace.rpc.unread import MOST_UNREAD_BYTES, LongAnswer, UnreadAnswers


def test_who_has_had_a_long_answer_for_longest_goes_first() -> None:
    """PR8, inv:M1: clients that ask for much and read nothing, each on a connection of its own, close one another's."""
    unread, closed = UnreadAnswers(), list[int]()

    def close(number: int) -> None:
        closed.append(number)
        unread.gone(number)

    for number in range(4):
        unread.begin(number, partial(close, number))
        unread.grown(number, MOST_UNREAD_BYTES // 2)
    assert closed == [0, 1]
    assert unread.bytes == MOST_UNREAD_BYTES


def test_an_answer_counts_until_nothing_refers_to_its_bytes() -> None:
    """The last piece of it was sent, or dropped with its connection."""
    unread, closed = UnreadAnswers(), list[str]()
    answer = LongAnswer(unread, lambda: closed.append("a"))
    pieces = [answer.piece(bytearray(500)), answer.piece(bytearray(500))]
    del answer
    assert unread.bytes == 1_000
    pieces.pop()
    assert unread.bytes == 1_000
    pieces.pop()
    assert (unread.bytes, closed) == (0, [])
