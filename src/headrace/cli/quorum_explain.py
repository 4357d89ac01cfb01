"""The command `headrace quorum explain`: the diagnosis of a quorum, asked for and shown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from headrace.cli.output import show_json
from headrace.cli.shell import connect
from headrace.explain.causes import Cause, Diagnosis, State
from headrace.explain.collect import collect
from headrace.explain.diagnose import diagnose

_WIDTH = 110


def explain_quorum(options: dict[str, Any], *, timeout_ms: int, as_json: bool) -> int:
    """Ask, diagnose, show; the exit code. Raises OperatorError."""
    patience = {"socket.connection.setup.timeout.ms": str(timeout_ms), "request.timeout.ms": str(timeout_ms)}
    client = connect(
        options["bootstrap_server"],
        options["command_config"],
        bootstrap_controller=options["bootstrap_controller"],
        overrides=patience,
    )
    with client:
        found = diagnose(client.run(collect, timeout_ms=timeout_ms))
    if as_json:
        show_json(as_value(found))
    else:
        print("\n".join(lines(found)))
    return 0 if found.state is State.HEALTHY else 1


def lines(found: Diagnosis) -> Iterator[str]:
    """The diagnosis as text."""
    yield from _wrapped("", found.summary)
    for number, cause in enumerate(found.causes, 1):
        yield ""
        yield from _wrapped(f"{number}. ", f"{cause.headline[:1].upper()}{cause.headline[1:]}.")
        for text in cause.evidence:
            yield from _wrapped("   - ", text)
        for text in cause.advice:
            yield from _wrapped("   => ", text)
    if found.story:
        yield ""
        yield "What the nodes say:"
        for text in found.story:
            yield from _wrapped("   ", text)


def _wrapped(lead: str, text: str) -> list[str]:
    """Lines for a terminal; what a node made up to disturb it is not passed on."""
    return textwrap.wrap(
        "".join(letter if letter.isprintable() else "?" for letter in text),
        _WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )


def as_value(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis for JSON."""
    return {
        "state": found.state.value,
        "summary": found.summary,
        "causes": [_cause(each) for each in found.causes],
        "nodes": list(found.story),
    }


def _cause(each: Cause) -> dict[str, Any]:
    return {
        "kind": each.kind.value,
        "nodes": list(each.nodes),
        "headline": each.headline,
        "evidence": list(each.evidence),
        "advice": list(each.advice),
        "blocking": each.is_blocking,
    }
