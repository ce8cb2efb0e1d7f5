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


@pytest.fixture
def page(served, start, chat):
    """Run a page with `useChat` in the chat; returns what it knows after each step."""

    async def run(*steps: Any, **plan: Any) -> list[Any]:
        page = await start("chat.mjs", f"{served.url}/vercel/shop.clerk", chat, steps=steps, **plan)
        return [await page.line() for _ in steps]

    return run


def bare(messages: Any) -> Any:
    """Messages without what the SDK adds to the parts of a stream, and what is no part of a page."""
    kept = ("type", "text", "toolCallId", "state", "input", "output", "errorText", "id")
    return [
        {
            "id": message["id"],
            "role": message["role"],
            "parts": [
                {
                    name: part[name]
                    for name in kept
                    if name in part and (name != "state" or "toolCallId" in part)
                }
                for part in message["parts"]
                if part["type"] != "data-approval"
            ],
        }
        for message in messages
    ]


@pytest.mark.parametrize("resumes", [False, True])
async def test_a_page_that_is_loaded_again_has_its_chat(page, resumes):
    """The messages are those that the streams made, valid for the SDK, and a resumed stream doubles nothing."""
    known = await page(["send", "rounds 1"], ["send", "think"], ["send", "hello"])
    (again,) = await page(["resume"] if resumes else ["look"], load=True)
    assert bare(again["messages"]) == bare(known[-1]["messages"])
    assert (again["status"], again.get("error")) == ("ready", None)


async def test_a_page_that_is_loaded_again_decides_on_an_open_call(page):
    """The card is there with the whole call, and a decision on it continues its message."""
    await page(["send", "hello"], ["send", "wipe"])
    again = await page(["look"], ["decide", 0, True], ["send", "more"], load=True)
    (card,) = calls(again[0]["messages"][-1])
    assert (card["state"], card["input"]) == ("approval-requested", {"disk": "a"})
    (card,) = calls(again[1]["messages"][-1])
    assert (card["state"], card["output"], again[1].get("error")) == ("output-available", "wiped a", None)
    assert texts(again[2])[-2:] == ["more", "more"]


async def test_a_page_that_is_loaded_again_answers_an_open_question(page):
    """The question has its data, so that the next message answers it; later the chat has both replies apart."""
    await page(["send", "ask"])
    again = await page(["look"], ["send", "this one"], load=True)
    assert [part["type"] for part in again[0]["messages"][-1]["parts"]][-1] == "data-question"
    assert (again[1]["status"], again[1].get("error")) == ("ready", None)
    (last,) = await page(["look"], load=True)
    assert bare(last["messages"]) == bare(again[1]["messages"])


async def test_a_chat_that_does_not_exist_has_no_messages(served, chat):
    """A page that is loaded for the first time begins with an empty list; an unknown agent is refused."""
    empty = await served.http.get(f"/vercel/shop.clerk/{chat}/messages")
    assert (empty.status_code, empty.json()) == (200, [])
    assert (await served.http.get(f"/vercel/shop.nobody/{chat}/messages")).status_code == 404


@pytest.mark.parametrize("pressed", [1, 0])
async def test_a_message_beside_an_open_approval_is_answered_after_it(served, page, chat, pressed):
    """The message has a card of its own, whole; a decision on either card counts, and the message that waited gets its answer."""
    further = [["send", "hello again"]] if pressed == 0 else []
    known = await page(["send", "wipe"], ["send", "hello"], ["decide", pressed, True], *further)
    cards = [card for message in known[1]["messages"] for card in calls(message)]
    assert [(card["type"], card["input"], card["state"]) for card in cards] == [
        ("tool-shop.tools.wipe", {"disk": "a"}, "approval-requested")
    ] * 2
    assert cards[0]["approval"]["id"] != cards[1]["approval"]["id"]
    assert (known[-1]["status"], known[-1].get("error")) == ("ready", None)
    told = " ".join(texts(known[-1]))
    assert ("wiped a" in told, told.count("hello")) == (True, 2 + 2 * (pressed == 0))
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()
    assert (status["turns"], status["queued"], status["awaits"]) == (2 + len(further), 0, [])
    assert known[-1]["requests"] == 3


async def test_a_decision_on_a_card_that_is_settled_stops_nothing(served, page, chat):
    """A late press on the older card of a call that was decided on the newer one is no error, and changes nothing."""
    known = await page(
        ["send", "wipe"], ["send", "hello"], ["decide", 1, True], ["decide", 0, False], ["send", "more"]
    )
    assert (known[-1]["status"], texts(known[-1])[-1]) == ("ready", "more")
    events = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}/events")).json()
    assert [event["approved"] for event in events if event["type"] == "await_answered"] == [True]


async def test_a_child_runs_call_has_a_card_of_its_own(page):
    """What a child run asks to approve is shown with that call's tool and arguments, and the card gets the call's result."""
    known = await page(["send", "wipe_below"], ["decide", 0, True])
    (card,) = [card for card in calls(known[0]["messages"][1]) if card.get("approval")]
    assert (card["type"], card["input"]) == ("tool-shop.tools.wipe", {"disk": "b"})
    (card,) = [card for card in calls(known[1]["messages"][1]) if card.get("approval")]
    assert (card["state"], card["output"], known[1]["requests"]) == ("output-available", "wiped b", 2)


