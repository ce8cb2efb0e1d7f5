"""AG-UI, as its own client meets it: turns, interrupts, their answers, and a thread that goes on after a broken stream."""

import asyncio
import base64
import json
import re
import uuid
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from sojourn.asgi import create_app
from sojourn.events.stream import stream
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
def thread() -> str:
    """A thread that does not exist yet."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def person(served, start, thread):
    """Run the client of AG-UI in the thread, and return what it knows in the end."""

    async def run(*sent: str, **plan: Any) -> Any:
        person = await start("agui.mjs", f"{served.url}/agui/shop.clerk", thread, sent=sent, **plan)
        return await person.line()

    return run


def roles(known: Any) -> list[str]:
    """The roles of the messages that a client has."""
    return [message["role"] for message in known["messages"]]


async def test_a_thread_is_a_conversation(served, person, thread):
    """Two messages are two turns of one conversation; calls and results are messages of the thread, and the state is its status."""
    known = await person("rounds 1", "hello")
    assert roles(known) == ["user", "assistant", "tool", "tool", "assistant", "user", "assistant"]
    calls = known["messages"][1]["toolCalls"]
    assert [call["function"]["name"] for call in calls] == ["shop.tools.add"] * 2
    results = [message["content"] for message in known["messages"][2:4]]
    assert sorted(results) == ["1", "2"]  # as the calls ended, which run side by side
    assert known["messages"][4]["content"] == "1 2"
    assert known["messages"][-1]["content"] == "hello"
    assert known["outcomes"] == [{"type": "success"}] * 2
    assert (known["state"]["status"], known["state"]["turns"]) == ("idle", 2)
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()
    assert (status["turns"], status["conversation"]) == (2, True)


async def test_a_call_that_needs_approval_interrupts(served, person, thread):
    """The interrupt names the call and its schema; its resume entry decides, and `by` is whoever asks."""
    known = await person("wipe", answers=[{"status": "resolved", "payload": {"approved": True}}])
    first, second = known["outcomes"]
    (interrupt,) = first["interrupts"]
    assert interrupt["toolCallId"] == known["messages"][1]["toolCalls"][0]["id"]
    assert (interrupt["reason"], interrupt["message"]) == ("tool_call", "Wipe disk a?")
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert interrupt["metadata"]["payload"] == {"disk": "a"}
    assert second == {"type": "success"}
    assert roles(known) == ["user", "assistant", "tool", "assistant"]
    assert known["messages"][-1]["content"] == "wiped a"
    events = (await served.http.get(f"/v1/sessions/shop.clerk/{thread}/events")).json()
    assert [event["by"] for event in events if event["type"] == "await_answered"] == ["local"]


async def test_a_denied_call_is_told_as_denied(person):
    """A cancelled interrupt denies the call, and so does `approved: false` with a reason, which the thread shows."""
    known = await person(
        "wipe", answers=[{"status": "resolved", "payload": {"approved": False, "reason": "not a"}}]
    )
    assert "not a" in known["messages"][2]["content"]
    again = await person("wipe", answers=[{"status": "cancelled"}])
    assert [outcome["type"] for outcome in again["outcomes"]][-1] == "success"


async def test_a_question_is_answered_by_a_text_or_by_its_form(person):
    """The schema of the response is the question's form, or a text; the payload is the answer."""
    known = await person("ask", answers=[{"status": "resolved", "payload": "the left one"}])
    (interrupt,) = known["outcomes"][0]["interrupts"]
    assert (interrupt["reason"], interrupt["responseSchema"]) == ("input_required", {"type": "string"})
    assert [message["content"] for message in known["messages"]] == ["ask", "Which one?", "the left one"]


async def test_a_form_is_answered_by_its_object(person):
    """The values by field are the payload."""
    known = await person("form", answers=[{"status": "resolved", "payload": {"a": 1, "b": 2}}])
    (interrupt,) = known["outcomes"][0]["interrupts"]
    assert set(interrupt["responseSchema"]["properties"]) == {"a", "b"}
    assert known["outcomes"][1] == {"type": "success"}


