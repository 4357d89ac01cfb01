"""Do probes leave the look-ups of names to others?"""

from __future__ import annotations

import asyncio
import socket

from headrace.core.peers import SendFailure
from headrace.net.connecting import Prober


class Names:
    """Look-ups that end when the test says so; how many were under way at most."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.under_way = self.most = 0
        self.answers: dict[str, asyncio.Event] = {}

    async def look_up(self, host: str, _port: int) -> list[str]:
        """Nobody knows the host."""
        self.asked.append(host)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.answers.setdefault(host, asyncio.Event()).wait()
        self.under_way -= 1
        raise OSError("no such host")


async def _turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_one_name_is_looked_up_at_a_time_also_when_its_probe_was_given_up() -> None:
    """M6: a thread waits for a name that nobody answers for longer than the probe; eight of them kept the node's own look-ups waiting for 19 s."""

    async def probe_eight() -> tuple[list[str], int]:
        names = Names()
        prober = Prober(names.look_up)
        probes = [asyncio.ensure_future(prober.probe(f"slow{each}", 1, timeout_s=0)) for each in range(8)]
        assert await asyncio.gather(*probes) == [SendFailure.TIMED_OUT] * 8
        late = asyncio.ensure_future(prober.probe("late", 1, timeout_s=60))
        await _turns()
        before = list(names.asked)
        for each in (*before, "late"):
            names.answers.setdefault(each, asyncio.Event()).set()
        assert await late is SendFailure.DISCONNECTED
        return before, names.most

    before, most = asyncio.run(probe_eight())
    assert len(before) <= 1
    assert most == 1


def test_an_address_waits_for_no_name() -> None:
    """C14: what is registered with addresses is probed though a name is looked up."""

    async def probe_beside_a_name() -> SendFailure | None:
        names = Names()
        prober = Prober(names.look_up)
        slow = asyncio.ensure_future(prober.probe("slow", 1, timeout_s=60))
        await _turns()
        assert names.under_way == 1
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            found = await prober.probe("127.0.0.1", silent.getsockname()[1], timeout_s=60)
        names.answers["slow"].set()
        assert await slow is SendFailure.DISCONNECTED
        return found

    assert asyncio.run(probe_beside_a_name()) is SendFailure.REFUSED


def test_a_name_that_takes_long_leaves_the_others_their_turns() -> None:
    """M6, C14: one that nobody answers for, learned anew every ten seconds, kept brokers with names from being found gone."""

    async def probe_again() -> list[tuple[SendFailure | None, int]]:
        names, now = Names(), [0.0]
        prober = Prober(names.look_up, now=lambda: now[0])
        slow = asyncio.ensure_future(prober.probe("slow", 1, timeout_s=60))
        await _turns()
        now[0] = 20.0
        names.answers["slow"].set()
        assert await slow is SendFailure.DISCONNECTED
        names.answers.setdefault("quick", asyncio.Event()).set()
        told = []
        for host, at_s in (
            ("slow", 20.0),
            ("quick", 20.0),
            ("quick", 20.0),
            ("slow", 219.0),
            ("slow", 220.0),
            ("slow", 220.0),
        ):
            now[0] = at_s
            told.append((await prober.probe(host, 1, timeout_s=60), len(names.asked)))
        return told

    silent, known = SendFailure.TIMED_OUT, SendFailure.DISCONNECTED
    assert asyncio.run(probe_again()) == [(silent, 1), (known, 2), (known, 3), (silent, 3), (known, 4), (known, 5)]
