"""Requests that Schemathesis makes of the OpenAPI document, good ones and bad ones: every answer is one that the document names."""

import asyncio
import uuid
from typing import Any
from urllib.parse import urlencode

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.requests import Request

from sojourn import Client, Principal, Worker
from sojourn.asgi import create_app
from sojourn.contracts.principal import ROLES
from sojourn.http.security.headers import MAX_HEAD
from sojourn.network import http_client
from tests.http.conftest import Shop, listening
from tests.http.every_protocol import say
from tests.http.test_document import PATHS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = 15
"""Requests for each operation."""

LONGEST_WAIT = 0.2
"""Seconds for which a request may wait for an answer."""

PATIENCE = 60.0
"""Seconds for one answer."""


@pytest.fixture(scope="module")
async def made(shop, temporal_address):
    """The shop's app on a worker, and its service, for a tenant of its own: the document's examples name conversations that other tests have had."""
    queue = f"q-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(temporal_address, task_queue=queue)

    async def somebody(_request: Request) -> Principal:
        return Principal(subject="anybody", tenant=queue, roles=list(ROLES))

    web = create_app(shop.app, client=client, auth=somebody)
    async with (
        Worker(shop.app, client),
        listening(web) as url,
        http_client(base_url=url, timeout=60) as http,
    ):
        yield Shop(web, url, http, client, None)


@pytest.fixture(scope="module")
async def known(made):
    """Values of paths that are there: an agent, a run with an artifact, and a conversation that is a chat too."""
    run_id = await made.start("measure")
    output = (await made.output(run_id))["output"]
    session_id = f"of-{run_id}"
    _, path, headers, body = say("vercel", "hello", session_id=session_id)
    await made.post(path, body, headers=headers)
    ref = output["artifacts"][0]["ref"].partition("#")[2]
    session = {"session_id": session_id, "chat_id": session_id}
    return {
        "agent_id": "shop.clerk",
        "run_id": run_id,
        "ref": ref,
        "attachment_id": "att_0123456789abcdef",
        "toolset": "ops.github",
        "id": "9f2c",
        **session,
    }


@pytest.fixture(scope="module")
def document(made):
    """The service's document, as Schemathesis reads it."""
    return schemathesis.openapi.from_dict(made.web.openapi())


@pytest.mark.parametrize("name", sorted(PATHS))
async def test_every_answer_is_one_that_the_document_names(made, document, known, name: str):
    """Whatever an operation is sent, it never fails, and status, media type, headers and body are those of the document."""
    method, path = name.split()
    operation = document[path][method]
    there = {each.name: known[each.name] for each in operation.path_parameters}
    requests = st.one_of(
        operation.as_strategy(),
        operation.as_strategy(path_parameters=there),
        operation.as_strategy(GenerationMode.NEGATIVE),
        operation.as_strategy(GenerationMode.NEGATIVE, path_parameters=there),
    )

    @hypothesis.settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=requests)
    def ask(case: Case) -> None:
        case.query = bounded(case.query)
        hypothesis.assume(len(urlencode(case.query or {})) < MAX_HEAD / 2)  # the server refuses more
        case.call_and_validate(base_url=made.url, checks=CHECKS, timeout=PATIENCE)

    await asyncio.to_thread(ask)


def bounded(query: Any) -> Any:
    """A query that waits for no more than a moment."""
    if not isinstance(query, dict) or not isinstance(query.get("wait"), int | float):
        return query
    return {**query, "wait": min(query["wait"], LONGEST_WAIT)}