async def test_a_child_run_interrupts_the_thread(person):
    """What a child run asks is an interrupt of the call that it answers."""
    known = await person("below", answers=[{"status": "resolved", "payload": "that one"}])
    (interrupt,) = known["outcomes"][0]["interrupts"]
    assert interrupt["toolCallId"] == known["messages"][1]["toolCalls"][0]["id"]
    assert known["messages"][-1]["content"] == "that one"


async def test_the_same_question_of_two_child_runs_is_asked_twice(served, thread):
    """Each is an interrupt of its own call, and each child run gets its own answer."""
    body = {"threadId": thread, "runId": "run-1"}
    body |= {"messages": [{"id": "m-1", "role": "user", "content": "both_below"}]}
    asked = events(await served.post("/agui/shop.clerk", body))
    waits = asked[-1]["outcome"]["interrupts"]
    calls = [each["toolCallId"] for each in asked if each["type"] == "TOOL_CALL_START"]
    assert sorted(each["toolCallId"] for each in waits) == sorted(calls)
    assert len({each["message"] for each in waits}) == 1 < len({each["id"] for each in waits})
    said = dict(zip(calls, ("left", "right"), strict=True))
    resume = [
        {"interruptId": each["id"], "status": "resolved", "payload": said[each["toolCallId"]]}
        for each in reversed(waits)
    ]
    ended = events(await served.post("/agui/shop.clerk", body | {"resume": resume}))
    assert {
        each["toolCallId"]: each["content"] for each in ended if each["type"] == "TOOL_CALL_RESULT"
    } == said


async def test_the_result_of_a_call_outside_is_the_payload(person):
    """A call that a program outside executes is an interrupt, and its answer the result."""
    known = await person("weigh", answers=[{"status": "resolved", "payload": 2.5}])
    assert known["outcomes"][0]["interrupts"][0]["responseSchema"]["type"] == "number"
    assert known["messages"][-1]["content"] == "2.5"


async def test_what_a_page_says_beside_a_message_goes_with_it(served, person, thread):
    """The context is documents of the last message, beside its text, and the thread that the page shows has none of it."""
    context = [
        {"description": "The open page", "value": '{"site": "s-3"}'},
        {"description": "", "value": "dark mode \u00e9"},
    ]
    known = await person("hello", context=context)
    assert [message["content"] for message in known["messages"]] == ["hello", "hello"]
    messages = (await served.http.get(f"/v1/runs/shop.clerk@{thread}/transcript")).json()
    said, *documents = messages[0]["parts"]
    assert (said["type"], said["text"]) == ("text", "hello")
    assert [(each["type"], each["media_type"], each.get("title")) for each in documents] == [
        ("document", "text/plain", "The open page"),
        ("document", "text/plain", None),
    ]
    assert [base64.b64decode(each["data"]).decode() for each in documents] == [
        each["value"] for each in context
    ]


async def test_a_page_carries_out_the_tools_that_are_outside_and_no_others(served, person, thread):
    """A tool with results from outside may be offered; any other, which no agent would ever call, is passed over, and a header says so."""
    tool = {"name": "shop.outside.weigh", "description": "Weigh", "parameters": {"type": "object"}}
    known = await person("weigh", tools=[tool], answers=[{"status": "resolved", "payload": 2.5}])
    assert known["messages"][-1]["content"] == "2.5"
    body = {
        "threadId": uuid.uuid4().hex,
        "runId": "r-1",
        "messages": [{"id": "m-1", "role": "user", "content": "hello"}],
        "tools": [{**tool, "name": name} for name in ("confirm", "shop.tools.add", "na\u00efve\r\nX: 1")],
    }
    answer = await served.post("/agui/shop.clerk", body)
    assert events(answer)[-1]["outcome"] == {"type": "success"}
    assert "'confirm', 'shop.tools.add', 'na\\xefve\\r\\nX: 1', which" in answer.headers["X-Sojourn-Warning"]
    answer = await served.post("/agui/shop.clerk", {**body, "tools": [tool]})
    assert "X-Sojourn-Warning" not in answer.headers


