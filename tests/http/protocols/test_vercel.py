"""The AI SDK, as its own transport meets it: chats, approvals, questions, calls outside, and a chat that comes back."""

import json
import uuid
from typing import Any

import pytest


@pytest.fixture
def chat() -> str:
    """A chat that does not exist yet."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def person(served, start, chat):
    """Run the AI SDK in the chat, and return what it knows in the end."""

    async def run(*sent: Any, **plan: Any) -> Any:
        person = await start("vercel.mjs", f"{served.url}/vercel/shop.clerk", chat, sent=sent, **plan)
        return await person.line()

    return run


def texts(known: Any) -> list[str]:
    """The texts of each message of a chat."""
    return ["".join(part.get("text", "") for part in message["parts"]) for message in known["messages"]]


def calls(message: Any) -> list[Any]:
    """The calls of a message."""
    return [part for part in message["parts"] if part["type"].startswith("tool-")]


async def test_a_chat_is_a_conversation(served, person, chat):
    """Two messages are two turns of one conversation; calls have their results, and the status comes as data."""
    known = await person("rounds 1", "hello")
    assert texts(known) == ["rounds 1", "1 2", "hello", "hello"]
    found = [(part["state"], part["input"]["b"], part["output"]) for part in calls(known["messages"][1])]
    assert found == [("output-available", 1, 1), ("output-available", 2, 2)]
    assert [message["id"] for message in known["messages"]] == ["m-1", "answer-m-1", "m-2", "answer-m-2"]
    assert known["statuses"][-1] == "idle"
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()
    assert (status["turns"], status["conversation"]) == (2, True)


async def test_a_call_is_approved(served, person, chat):
    """The call asks for approval, the decision continues the message, and `by` is whoever asks."""
    known = await person("wipe", approved=[{"approved": True}])
    (call,) = calls(known["messages"][1])
    assert (call["state"], call["output"]) == ("output-available", "wiped a")
    assert texts(known) == ["wipe", "wiped a"]
    events = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}/events")).json()
    assert [event["by"] for event in events if event["type"] == "await_answered"] == ["local"]


async def test_a_call_is_denied(person):
    """A decision against a call is told as the SDK's own denial."""
    known = await person("wipe", approved=[{"approved": False, "reason": "not a"}])
    (call,) = calls(known["messages"][1])
    assert call["state"] == "output-denied"


async def test_a_text_after_a_question_is_its_answer(served, person, chat):
    """The question is a text and a data part; the next message answers it, and what follows is a message of its own."""
    known = await person("ask", "the left one", "hello")
    assert texts(known) == ["ask", "Which one?", "the left one", "the left one", "hello", "hello"]
    (question,) = [part for part in known["messages"][1]["parts"] if part["type"] == "data-question"]
    assert (question["id"], question["data"]["prompt"]) == ("question", "Which one?")
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()["turns"] == 2


async def test_a_form_is_answered_by_a_data_part(person):
    """The values by field are the data of `data-answer`."""
    answer = {"type": "data-answer", "data": {"id": "fix-shop.tools.add", "answer": {"a": 1, "b": 2}}}
    known = await person("form", [answer])
    (question,) = [part for part in known["messages"][1]["parts"] if part["type"] == "data-question"]
    assert set(question["data"]["form"]["properties"]) == {"a", "b"}
    assert known["messages"][-1]["role"] == "assistant"
    assert known["statuses"][-1] == "idle"


async def test_a_child_run_asks_in_the_chat(person):
    """What a child run asks is answered by the next message, and the call has its result in the message that follows."""
    known = await person("below", "that one")
    (call,) = calls(known["messages"][-1])
    assert (call["type"], call["output"]) == ("tool-shop.helping.ask", "that one")
    assert texts(known)[-1] == "that one"


async def test_the_output_of_a_call_outside_is_its_result(person):
    """A call that the page executes gets its output as the SDK gives outputs of its tools."""
    known = await person("weigh", outputs=[2.5])
    (call,) = calls(known["messages"][1])
    assert (call["state"], call["output"], texts(known)[-1]) == ("output-available", 2.5, "2.5")


async def test_a_broken_stream_is_resumed(served, shop, start, chat):
    """A page that lost its stream in mid-text reconnects by the chat alone, and has the message once and whole."""
    shop.gate.clear()
    try:
        plan = {"sent": ["talk", "hello"], "cut": "The site is "}
        person = await start("vercel.mjs", f"{served.url}/vercel/shop.clerk", chat, **plan)
        cut = (await person.line())["cut"]
        assert cut["id"] == "answer-m-1"
    finally:
        shop.gate.set()
    known = await person.line()
    assert texts(known) == ["talk", "The site is dark.", "hello", "hello"]
    assert known["messages"][1]["id"] == cut["id"]


async def test_a_chat_comes_back_after_its_end(served, chat):
    """A stream asked for again has the same chunks, after the turn's end too; a chat that does not exist has none."""
    path = "/vercel/shop.clerk"
    assert (await served.http.get(f"{path}/{chat}/stream")).status_code == 204
    message = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "ask"}]}
    body = {"id": chat, "messages": [message], "trigger": "submit-message"}
    first = await served.post(path, body)
    assert first.headers["x-vercel-ai-ui-message-stream"] == "v1"
    question = {"type": "data-question", "id": "question", "data": {}}
    asked = {"id": "answer-m-1", "role": "assistant", "parts": [question]}
    answer = {"id": "m-2", "role": "user", "parts": [{"type": "text", "text": "left"}]}
    body["messages"] += [asked, answer]
    sent = [chunks(await served.post(path, body)) for _ in range(2)]
    came_back = chunks(await served.http.get(f"{path}/{chat}/stream"))
    assert sent[0] == sent[1] == came_back
    assert came_back[0] == {"type": "start", "messageId": "answer-question"}
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()
    assert (status["turns"], status["queued"]) == (1, 0)


async def test_a_text_after_a_question_that_is_gone_is_a_message(served, chat):
    """Where the question was answered elsewhere, the text opens a turn of its own."""
    path = "/vercel/shop.clerk"
    message = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "ask"}]}
    body = {"id": chat, "messages": [message]}
    await served.post(path, body)
    run_id = f"shop.clerk@{chat}"
    await served.post(f"/v1/runs/{run_id}/answers", {"await_id": "question", "answer": "right"})
    asked = {"id": "answer-m-1", "role": "assistant", "parts": [{"type": "data-question", "id": "question"}]}
    late = {"id": "m-2", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    body["messages"] += [asked, late]
    for _ in range(2):
        found = chunks(await served.post(path, body))
        assert [chunk["delta"] for chunk in found if chunk["type"] == "text-delta"] == ["hello"]
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()
    assert status["turns"] == 2


async def test_a_failed_turn_is_an_error(served, chat):
    """The error has the failure's text."""
    message = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "fail"}]}
    found = chunks(await served.post("/vercel/shop.clerk", {"id": chat, "messages": [message]}))
    assert {"type": "error", "errorText": "the shop is closed"} in found


def chunks(answer: Any) -> list[Any]:
    """The chunks of an answer, less the status, which is that of the moment."""
    assert answer.status_code == 200, answer.text
    lines = [line[6:] for line in answer.text.split("\n\n") if line.startswith("data: {")]
    return [chunk for chunk in map(json.loads, lines) if not chunk.get("transient")]
