"""A message that answered something, sent again with its id, is given to nothing else: over each protocol whose answers name no wait."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

MODEL = "shop.clerk"
Say = Callable[..., Awaitable[str]]
"""Say a text with a message id in the conversation; returns all that comes back, as text."""


async def chat(served, session: str, text: str, message_id: str) -> Any:
    """Say it by a chat completion with the session's last message."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "metadata": {"session_id": session},
    }
    return await served.post("/openai/v1/chat/completions", body, headers={"Idempotency-Key": message_id})


async def response(served, session: str, text: str, message_id: str) -> Any:
    """Say it by a response in a conversation."""
    body = {"model": MODEL, "input": text, "conversation": session}
    return await served.post("/openai/v1/responses", body, headers={"Idempotency-Key": message_id})


async def context(served, session: str, text: str, message_id: str) -> Any:
    """Say it to a context of A2A."""
    message = {"role": "ROLE_USER", "messageId": message_id, "contextId": session, "parts": [{"text": text}]}
    return await a2a(served, message)


async def a2a(served, message: dict[str, Any]) -> Any:
    """Send a message over A2A."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return await served.post("/a2a/shop.clerk/", body)


async def tool(served, session: str, text: str, message_id: str) -> Any:
    """Say it by a tool of MCP."""
    return await mcp(served, "shop_clerk", message=text, session_id=session, request_id=message_id)


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


@pytest.fixture(params=[chat, response, context, tool])
def say(request, served) -> Say:
    """Say something in a conversation of one's own, over a protocol."""
    session = uuid.uuid4().hex

    async def said(text: str, message_id: str, *, refused: bool = False) -> str:
        answer = await request.param(served, session, text, message_id)
        assert refused or answer.status_code == 200, answer.text
        return answer.text

    said.session = session  # type: ignore[attr-defined]
    return said


@pytest.mark.parametrize("word", ["interview", "interview_below"])
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


@pytest.mark.parametrize("word", ["interview", "interview_below"])
async def test_an_answer_that_is_sent_many_times_at_once_is_given_once(say, served, word):
    """Of requests with one id, at two processes and within milliseconds, one answers; another id answers the next question."""
    await say(f"{word} 3", "m-0")

    async def after(delay: float, text: str, message_id: str) -> str:
        await asyncio.sleep(delay)
        return await say(text, message_id)

    for n, text in enumerate(("red", "blue")):
        told = await asyncio.gather(*[after(0.03 * k, text, f"m-{n + 1}") for k in range(8)])
        assert all(f"Question {n + 2}?" in each for each in told)
    assert "red blue green" in await say("green", "m-3")
    status = await served.client.session(MODEL, say.session).status()
    assert (status.turns, status.status) == (1, "idle")


@pytest.mark.parametrize("times", [1, 6])
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
