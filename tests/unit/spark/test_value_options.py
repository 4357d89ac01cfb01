"""Are the options that decode values understood, and contradictions among them told?"""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.core.errors import OperatorError
from headrace.spark.dead_letters import DeadLetters
from headrace.spark.option_names import check_names
from headrace.spark.value_options import ValueOptions, parse_value_options

URL = {"schema.registry.url": "http://h:8081"}


def test_a_registry_has_the_schema_of_the_topic_unless_another_is_named() -> None:
    """TopicNameStrategy by default; every setting of the registry's client goes to it."""
    found = parse_value_options(
        {"valueformat": "Avro", "subscribe": "orders", "schema.registry.basic.auth.user.info": "al:hush", **URL}
    )
    assert found == ValueOptions(
        value_format="avro",
        schema=None,
        registry=(("basic.auth.user.info", "al:hush"), ("url", "http://h:8081")),
        subject="orders-value",
    )
    assert "hush" not in repr(found)
    named = {"subscribepattern": ".*", "valuesubject": "s", "valuesubjectversion": "3", "deadlettertopic": "bad"}
    assert parse_value_options({"valueformat": "protobuf", **named, **URL}) == ValueOptions(
        value_format="protobuf", schema=None, registry=(("url", "http://h:8081"),), subject="s", version=3, dead_letter_topic="bad"
    )  # fmt: skip
    assert parse_value_options({}) is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"valueformat": "yaml"}, "must be json, csv, avro or protobuf"),
        ({"valueformat": "avro"}, "schema.registry.url"),
        ({"valueformat": "json"}, "needs valueSchema"),
        ({"valueformat": "csv", "valueschema": "a int", **URL}, "no schemas of CSV"),
        ({"valueformat": "avro", "schema.registry.basic.auth.user.info": "hush"}, "schema.registry.url is missing"),
        ({"valueformat": "avro", "subscribe": "a,b", **URL}, "valueSubject"),
        ({"valueformat": "avro", "subscribepattern": "a", **URL}, "valueSubject"),
        ({"valueformat": "avro", "subscribe": "a", "valuesubjectversion": "latest", **URL}, "whole number"),
        ({"valueformat": "avro", "subscribe": "a", "rescuedcolumn": "Offset", **URL}, "a column of this name"),
        (
            {"valueformat": "csv", "valueschema": "a int", "subscribe": "a, d", "deadlettertopic": "d"},
            "is read by this",
        ),
        ({"deadlettertopic": "d"}, "deadLetterTopic has no meaning without valueFormat"),
        ({"valuesubject": "d"}, "valueSubject has no meaning without valueFormat"),
        (URL, "schema.registry.url has no meaning without valueFormat"),
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, str], named: str) -> None:
    """B78: one line with the remedy, without a secret."""
    with pytest.raises(OperatorError) as caught:
        parse_value_options(options)
    assert named in str(caught.value)
    assert "hush" not in str(caught.value)


def test_settings_of_the_registrys_client_are_known_names() -> None:
    """Whatever begins with `schema.registry.` goes to the client."""
    check_names({"schema.registry.ssl.ca.location": "/x", "schema.registry.url": "u"}, is_write=False)
    with pytest.raises(OperatorError, match=r"did you mean schema\.registry\.url"):
        check_names({"schema.registryurl": "u"}, is_write=False)


def test_dead_letters_of_the_dead_letter_topic_are_refused() -> None:
    """A pattern may match that topic: a query that feeds itself would never end."""
    rows = pa.record_batch({"topic": ["t", "d"], "value": pa.array([b"x", b"y"], pa.binary())})
    with pytest.raises(OperatorError, match="deadLetterTopic=d is read by this query"):
        DeadLetters("d", {}, task=0).send(rows, ["why", "why"])
