"""How is a diagnosis shown?"""

from __future__ import annotations

import json

import pytest

from headrace.cli.main import _guarded
from headrace.cli.quorum_explain import as_value, lines
from headrace.explain.causes import Cause, CauseKind, Diagnosis, State

CAUSE = Cause(
    kind=CauseKind.FULL_DISK,
    nodes=(2,),
    headline="the disk of node 2 is full",
    evidence=("/data/2 has 0 bytes free of 1.0 GiB",),
    advice=("Make room on the disk of node 2.",),
    is_blocking=True,
)
FOUND = Diagnosis(
    state=State.STALLED,
    summary="Node 1 leads epoch 7, but the high watermark stands at 95 for 9.0 s: the disk of node 2 is full.",
    causes=(CAUSE,),
    story=(
        "node 1 (voter) is Leader in epoch 7",
        "node 2 (voter) is Follower in epoch 7, " + "which takes more than a line " * 4,
    ),
)


def test_text_has_cause_evidence_advice_and_what_the_nodes_say() -> None:
    """S4-54: most likely root first, wrapped for a terminal."""
    shown = list(lines(FOUND))
    assert shown[:6] == [
        "Node 1 leads epoch 7, but the high watermark stands at 95 for 9.0 s: the disk of node 2 is full.",
        "",
        "1. The disk of node 2 is full.",
        "   - /data/2 has 0 bytes free of 1.0 GiB",
        "   => Make room on the disk of node 2.",
        "",
    ]
    assert shown[6:8] == ["What the nodes say:", "   node 1 (voter) is Leader in epoch 7"]
    assert max(map(len, shown)) <= 110


def test_json_names_the_kind() -> None:
    """S4-54: for programs."""
    value = json.loads(json.dumps(as_value(FOUND)))
    assert (value["state"], value["causes"][0]["kind"], value["causes"][0]["nodes"]) == ("stalled", "full-disk", [2])
    assert value["causes"][0]["blocking"] is True


def test_where_nobody_answers_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """S4-24: exit code 1, no trace, each address with its reason."""
    asked = ["quorum", "--bootstrap-controller", "127.0.0.1:1,127.0.0.1:2", "explain", "--timeout-ms", "500"]
    assert _guarded(asked) == 1
    shown = capsys.readouterr().out
    assert "Nothing is known of the quorum: no node answers at any address that was given." in shown
    assert "127.0.0.1:1: connection refused" in shown
    assert "127.0.0.1:2: connection refused" in shown


def test_what_a_node_makes_up_does_not_reach_the_terminal() -> None:
    """B-W06: control characters of an answer are shown as question marks."""
    shown = "\n".join(lines(Diagnosis(state=State.DEGRADED, summary="a\x1b[2Jb", causes=(), story=("c\x07d",))))
    assert "a?[2Jb" in shown
    assert "c?d" in shown
