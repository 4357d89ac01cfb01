"""Does one row make an API served, and what does a new forwarded one cost?"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from headrace.broker.served_apis import BROKER_APIS, NOT_CONTROLLER_APIS
from headrace.broker.served_apis import HANDLERS as OF_BROKERS
from headrace.controller.event_names import REQUEST_EVENTS
from headrace.controller.refusals import refused
from headrace.controller.requests import HANDLED
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.node.served_apis import HANDLERS as OF_CONTROLLERS
from headrace.rpc.apis import (
    API_TABLE,
    BROKER,
    CONTROLLER,
    OF_CONTROLLER,
    AnsweredBy,
    Api,
    ApiRow,
    handler_of,
    request_class_of,
    rows_on,
)
from headrace.wire.messages import alter_client_quotas, create_acls, create_delegation_token, create_partitions
from headrace.wire.schema import Message
from headrace.wire.versions import APIS, ApiKey, request_class
from tests.support.broker_bench import BrokerBench, Client

SOURCE = Path(__file__).parents[3] / "src" / "headrace"
ROWS = [
    *(pytest.param(row, id=f"broker-{row.name}") for row in (*BROKER_APIS, *NOT_CONTROLLER_APIS)),
    *(pytest.param(row, id=f"controller-{row.name}") for row in CONTROLLER_APIS),
]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_has_its_handler_and_its_request(row: ApiRow) -> None:
    """What is advertised is served."""
    assert callable(handler_of(row))
    assert request_class_of(row).SCHEMA.api_key == row.key


def test_every_api_has_one_row_and_every_handler_its_row() -> None:
    """No API twice, and no handler that nobody reaches."""
    assert len({api.key for api in API_TABLE}) == len(API_TABLE)
    served = {row.handler_module for row in (*BROKER_APIS, *NOT_CONTROLLER_APIS, *CONTROLLER_APIS)}
    files = {
        f"headrace.{folder.replace('/', '.')}.{path.stem}"
        for folder in ("broker/handlers", "node/controller_handlers")
        for path in (SOURCE / folder).glob("*.py")
        if path.stem != "__init__"
    }
    assert files - served == set()


def test_no_handler_only_forwards() -> None:
    """A handler of a broker does something of its own; what is handed on as it is has a row and no file."""
    for path in (SOURCE / "broker" / "handlers").glob("*.py"):
        bodies = re.findall(r"def handle\(.*?\n\n\n|def handle\(.*", path.read_text() + "\n\n\n", re.S)
        statements = [line.strip() for body in bodies for line in body.splitlines()[1:] if line.strip()]
        assert statements[1:] != ["return broker.forward(request, context)"], path.name


def test_the_controller_decides_what_the_table_says_it_decides() -> None:
    """A row without a decision would be advertised and not answered."""
    assert {request_class(key) for key in OF_CONTROLLER} == HANDLED
    assert set(REQUEST_EVENTS) == {each.__name__ for each in HANDLED}


@pytest.mark.parametrize(
    "key",
    [
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ],
    ids=lambda key: key.name,
)
def test_a_new_forwarded_api_costs_one_row_and_one_decision(key: ApiKey) -> None:
    """The row makes it advertised and forwarded by brokers, taken by controllers, also in an Envelope; the other edit is the controller's decision."""
    table = (*API_TABLE, Api(key, AnsweredBy.CONTROLLER))
    on_broker = {row.key: row for row in rows_on(BROKER, OF_BROKERS, table)}
    on_controller = {row.key: row for row in rows_on(CONTROLLER, OF_CONTROLLERS, table)}
    name = APIS[key].name
    assert on_controller[key].handler_module == "headrace.node.controller_requests"
    assert on_controller[key].api.is_forwarded

    bench = BrokerBench()
    client = Client(bench, rows=tuple(on_broker.values()))
    module = import_module(APIS[key].module)
    request, response = getattr(module, f"{name}Request")(), getattr(module, f"{name}Response")()
    assert isinstance(refused(request, PeerError(ErrorCode.REQUEST_TIMED_OUT), api_version=1), type(response))
    client.send(request, APIS[key].last_stable)
    assert bench.controller.answer(response) == request
    assert client.answers() == [response]


_TOO_LATE = PeerError(ErrorCode.REQUEST_TIMED_OUT, "too late")
_CODE = ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (
            create_delegation_token.CreateDelegationTokenRequest(),
            create_delegation_token.CreateDelegationTokenResponse(error_code=_CODE),
        ),
        (
            create_partitions.CreatePartitionsRequest(
                topics=(create_partitions.CreatePartitionsTopic(name="a", count=3),)
            ),
            create_partitions.CreatePartitionsResponse(
                results=(
                    create_partitions.CreatePartitionsTopicResult(name="a", error_code=_CODE, error_message="too late"),
                )
            ),
        ),
        (
            create_acls.CreateAclsRequest(creations=(create_acls.AclCreation(), create_acls.AclCreation())),
            create_acls.CreateAclsResponse(
                results=(create_acls.AclCreationResult(error_code=_CODE, error_message="too late"),) * 2
            ),
        ),
        (
            alter_client_quotas.AlterClientQuotasRequest(
                entries=(
                    alter_client_quotas.RequestEntryData(
                        entity=(alter_client_quotas.RequestEntityData(entity_type="user", entity_name="u"),)
                    ),
                )
            ),
            alter_client_quotas.AlterClientQuotasResponse(
                entries=(
                    alter_client_quotas.ResponseEntryData(
                        error_code=_CODE,
                        error_message="too late",
                        entity=(alter_client_quotas.ResponseEntityData(entity_type="user", entity_name="u"),),
                    ),
                )
            ),
        ),
    ],
    ids=["whole", "by topic", "by position", "by entity"],
)
def test_a_refusal_follows_from_the_fields_of_the_response(request_: Message, response: Message) -> None:
    """For the whole request where there is one error, else for each item, named as it was asked for."""
    assert refused(request_, _TOO_LATE, api_version=1) == response