async def test_a_failed_turn_is_an_error(person):
    """The error has the failure's text, and the next message has its turn."""
    known = await person("fail", "hello")
    assert known["outcomes"][0]["type"] == "error"
    assert "the shop is closed" in known["outcomes"][0]["message"]
    assert known["messages"][-1]["content"] == "hello"


async def test_live_text_survives_a_broken_stream(served, shop, start, thread):
    """A client that lost its stream in mid-text sends the same run again, and has the message once and whole."""
    shop.gate.clear()
    try:
        plan = {"sent": ["talk", "hello"], "cut": True}
        person = await start("agui.mjs", f"{served.url}/agui/shop.clerk", thread, **plan)
        assert await person.line() == {"cut": "The site is "}
    finally:
        shop.gate.set()
    known = await person.line()
    assert [message["content"] for message in known["messages"]] == [
        "talk",
        "The site is dark.",
        "hello",
        "hello",
    ]
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()["turns"] == 2


async def test_the_same_request_again_reads_the_same_messages(served, thread):
    """Ids of messages follow from the events, an answer is given once, and an answer that differs is refused."""
    message = {"id": "m-1", "role": "user", "content": "wipe"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    first, again = [events(await served.post("/agui/shop.clerk", body)) for _ in range(2)]
    assert made(first) == made(again)
    (interrupt,) = first[-1]["outcome"]["interrupts"]
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    body |= {"runId": "run-2", "resume": [resume]}
    first, again = [events(await served.post("/agui/shop.clerk", body)) for _ in range(2)]
    assert made(first) == made(again)
    assert first[-1]["outcome"] == {"type": "success"}
    other = await served.post(
        "/agui/shop.clerk", body | {"resume": [resume | {"payload": {"approved": False}}]}
    )
    assert (other.status_code, other.json()["code"]) == (409, "already_answered")


async def test_a_result_that_the_run_has_is_compared(served, thread):
    """While another call of the wait still waits, and once none does: an equal one is passed over, another one refused."""
    message = {"id": "m-1", "role": "user", "content": "weigh_both"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    waits = events(await served.post("/agui/shop.clerk", body))[-1]["outcome"]["interrupts"]

    async def give(wait: dict[str, Any], result: Any) -> int:
        resume = [{"interruptId": wait["id"], "status": "resolved", "payload": result}]
        return (await served.post("/agui/shop.clerk", body | {"resume": resume})).status_code

    for wait in waits:
        assert [await give(wait, result) for result in (5, 5.0, 6)] == [200, 200, 409]
    assert [await give(waits[0], result) for result in (5, 6)] == [200, 409]


@pytest.mark.parametrize("wrong", ["form", "schema", "kind", "digest", "unknown"])
async def test_several_answers_are_given_all_or_none(served, thread, wrong):
    """If one of them cannot be taken, none is, and a message beside them is not sent; else all are."""
    body = {"threadId": thread, "runId": "run-1"}
    message = {"id": "m-1", "role": "user", "content": "wipe_and_weigh"}
    waits = events(await served.post("/agui/shop.clerk", body | {"messages": [message]}))[-1]["outcome"][
        "interrupts"
    ]
    call, result = sorted(waits, key=lambda wait: wait["metadata"]["kind"])
    good = [
        {"interruptId": call["id"], "status": "resolved", "payload": {"approved": True}},
        {"interruptId": result["id"], "status": "resolved", "payload": 2.5},
    ]
    changes: dict[str, tuple[int, dict[str, Any], int]] = {
        "form": (0, {"payload": {"approved": "yes"}}, 422),
        "schema": (1, {"payload": "heavy"}, 422),
        "kind": (0, {"payload": {"answer": "yes"}}, 422),
        "digest": (0, {"interruptId": call["id"].partition("#")[0] + "#" + "0" * 64}, 409),
        "unknown": (1, {"interruptId": "never"}, 409),
    }
    place, change, status = changes[wrong]
    for order in (1, -1):
        bad = [{**each, **(change if at == place else {})} for at, each in enumerate(good)][::order]
        more = {"messages": [message, {"id": "m-2", "role": "user", "content": "hello"}], "resume": bad}
        refused = await served.post("/agui/shop.clerk", body | more)
        assert refused.status_code == status, refused.text
    path = f"/v1/sessions/shop.clerk/{thread}"
    now = (await served.http.get(path)).json()
    assert (len(now["awaits"]), now["queued"]) == (2, 0)
    ended = events(await served.post("/agui/shop.clerk", body | {"messages": [message], "resume": good}))
    assert ended[-1]["outcome"] == {"type": "success"}


async def test_an_answer_is_bound_to_what_was_seen(served, thread):
    """An approval of other arguments than those that are open, and a payload that does not fit, approve nothing."""
    message = {"id": "m-1", "role": "user", "content": "wipe"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    (interrupt,) = events(await served.post("/agui/shop.clerk", body))[-1]["outcome"]["interrupts"]

    async def answered(interrupt_id: str, payload: Any) -> int:
        resume = [{"interruptId": interrupt_id, "status": "resolved", "payload": payload}]
        return (await served.post("/agui/shop.clerk", body | {"resume": resume})).status_code

    stale = interrupt["id"].partition("#")[0] + "#" + "0" * 64
    assert await answered(stale, {"approved": True}) == 409
    assert await answered(interrupt["id"], {"approved": "yes"}) == 422
    schema = interrupt["responseSchema"]
    assert (set(schema["properties"]), schema["additionalProperties"]) == (
        {"approved", "reason", "scope", "editedArgs"},
        False,
    )
    for name in (
        "args",
        "arguments",
        "payload",
        "input",
        "edited_action",
        "updatedInput",
        "Approved",
    ):
        for approved in (True, False):
            payload = {"approved": approved, name: {"disk": "b"}}
            assert await answered(interrupt["id"], payload) == 422, name
    for unfit in ({"disk": 7}, {"disk": "b", "force": True}, [], "b"):
        assert await answered(interrupt["id"], {"approved": True, "editedArgs": unfit}) == 422, unfit
    for fields in ({"approved": False}, {"approved": True, "scope": "tool"}):
        assert await answered(interrupt["id"], {**fields, "editedArgs": {"disk": "b"}}) == 422
    resume = {"interruptId": interrupt["id"], "status": "cancelled", "payload": {"reason": "no", "args": {}}}
    beside = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}, "args": {}}
    for each in (resume, beside):
        refused = await served.post("/agui/shop.clerk", body | {"resume": [each]})
        assert refused.status_code == 422
        assert "edited arguments are sent as `editedArgs`" in refused.json()["detail"]
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()
    assert len(status["awaits"]) == 1


async def test_edited_arguments_run_and_are_shown(served, thread):
    """`editedArgs` is what runs; the stream says so, the same answer again is the same, another one is told who decided, and a reload shows what ran."""
    message = {"id": "m-1", "role": "user", "content": "wipe"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    (interrupt,) = events(await served.post("/agui/shop.clerk", body))[-1]["outcome"]["interrupts"]
    payload = {"approved": True, "editedArgs": {"disk": "b"}}
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
    body |= {"runId": "run-2", "resume": [resume]}
    first, again = [events(await served.post("/agui/shop.clerk", body)) for _ in range(2)]
    for each in (first, again):
        assert [event["content"] for event in each if event["type"] == "TOOL_CALL_RESULT"] == ["wiped b"]
    (told,) = [event["value"] for event in first if event.get("name") == "sojourn.await_answered"]
    assert (told["edited_arguments"], told["by"]) == ({"disk": "b"}, "local")
    other = resume | {"payload": {"approved": True, "editedArgs": {"disk": "c"}}}
    refused = await served.post("/agui/shop.clerk", body | {"resume": [other]})
    assert refused.status_code == 409
    assert "was already approved with changes by local at" in refused.json()["detail"]
    reload = {"threadId": thread, "runId": "run-3", "messages": []}
    snapshot = next(
        each
        for each in events(await served.post("/agui/shop.clerk", reload))
        if each["type"] == "MESSAGES_SNAPSHOT"
    )
    calls = [call for each in snapshot["messages"] for call in each.get("toolCalls") or ()]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"disk": "b"}]


