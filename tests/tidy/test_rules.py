"""Does each code that is cited say something, and is each rule tested?"""

from __future__ import annotations

from collections import Counter

import pytest

from tools import rules


def test_every_code_that_is_cited_is_a_rule() -> None:
    """A code without a row in docs/rules means nothing to a reader; `python -m tools.rules` says where it stands."""
    assert rules.unknown_codes() == {}, "give each a row in docs/rules, then `make rules`"


def test_every_rule_has_a_test_that_names_it() -> None:
    """A rule that no test names is a wish."""
    assert rules.untested_rules() == []


def test_no_rule_stands_twice() -> None:
    """One code, one sentence."""
    codes = [rule.code for rule in rules.read_rules()]
    assert [code for code, times in Counter(codes).items() if times > 1] == []


def test_every_rule_is_a_sentence_with_a_source() -> None:
    """The sentence ends like one; the source is a KIP, a paper, Kafka or this project."""
    known = (
        "KIP-",
        "KAFKA-",
        "Raft ",
        "Kafka ",
        "project requirement",
        "rule ",
        "message format",
        "controller redesign",
    )
    wrong = [
        rule.code
        for rule in rules.read_rules()
        if len(rule.sentence.split()) < 3 or not rule.sentence.endswith(".") or not rule.source.startswith(known)
    ]
    assert wrong == []


def test_every_row_says_where_its_rule_is_held() -> None:
    """What the last column names does name the rule, a test among it; `make rules` renews the column."""
    assert rules.untrue_rows() == [], "`make rules` renews the rows"


def test_no_code_stands_alone_in_the_product() -> None:
    """In `src` a sentence or a KIP comes before a code, so that a reader who knows no code loses nothing."""
    assert rules.bare_citations() == []


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("KIP-631, S1-28: refused.", ["S1-28"]),
        ("inv:R1, fault:S24 input:B51; defect:K1.", ["R1", "S24", "B51", "K1"]),
        ("(S1-05..S1-08, B40-B42)", ["S1-05", "S1-08", "S1-06", "S1-07", "B40", "B42", "B41"]),
        ("S1-42..44", ["S1-42", "S1-44", "S1-43"]),
        ("S0-20, S1-05 to S1-06", ["S1-05", "S1-06", "S0-20"]),
        ("A401K is no code, SHA-256, PR, x.R1, AR1, B008", []),
        ("a.R1 R-1 R1-x", []),
    ],
)
def test_codes_are_found_alone_with_a_kind_and_as_ranges(text: str, codes: list[str]) -> None:
    """What counts as a citation."""
    known = [f"S1-{number:02}" for number in range(80)] + [f"B{number}" for number in range(1, 60)]
    assert sorted(set(rules.codes_in(text, known))) == sorted(codes)
