"""The node that is attacked: one for all attacks of a file. A time over its bound is measured again, with another node."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from _pytest.runner import runtestprotocol

from tests.support.attacks import MEASURES, OverBound, Target

_OVER = pytest.StashKey[str]()


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A watched node with the settings of a default installation."""
    with Target() as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what was over its bound."""
    if call.excinfo is not None and isinstance(call.excinfo.value, OverBound):
        item.stash[_OVER] = str(call.excinfo.value)
    return (yield)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run the test; once more, and again, where only a time was over its bound. What was measured before is shown at the end of the run."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for _ in range(MEASURES - 1):
        over = item.stash.get(_OVER, None)
        if over is None:
            break
        del item.stash[_OVER]
        item.user_properties.append(("measured again", f"{item.name}: {over}"))
        item.session._setupstate.teardown_exact(item.session)  # type: ignore[arg-type]  # ends the fixtures of the file
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for each in reports:
        item.ihook.pytest_runtest_logreport(report=each)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