async def test_a_late_decision_is_told_who_decided_and_when(served, thread):
    """The refusal names the call, the decision, its author and its time in words, over AG-UI and `/v1`, and has no id in them."""
    message = {"id": "m-1", "role": "user", "content": "wipe"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    (interrupt,) = events(await served.post("/agui/shop.clerk", body))[-1]["outcome"]["interrupts"]
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()
    (wait,) = status["awaits"]
    denied = {"await_id": wait["await_id"], "approved": False, "reason": "not today"}
    first = await served.post(f"/v1/runs/{status['run_id']}/approvals", denied)
    assert first.status_code == 200, first.text
    resume = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    late = [
        await served.post("/agui/shop.clerk", body | {"resume": [resume]}),
        await served.post(
            f"/v1/runs/{status['run_id']}/approvals",
            {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]},
        ),
    ]
    for answer in late:
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (409, "already_answered"), problem
        told = r"the call of shop\.tools\.wipe was already denied by local at [0-9-]+ [0-9:]+ UTC: not today"
        assert re.fullmatch(told, problem["detail"]), problem["detail"]
        assert problem["await_id"] == wait["await_id"]


async def test_an_edited_message_gets_an_answer_of_its_own(served, thread):
    """Another text under the same id is another branch of the thread; the same text is not, whatever the page says beside it."""
    message = {"id": "m-1", "role": "user", "content": "hello"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message], "context": [{"value": "one"}]}
    for beside in ([{"value": "one"}], [{"value": "two"}, {"value": "three"}], []):
        read = events(await served.post("/agui/shop.clerk", body | {"context": beside}))
        assert read[-1]["type"] == "RUN_FINISHED"
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()["turns"] == 1
    edited = body | {"messages": [message | {"content": "think"}]}
    for _ in range(2):
        read = events(await served.post("/agui/shop.clerk", edited))
        assert [each["delta"] for each in read if each["type"] == "TEXT_MESSAGE_CONTENT"] == ["s-3"]
    read = events(await served.post("/agui/shop.clerk", edited | {"forwardedProps": {"regenerate": True}}))
    assert [each["delta"] for each in read if each["type"] == "TEXT_MESSAGE_CONTENT"] == ["s-3"]
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).json()["turns"] == 3
    (snapshot,) = [
        each["messages"]
        for each in events(await served.post("/agui/shop.clerk", body | {"messages": []}))
        if each["type"] == "MESSAGES_SNAPSHOT"
    ]
    assert [(each["role"], each["content"]) for each in snapshot] == [
        ("user", "think"),
        ("reasoning", "The site is s-3."),
        ("assistant", "s-3"),
    ]


