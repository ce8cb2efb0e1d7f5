"""A message that answered something, sent again with its id, is given to nothing else: over each protocol whose answers name no wait."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sojourn.http.protocols.reply_token import ReplyToken
from tests.http.every_protocol import PROTOCOLS
from tests.http.every_protocol import say as write_message

MODEL = "shop.clerk"
Say = Callable[..., Awaitable[str]]
"""Say a text with a message id in the conversation; returns all that comes back, as text."""


CHATS = [name for name, each in PROTOCOLS.items() if each.has_answers]


async def sent(served, name: str, session: str, text: str, message_id: str) -> Any:
    """Say it by a protocol."""
    method, path, headers, body = write_message(name, text, session_id=session, message_id=message_id)
    return await served.http.request(method, path, headers=headers, json=body)


async def a2a(served, message: dict[str, Any]) -> Any:
    """Send a message over A2A."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return await served.post("/a2a/shop.clerk/", body)


async def mcp(served, name: str, **arguments: Any) -> Any:
    """Call a tool of MCP."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }
    return await served.post("/mcp", body, headers=headers)


@pytest.fixture(params=CHATS)
def say(request, served) -> Say:
    """Say something in a conversation of one's own, over a protocol."""
    session = uuid.uuid4().hex

    async def said(text: str, message_id: str, *, refused: bool = False) -> str:
        answer = await sent(served, request.param, session, text, message_id)
        assert refused or answer.status_code == 200, answer.text
        return answer.text

    said.session = session  # type: ignore[attr-defined]
    return said


@pytest.mark.parametrize(
    ("say", "word"), [*((name, "interview_below") for name in CHATS), ("chat", "interview")], indirect=["say"]
)
async def test_an_answer_that_is_sent_again_answers_nothing_else(say, served, word):
    """Its reply is what follows the question that it answered: while the next one is open, and once nothing is asked."""
    assert "Question 1?" in await say(f"{word} 2", "m-0")
    for _ in range(2):
        assert "Question 2?" in await say("red", "m-1")
    done = await say("blue", "m-2")
    assert "red blue" in done
    assert "red blue" in await say("blue", "m-2")
    told = await say("red", "m-1")
    assert "Question 2?" in told or "red blue" in told  # a task is told as it is now
    status = await served.client.session(MODEL, say.session).status()
    assert (status.turns, status.status) == (1, "idle")
    assert "green" in await say("green", "m-3")
    refused = await say("blue", "m-1", refused=True)
    assert "had the id" in refused


async def test_an_answer_that_is_sent_many_times_at_once_is_given_once(say, served):
    """Of requests with one id, within milliseconds, one answers a child run; another id answers the next question."""
    await say("interview_below 3", "m-0")

    async def after(delay: float, text: str, message_id: str) -> str:
        await asyncio.sleep(delay)
        return await say(text, message_id)

    for n, text in enumerate(("red", "blue")):
        told = await asyncio.gather(*[after(0.03 * k, text, f"m-{n + 1}") for k in range(5)])
        assert all(f"Question {n + 2}?" in each for each in told)
    assert "red blue green" in await say("green", "m-3")
    status = await served.client.session(MODEL, say.session).status()
    assert (status.turns, status.status) == (1, "idle")


