"""Who may talk, answer and decide by the protocols, and that another tenant's conversations do not exist."""

import uuid
from typing import Any

import httpx2
import pytest

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.http.conftest import listening


async def by_header(request: Any) -> Principal | None:
    """A principal as a header says: for the tests only."""
    subject, tenant, roles = request.headers["x-test-who"].split("/")
    return Principal(subject=subject, tenant=tenant, roles=roles.split("+"))


@pytest.fixture
async def behind_locks(serve, shop):
    """A client of the shop's service, which asks who sends."""
    client = await serve(shop.app)
    web = create_app(shop.app, client=client, auth=by_header)
    async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
        yield http


def body(thread: str, **more: Any) -> dict[str, Any]:
    """A request of AG-UI that asks for a wipe."""
    message = {"id": "m-1", "role": "user", "content": "wipe"}
    return {"threadId": thread, "runId": "run-1", "messages": [message], **more}


def outcome(answer: Any) -> Any:
    """The outcome of a stream."""
    assert answer.status_code == 200, answer.text
    last = [line for line in answer.text.split("\n\n") if line][-1]
    return httpx2.Response(200, text=last[6:]).json()["outcome"]


async def test_roles_are_those_of_the_api(behind_locks):
    """A viewer may not send, a user may not approve, an approver may; and the approval is by whoever asks."""
    thread = uuid.uuid4().hex[:8]

    async def post(who: str, **more: Any) -> Any:
        return await behind_locks.post(
            "/agui/shop.clerk", json=body(thread, **more), headers={"x-test-who": who}
        )

    assert (await post("vi/acme/viewer")).status_code == 403
    (interrupt,) = outcome(await post("ana/acme/user"))["interrupts"]
    resume = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
    assert (await post("ana/acme/user", resume=resume)).status_code == 403
    assert (await post("vi/acme/viewer", resume=resume)).status_code == 403
    assert (await post("zed/globex/user+approver", resume=resume)).status_code == 404
    assert outcome(await post("bo/acme/approver", resume=resume)) == {"type": "success"}
    path = f"/v1/sessions/shop.clerk/{thread}/events"
    events = (await behind_locks.get(path, headers={"x-test-who": "vi/acme/viewer"})).json()
    assert [each["by"] for each in events if each["type"] == "message_received"] == ["ana"]
    assert [each["by"] for each in events if each["type"] == "await_answered"] == ["bo"]


async def test_a_chat_is_that_of_its_tenant(behind_locks):
    """The same chat id of two tenants is two conversations, and one that another tenant has cannot be read."""
    chat = uuid.uuid4().hex[:8]
    message = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    sent = {"id": chat, "messages": [message]}
    path = "/vercel/shop.clerk"
    answer = await behind_locks.post(path, json=sent, headers={"x-test-who": "ana/acme/user"})
    assert "hello" in answer.text
    stranger = {"x-test-who": "zed/globex/user"}
    assert (await behind_locks.get(f"{path}/{chat}/stream", headers=stranger)).status_code == 204
    own = await behind_locks.get(f"{path}/{chat}/stream", headers={"x-test-who": "vi/acme/viewer"})
    assert "hello" in own.text


async def test_a_message_is_withdrawn_by_its_sender_or_an_operator(behind_locks):
    """Another user of the tenant gets 403, and a person of another tenant learns nothing."""
    path = f"/v1/sessions/shop.clerk/{uuid.uuid4().hex[:8]}"

    async def post(who: str, action: str, **body: Any) -> int:
        answer = await behind_locks.post(f"{path}/{action}", json=body, headers={"x-test-who": who})
        return answer.status_code

    assert await post("ana/acme/user", "messages", message_id="m-0", text="ask") == 201
    for message_id in ("m-1", "m-2"):
        assert await post("ana/acme/user", "messages", message_id=message_id, text="hello") == 201
    assert await post("vi/acme/viewer", "withdraw", message_id="m-1") == 403
    assert await post("zed/globex/user", "withdraw", message_id="m-1") == 404
    assert await post("eve/acme/user", "withdraw", message_id="m-1") == 403
    assert await post("ana/acme/user", "withdraw", message_id="m-1") == 200
    assert await post("op/acme/user+operator", "withdraw", message_id="m-2") == 200
