"""Which closed connections are worth a line?"""

from __future__ import annotations

import pytest

from headrace.net.closed_log import ClosedConnectionLog


class Clock:
    """Seconds that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was written."""
    return [record.getMessage() for record in caplog.records]


def test_a_host_gets_one_line_a_minute_for_one_reason(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever connects a thousand times writes two lines, and the second one counts the others."""
    clock = Clock()
    log = ClosedConnectionLog(clock)
    for number in range(1_000):
        clock.now += 0.061
        log.closed(listener="L", peer=f"10.0.0.1:{number}", reason=f"a request of {number} bytes")
    assert lines(caplog) == [
        "closed connection from 10.0.0.1:0 on L: a request of 0 bytes",
        "closed connection from 10.0.0.1:984 on L: a request of 984 bytes; so were 983 more of this host",
    ]


def test_other_hosts_and_reasons_have_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    """One wrong client does not hide another."""
    log = ClosedConnectionLog(Clock())
    for peer, reason in (("a:1", "x"), ("b:1", "x"), ("a:1", "y"), ("b:1", "x")):
        log.closed(listener="L", peer=peer, reason=reason)
    wanted = (("a", "x"), ("b", "x"), ("a", "y"))
    assert lines(caplog) == [f"closed connection from {host}:1 on L: {reason}" for host, reason in wanted]


def test_many_hosts_get_ten_lines_a_second(caplog: pytest.LogCaptureFixture) -> None:
    """Forged addresses, or reasons that a peer makes up, fill neither the log nor the memory."""
    clock = Clock()
    log = ClosedConnectionLog(clock)
    for number in range(5_000):
        log.closed(listener="L", peer=f"{number}:1", reason=f"reason {chr(0x4E00 + number)}")
    assert len(lines(caplog)) == 10
    clock.now += 1
    log.closed(listener="L", peer="last:1", reason="x")
    assert lines(caplog)[10:] == [
        "4990 more connections were closed for bad input",
        "closed connection from last:1 on L: x",
    ]