@pytest.mark.parametrize("times", [1, 4])
async def test_an_answer_to_a_task_of_a2a_is_given_once(served, times):
    """It names the task, whose questions are many."""
    named = {"messageId": uuid.uuid4().hex}
    first = await a2a(served, {"role": "ROLE_USER", **named, "parts": [{"text": "interview 3"}]})
    task_id = first.json()["result"]["task"]["id"]

    async def answer(text: str, message_id: str) -> Any:
        named = {"messageId": f"{task_id[-40:]}-{message_id}", "taskId": task_id}
        message = {"role": "ROLE_USER", **named, "parts": [{"text": text}]}
        return (await a2a(served, message)).json()["result"]["task"]

    for n, text in enumerate(("red", "blue", "green")):
        for _ in range(2):
            told = await asyncio.gather(*[answer(text, f"m-{n + 1}") for _ in range(times)])
            expected = f"Question {n + 2}?" if n < 2 else "red blue green"
            assert all(expected in json.dumps(each) for each in told)
    again = await answer("red", "m-1")
    assert again["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_tool_answer_of_mcp_answers_once(served):
    """With a `request_id`, a call that is sent again gets the task as it is."""
    asked = (await mcp(served, "shop_clerk", message="interview 2")).text
    task_id = asked.rpartition("with task ")[2].partition(".")[0].partition('"')[0]

    async def answer(text: str, request_id: str) -> str:
        return (await mcp(served, "answer", task=task_id, answer=text, request_id=request_id)).text

    for _ in range(2):
        assert "Question 2?" in await answer("red", "r-1")
    for _ in range(2):
        assert "red blue" in await answer("blue", "r-2")


def person(message_id: str, text: str) -> dict[str, Any]:
    """A message of a chat of the AI SDK."""
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def answered(reply: str) -> dict[str, Any]:
    """The assistant's message that a stream of the AI SDK makes, with its question."""
    told = [json.loads(line[6:]) for line in reply.splitlines() if line.startswith("data: {")]
    asked = [
        {key: each[key] for key in ("type", "id", "data")} for each in told if each["type"] == "data-question"
    ]
    (begun,) = [each["messageId"] for each in told if each["type"] == "start"]
    return {"id": begun, "role": "assistant", "parts": asked}


@pytest.mark.parametrize("word", ["interview", "interview_below"])
async def test_the_message_of_an_answer_is_known_to_every_protocol(served, word):
    """What answered a question in a chat of the AI SDK is no message, and no answer, whichever way it is sent again."""
    session = uuid.uuid4().hex

    async def vercel(*messages: dict[str, Any]) -> str:
        answer = await served.post("/vercel/shop.clerk", {"id": session, "messages": list(messages)})
        assert answer.status_code == 200, answer.text
        return answer.text

    opening = person("m-0", f"{word} 2")
    first = answered(await vercel(opening))
    history = [opening, first, person("m-1", "red")]
    second = answered(await vercel(*history))
    assert second["parts"]
    assert "Question 2?" in await vercel(*history)
    edited = {"id": session, "messages": [opening, first, person("m-1", "zap")]}
    assert (await served.post("/vercel/shop.clerk", edited)).status_code == 409
    await vercel(person("m-1", "red"))
    await served.post(f"/v1/sessions/shop.clerk/{session}/messages", {"message_id": "m-1", "text": "red"})
    for name in CHATS:
        await sent(served, name, session, "red", "m-1")
    status = await served.client.session(MODEL, session).status()
    assert (status.turns, status.queued) == (0, 0)
    assert "red blue" in await vercel(*history, second, person("m-2", "blue"))
    status = await served.client.session(MODEL, session).status()
    assert (status.turns, status.status) == (1, "idle")


async def test_an_answer_to_a_task_is_known_to_its_conversation(served):
    """Also where a child run got it; another text with the id is refused, and so is the id of the message that opened the task."""
    session = uuid.uuid4().hex
    opened = {
        "role": "ROLE_USER",
        "messageId": "m-0",
        "contextId": session,
        "parts": [{"text": "interview_below 2"}],
    }
    task_id = (await a2a(served, opened)).json()["result"]["task"]["id"]

    async def answer(text: str, message_id: str) -> Any:
        named = {"messageId": message_id, "taskId": task_id}
        return (await a2a(served, {"role": "ROLE_USER", **named, "parts": [{"text": text}]})).json()

    assert "Question 2?" in json.dumps(await answer("red", "m-1"))
    for text, message_id in (("zap", "m-1"), ("zap", "m-0"), ("interview_below 2", "m-0")):
        assert "error" in await answer(text, message_id)
    sent = await served.post(
        f"/v1/sessions/shop.clerk/{session}/messages", {"message_id": "m-1", "text": "red"}
    )
    assert sent.status_code == 200
    assert "red blue" in json.dumps(await answer("blue", "m-2"))
    status = await served.client.session(MODEL, session).status()
    assert (status.turns, status.queued) == (1, 0)


async def test_another_answer_with_the_id_of_one_is_refused_by_the_tool_of_mcp(served):
    """The model that sends it learns that it was not taken."""
    asked = (await mcp(served, "shop_clerk", message="interview 2")).text
    task_id = asked.rpartition("with task ")[2].partition(".")[0].partition('"')[0]
    await mcp(served, "answer", task=task_id, answer="red", request_id="r-1")
    refused = (await mcp(served, "answer", task=task_id, answer="zap", request_id="r-1")).text
    assert "another request had the id" in refused


async def test_a_place_that_was_made_up_has_nothing(served):
    """An id of a task or response that names a place which is none, in a conversation of one's own, is not found at once."""
    session = uuid.uuid4().hex
    await sent(served, "a2a", session, "hello", "m-0")
    run_id = served.client.session(MODEL, session).run.id
    for place in (
        ReplyToken(run_id, "9-999999-99999", "m-0"),
        ReplyToken(run_id, "9-999999-99999"),
        ReplyToken(run_id, "", "m-9"),
    ):
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": place.text}}
        assert "error" in (await served.post("/a2a/shop.clerk/", body)).json()
        assert 'isError":true' in (await mcp(served, "answer", task=place.text)).text
        for query in ({}, {"stream": "true"}):
            found = await served.http.get(f"/openai/v1/responses/resp_{place.text}", params=query)
            assert found.status_code == 404, found.text


@pytest.mark.parametrize("by", ["local", "eva"])
async def test_an_answer_to_what_has_been_answered_is_refused(served, by):
    """Over AG-UI, where it names its interrupt: another answer is refused with 409, and the same one is passed over, whoever has given it."""
    session = uuid.uuid4().hex

    async def agui(text: str, message_id: str, *resume: dict[str, Any]) -> Any:
        messages = [{"id": message_id, "role": "user", "content": text}]
        body = {"threadId": session, "runId": uuid.uuid4().hex, "messages": messages}
        return await served.post("/agui/shop.clerk", {**body, **({"resume": list(resume)} if resume else {})})

    opened = (await agui("interview 2", "m-0")).text
    last = [json.loads(line[6:]) for line in opened.splitlines() if line.startswith("data: ")][-1]
    (interrupt,) = last["outcome"]["interrupts"]
    run = served.client.session(MODEL, session).run
    (wait,) = await run.until_waiting()
    await run.answer(wait, "red", by=by)
    given = {"interruptId": interrupt["id"], "status": "resolved", "payload": "zap"}
    assert (await agui("interview 2", "m-0", given)).status_code == 409
    assert (await agui("interview 2", "m-0", {**given, "status": "cancelled"})).status_code == 409
    same = await agui("interview 2", "m-0", {**given, "payload": "red"})
    assert "Question 2?" in same.text
    await run.answer(await _next_wait(run, wait.id), "blue")
    late = await agui("hello", "m-1", {**given, "payload": "red"})  # with a new message
    assert "hello" in late.text


async def _next_wait(run, await_id: str):
    while True:
        waits = (await run.status()).awaits
        if waits and waits[0].id != await_id:
            return waits[0]
        await asyncio.sleep(0.02)
