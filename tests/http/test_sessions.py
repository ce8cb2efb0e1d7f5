"""Conversations over HTTP: messages delivered once, and their answers."""

import uuid

import pytest


@pytest.fixture
def session(served) -> str:
    """The path of a conversation that does not exist yet."""
    return f"/v1/sessions/shop.clerk/desk/{uuid.uuid4().hex[:8]}"


async def test_a_conversation_is_begun_and_goes_on(served, session):
    """The first message starts it, with its labels; each message has its answer, and the status is idle between them."""
    assert (await served.http.get(session)).json()["code"] == "run_not_found"
    first = await served.post(session, {"text": "hello", "labels": {"desk": "3"}}, params={"wait": 30})
    assert (first.status_code, first.json()["output"]["text"]) == (201, "hello")
    second = await served.post(f"{session}/messages", {"text": "measure"}, params={"wait": 30})
    assert second.json()["output"]["text"] == "measured"
    status = (await served.http.get(session)).json()
    assert (status["status"], status["turns"], status["conversation"]) == ("idle", 2, True)


async def test_a_message_that_is_sent_again_is_delivered_once(served, session):
    """The same message_id gives the same place and the same answer."""
    body = {"message_id": "m-1", "text": "hello"}
    sent = [(await served.post(f"{session}/messages", body, params={"wait": 30})).json() for _ in range(2)]
    assert sent[0] == sent[1]
    assert (await served.http.get(session)).json()["turns"] == 1


async def test_a_failed_turn_is_told_with_its_message(served, session):
    """A turn that fails ends only itself."""
    failed = (await served.post(f"{session}/messages", {"text": "fail"}, params={"wait": 30})).json()
    assert (failed["output"], "the shop is closed" in str(failed["error"])) == (None, True)
    after = (await served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 30})).json()
    assert after["output"]["text"] == "hello"


async def test_a_message_has_parts(served, session):
    """A message may have texts and images in place of a text, and not both."""
    parts = [{"type": "text", "text": "hello"}, {"type": "image", "media_type": "image/png", "data": "aGk="}]
    answer = await served.post(f"{session}/messages", {"parts": parts}, params={"wait": 30})
    assert answer.json()["output"]["text"] == "hello"
    both = await served.post(f"{session}/messages", {"parts": parts, "text": "x"})
    assert (both.status_code, both.json()["code"]) == (422, "invalid_request")


async def test_the_events_of_a_conversation_begin_after_a_message(served, session):
    """`after` of a message is where its events begin."""
    await served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 30})
    second = (await served.post(f"{session}/messages", {"text": "again"}, params={"wait": 30})).json()
    events = (await served.http.get(f"{session}/events", params={"after": second["after"]})).json()
    assert [event["type"] for event in events][:2] == ["message_received", "turn_started"]
    assert events[-1]["output"]["text"] == "again"


async def test_a_conversation_is_interrupted_closed_and_listed(served, session, until):
    """A turn is ended, then the conversation, and the list has it with its session id."""
    await served.post(f"{session}/messages", {"text": "ask"})

    async def is_waiting() -> bool:
        return (await served.http.get(session)).json()["status"] == "waiting"

    await until(is_waiting)
    assert (await served.post(f"{session}/interrupt", {"reason": "wrong"})).json()["done"] == "interrupted"
    assert (await served.post(f"{session}/close")).json()["done"] == "closed"
    late = await served.post(f"{session}/messages", {"text": "hello"})
    assert (late.status_code, late.json()["code"]) == (409, "await_closed")

    async def is_listed() -> bool:
        query = {"agent_id": "shop.clerk", "session_id": session.split("/", 4)[4]}
        runs = (await served.http.get("/v1/sessions", params=query)).json()["runs"]
        return [run["status"] for run in runs] == ["completed"]

    await until(is_listed)


async def test_a_conversation_needs_an_agent_of_the_app(served):
    """A message to an agent that the app does not have is refused with 404, and starts nothing."""
    answer = await served.post("/v1/sessions/shop.nobody/desk/messages", {"text": "hello"})
    assert (answer.status_code, answer.json()["code"]) == (404, "agent_not_found")
