"""A message that denies an open approval, by every protocol: its reply is the answer of the turn, and says that the call did not run."""

import uuid

import pytest

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import PROTOCOLS, say
from tests.workflows.test_message_denies import app_of

LOCAL = Principal(subject="local")
"""Who asks without an authentication."""


@pytest.fixture
async def served(serve):
    """An agent whose approvals are denied by a message, its service, and a client of both."""
    app = app_of("deny")
    client = await serve(app)
    async with (
        listening(create_app(app, client=client)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):
        yield client, http


async def test_a_message_denies_by_every_protocol(served, subtests):
    """The text is the reason, and the reply has the answer of the turn whose call it denied; a plain yes shows the call again where texts decide."""
    client, http = served

    async def deny(name: str) -> None:
        session_id = uuid.uuid4().hex
        session = client.session("test.agent", session_id, principal=LOCAL)
        first = await session.send("wipe")
        await session.run.until_waiting()
        request = say(
            name, "why disk a?", session_id=session_id, message_id=f"m-{session_id}", agent_id="test.agent"
        )
        answer = await http.request(request.method, request.path, headers=request.headers, json=request.body)
        assert answer.status_code in (200, 201), answer.text
        assert "denied: why disk a?" in answer.text
        assert (await first.result()).text == "denied: why disk a?; a | why disk a?"

    async def show_again(name: str) -> None:
        session_id = uuid.uuid4().hex
        session = client.session("test.agent", session_id, principal=LOCAL)
        await session.send("wipe")
        (wait,) = await session.run.until_waiting()
        request = say(name, "yes", session_id=session_id, message_id=f"m-{session_id}", agent_id="test.agent")
        answer = await http.request(request.method, request.path, headers=request.headers, json=request.body)
        assert "disk" in answer.text
        assert [each.id for each in (await session.run.status()).awaits] == [wait.id]

    for name, protocol in PROTOCOLS.items():
        with subtests.test(name):
            await deny(name)
        if protocol.has_answers and not name.startswith(("a2a", "mcp")):
            with subtests.test(f"yes by {name}"):
                await show_again(name)