async def test_a_message_behind_a_question_shows_the_question(served, thread):
    """A message that waits for a turn that waits ends its stream with the interrupts of that turn."""
    message = {"id": "m-1", "role": "user", "content": "ask"}
    await served.post("/agui/shop.clerk", {"threadId": thread, "runId": "run-1", "messages": [message]})
    late = {"id": "m-2", "role": "user", "content": "hello"}
    body = {"threadId": thread, "runId": "run-2", "messages": [message, late]}
    (interrupt,) = events(await served.post("/agui/shop.clerk", body))[-1]["outcome"]["interrupts"]
    assert interrupt["id"] == "question"
    resume = [{"interruptId": "question", "status": "resolved", "payload": "left"}]
    read = events(await served.post("/agui/shop.clerk", body | {"resume": resume}))
    texts = [event["delta"] for event in read if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert texts == ["left", "hello"]


async def test_a_process_that_stops_cuts_the_stream_for_another_to_go_on(served, thread):
    """The stream ends without the protocol's end or error, and the same request at another process reads the turn."""
    message = {"id": "m-1", "role": "user", "content": "hang"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    service, pieces = served.web.state.service, list[str]()

    async def read() -> None:
        async with served.http.stream("POST", "/agui/shop.clerk", json=body) as answer:
            async for text in answer.aiter_text():
                pieces.append(text)
                if "TOOL_CALL_END" in text:
                    await service.end_streams()

    with pytest.raises(httpx2.RemoteProtocolError):
        await read()
    found = "".join(pieces)
    assert "TOOL_CALL_END" in found
    assert "RUN_FINISHED" not in found
    assert "RUN_ERROR" not in found
    other = create_app(service.app, client=served.client)
    async with listening(other) as url, http_client(base_url=url, timeout=60) as http:
        run = served.client.get_run(f"shop.clerk@{thread}")
        async with http.stream("POST", "/agui/shop.clerk", json=body) as answer:
            again = ""
            async for text in answer.aiter_text():
                again += text
                if "TOOL_CALL_END" in text:
                    await run.interrupt("enough")
    assert "RUN_ERROR" in again
    assert calls_of(again) == calls_of(found)


def calls_of(read: str) -> list[str]:
    """The ids of the calls that a stream begins."""
    lines = [json.loads(line[6:]) for line in read.split("\n\n") if line.startswith("data: ")]
    return [event["toolCallId"] for event in lines if event["type"] == "TOOL_CALL_START"]


async def test_a_page_that_is_loaded_again_has_its_thread(served, person, thread):
    """A client of the thread that has no messages gets all of them, with their ids, and the outcome that they had."""
    known = await person("think", "rounds 1", "hello", reload=True)
    assert roles(known) == [
        *("user", "reasoning", "assistant"),
        *("user", "assistant", "tool", "tool", "assistant"),
        *("user", "assistant"),
    ]
    assert known["messages"] == known["before"]
    assert known["outcomes"] == [{"type": "success"}] * 4
    assert (known["state"]["status"], known["state"]["turns"]) == ("idle", 3)


async def test_a_page_that_is_loaded_again_answers_what_is_open(served, person, thread):
    """The turn that waits is read again with its interrupt, which the page then answers."""
    answers = [{"status": "resolved", "payload": {"approved": True}}]
    known = await person("hello", "wipe", answers=answers, reload=True)
    before, again = known["outcomes"][1:3]
    assert again["interrupts"] == before["interrupts"]
    assert known["messages"][: len(known["before"])] == known["before"]
    assert known["messages"][-1]["content"] == "wiped a"


async def test_the_text_of_a_stopped_turn_stays(served, shop, thread):
    """The stream ends with the text, and that it was stopped; a page that is loaded again has both."""
    body = {"threadId": thread, "runId": "run-1", "messages": []}
    said = {"id": "m-1", "role": "user", "content": "talk"}
    shop.gate.clear()
    found: list[Any] = []
    try:
        async with served.http.stream("POST", "/agui/shop.clerk", json=body | {"messages": [said]}) as answer:
            read = answer.aiter_lines()
            while not found or found[-1]["type"] != "RUN_ERROR":
                found.append(await frame(read))
                if found[-1]["type"] == "TEXT_MESSAGE_CONTENT":
                    await served.http.post(f"/v1/sessions/shop.clerk/{thread}/interrupt")
    finally:
        shop.gate.set()
    (stopped,) = [each["value"] for each in found if each.get("name") == "sojourn.stopped"]
    assert (stopped["messageId"], found[-1]["code"]) == (
        next(each["messageId"] for each in found if each["type"] == "TEXT_MESSAGE_START"),
        "interrupted",
    )
    assert [each["delta"] for each in found if each["type"] == "TEXT_MESSAGE_CONTENT"] == ["The site is "]
    again = events(await served.post("/agui/shop.clerk", body))
    (snapshot,) = [each["messages"] for each in again if each["type"] == "MESSAGES_SNAPSHOT"]
    assert [(each["id"], each["content"]) for each in snapshot] == [
        ("m-1", "talk"),
        (stopped["messageId"], "The site is "),
    ]
    assert [each["value"] for each in again if each.get("name") == "sojourn.stopped"] == [stopped]


async def test_a_page_that_is_loaded_again_follows_the_turn_that_goes_on(served, shop, thread):
    """What is older than the turn, and its message, are there at once; the text comes as it is written, and once."""
    body = {"threadId": thread, "runId": "run-1", "messages": []}
    messages = [
        {"id": f"m-{index}", "role": "user", "content": text} for index, text in enumerate(("hello", "talk"))
    ]
    await served.post("/agui/shop.clerk", body | {"messages": messages[:1]})
    shop.gate.clear()
    try:
        async with served.http.stream(
            "POST", "/agui/shop.clerk", json=body | {"messages": messages}
        ) as first:
            await frame(first.aiter_lines())
            async with served.http.stream("POST", "/agui/shop.clerk", json=body) as answer:
                read = answer.aiter_lines()
                found = [await frame(read) for _ in range(2)]
                assert found[1]["type"] == "MESSAGES_SNAPSHOT"
                assert [each["content"] for each in found[1]["messages"]] == ["hello", "hello", "talk"]
                shop.gate.set()
                while found[-1]["type"] != "RUN_FINISHED":
                    found.append(await frame(read))
    finally:
        shop.gate.set()
    assert (
        "".join(each["delta"] for each in found if each["type"] == "TEXT_MESSAGE_CONTENT")
        == "The site is dark."
    )


async def test_a_page_of_a_new_thread_has_no_messages(served, thread):
    """A page that opens a thread which there is not, or is another's, gets none, and nothing is started."""
    body = {"threadId": thread, "runId": "run-1", "messages": []}
    found = events(await served.post("/agui/shop.clerk", body))
    assert [each["type"] for each in found] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert found[1]["messages"] == []
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).status_code == 404


async def test_a_request_without_message_or_agent_is_refused(served, thread):
    """It starts nothing, and is answered with problem details."""
    body = {"threadId": thread, "runId": "run-1", "messages": []}
    assert (await served.post("/agui/shop.nobody", body)).json()["code"] == "agent_not_found"
    body["messages"] = [{"id": "r-1", "role": "tool", "toolCallId": "c-1", "content": "1"}]
    assert (await served.post("/agui/shop.clerk", body)).json()["code"] == "invalid_request"
    body["messages"] = [{"id": "m-1", "role": "user", "content": "hello"}]
    assert (await served.post("/agui/shop.nobody", body)).json()["code"] == "agent_not_found"
    odd = body | {"messages": [{"id": "m-1", "role": "user", "content": [{"type": "video"}]}]}
    assert (await served.post("/agui/shop.clerk", odd)).json()["code"] == "invalid_input"
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{thread}")).status_code == 404


def events(answer: Any) -> list[Any]:
    """The events of an answer."""
    assert answer.status_code == 200, answer.text
    return [json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: ")]


async def frame(lines: Any) -> Any:
    """The next event of a stream."""
    while not (line := await anext(lines)).startswith("data: "):
        pass
    return json.loads(line[6:])


def made(found: list[Any]) -> list[Any]:
    """Events without what differs in every reading: the time, and the status at the beginning."""
    kept = [event for event in found if event["type"] != "STATE_SNAPSHOT"]
    return [{name: value for name, value in event.items() if name != "timestamp"} for event in kept]


async def test_what_ended_before_an_interrupt_is_told_before_it(served, thread, monkeypatch):
    """Also where it is read late: the status, which says that people only are waited for, may be ahead of the events."""

    async def late(*about: Any, **options: Any) -> Any:
        async with aclosing(stream(*about, **options)) as events:
            async for event in events:
                if event.type == "tool_end":
                    await asyncio.sleep(0.7)
                yield event

    monkeypatch.setattr("sojourn.reader.feed.stream", late)
    message = {"id": "m-1", "role": "user", "content": "wipe_and_add"}
    body = {"threadId": thread, "runId": "run-1", "messages": [message]}
    kinds = [
        [event["type"] for event in events(await served.post("/agui/shop.clerk", body))] for _ in range(2)
    ]
    assert kinds[0].count("TOOL_CALL_RESULT") == 1
    assert kinds[0] == kinds[1]