async def test_an_edited_message_is_another_branch_of_the_chat(served, page, chat):
    """It is answered without what came after it, a reloaded page has that branch, and a repeated request changes nothing."""
    known = await page(["send", "hello"], ["send", "rounds 1"], ["edit", "m-1", "bye"], ["send", "more"])
    assert known[-1].get("error") is None
    assert texts(known[-1]) == ["bye", "bye", "more", "more"]
    (again,) = await page(["look"], load=True)
    assert bare(again["messages"]) == bare(known[-1]["messages"])
    events = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}/events")).json()
    assert [event["message_ids"] for event in events if event["type"] == "turn_started"] == [
        ["m-1"],
        ["m-2"],
        ["m-1"],
        ["m-3"],
    ]


async def test_a_message_is_answered_again(served, page, chat):
    """`regenerate` of an answered message is another branch, also after a failed turn."""
    known = await page(["send", "hello"], ["send", "fail"], ["regenerate"], ["edit", "m-2", "again"])
    assert "closed" in known[2]["error"]
    assert texts(known[-1]) == ["hello", "hello", "again", "again"]
    found = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}/alternatives")).json()
    (turns,) = found["alternatives"]
    assert [(turn["text"], turn["is_present"]) for turn in turns] == [
        ("fail", False),
        ("fail", False),
        ("again", True),
    ]
    switched = await served.post(f"/v1/sessions/shop.clerk/{chat}/switch", {"at": turns[0]["at"]})
    assert (switched.status_code, switched.json()["done"]) == (200, "switched")


async def test_an_edit_leaves_an_open_card(served, page, chat):
    """The call of the branch that is left is not run, and nothing waits any more."""
    known = await page(["send", "wipe"], ["edit", "m-1", "hello"])
    assert texts(known[-1]) == ["hello", "hello"]
    status = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()
    assert (status["status"], status["awaits"]) == ("idle", [])


async def test_a_changed_text_without_an_edit_is_refused(served, chat):
    """A page that counts its messages anew does not edit the first one of a chat by chance."""
    body = {
        "id": chat,
        "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}],
    }
    await served.post("/vercel/shop.clerk", body)
    body["messages"][0]["parts"][0]["text"] = "other"
    answer = await served.post("/vercel/shop.clerk", body)
    assert (answer.status_code, answer.json()["code"]) == (409, "message_edited")


async def test_a_page_that_stops_ends_the_turn_where_it_says_so(served, shop, page, chat):
    """With the header, a stop of the page interrupts the turn; without it the turn goes on."""
    shop.gate.clear()
    steps = [["begin", "talk"], ["until", "The site is "], ["stop"]]
    try:
        await page(*steps, headers={"Sojourn-On-Disconnect": "interrupt"})
        run = served.client.get_run(f"shop.clerk@{chat}")
        await served.status_when(run, lambda status: status.status == "idle")
    finally:
        shop.gate.set()
    events = [event async for event in run.events(follow=False)]
    assert [event.error.code for event in events if event.type == "turn_failed"] == ["interrupted"]
    known = (await served.http.get(f"/vercel/shop.clerk/{chat}/messages")).json()
    stopped = known[1]["parts"][-2:]
    assert [part["type"] for part in stopped] == ["text", "data-stopped"]
    assert stopped[0]["text"] == "The site is "
    (loaded,) = await page(["look"], load=True)
    assert texts(loaded) == ["talk", "The site is "]


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        ({"approval": {"approved": True, "args": {"disk": "b"}}}, "no field 'args'"),
        ({"approval": {"approved": True, "editedInput": {"disk": "b"}}}, "no field 'editedInput'"),
        ({"approval": {"approved": True}, "input": {"disk": "b"}}, "other arguments"),
    ],
)
async def test_edited_arguments_are_refused(served, chat, edited, told):
    """A decision with anything that would be ignored decides nothing, and says that arguments cannot be edited."""
    path = "/vercel/shop.clerk"
    body = {
        "id": chat,
        "messages": [{"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "wipe"}]}],
    }
    asked = next(
        chunk for chunk in chunks(await served.post(path, body)) if chunk["type"] == "tool-approval-request"
    )
    card = {"type": "tool-shop.tools.wipe", "toolCallId": asked["toolCallId"], "state": "approval-responded"}
    edited = {**edited, "approval": {"id": asked["approvalId"], **edited["approval"]}}
    body["messages"].append({"id": "answer-m-1", "role": "assistant", "parts": [{**card, **edited}]})
    answer = await served.post(path, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert told in answer.json()["detail"]
    assert "cannot be edited" in answer.json()["detail"]
    assert len((await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()["awaits"]) == 1


async def test_a_card_shows_the_arguments_that_an_approver_edited(served, chat):
    """A decision elsewhere with edited arguments: the card gets what ran before it gets the output."""
    path = "/vercel/shop.clerk"
    person = {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "wipe"}]}
    body = {"id": chat, "messages": [person]}
    asked = next(
        chunk for chunk in chunks(await served.post(path, body)) if chunk["type"] == "tool-approval-request"
    )
    (wait,) = (await served.http.get(f"/v1/sessions/shop.clerk/{chat}")).json()["awaits"]
    decision = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    edited = {**decision, "arguments": {"disk": "b"}}
    assert (await served.post(f"/v1/runs/{wait['run_id']}/approvals", edited)).status_code == 200
    told = chunks(await served.post(path, body))
    of_call = [chunk for chunk in told if chunk.get("toolCallId") == asked["toolCallId"]]
    assert [chunk["input"] for chunk in of_call if chunk["type"] == "tool-input-available"][-1] == {
        "disk": "b"
    }
    assert of_call[-1]["output"] == "wiped b"


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
