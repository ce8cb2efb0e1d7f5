"""Conversations over HTTP: messages delivered once, and their answers."""

import asyncio
import uuid
from urllib.parse import unquote

import pytest

from sojourn import RunNotFound


@pytest.fixture
def session(served) -> str:
    """The path of a conversation that does not exist yet."""
    return f"/v1/sessions/shop.clerk/desk%2F{uuid.uuid4().hex[:8]}"


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
    """The same message_id gives the same place and the same answer, at first with 201 and from then on with 200, also once the conversation has ended."""
    body = {"message_id": "m-1", "text": "hello"}
    paths = [session, session, f"{session}/messages", f"{session}/messages"]
    sent = [await served.post(path, body, params={"wait": 30}) for path in paths]
    assert (await served.http.get(session)).json()["turns"] == 1
    assert (await served.post(f"{session}/close")).status_code == 200
    assert (await served.http.get(f"/v1/runs/{sent[0].json()['run_id']}/output?wait=30")).status_code == 200
    sent.append(await served.post(f"{session}/messages", body, params={"wait": 30}))
    assert [each.status_code for each in sent] == [201, 200, 200, 200, 200]
    assert {each.text for each in sent[:4]} == {sent[0].text}
    assert sent[4].json()["output"] == sent[0].json()["output"]


async def test_another_text_under_the_same_id_is_refused(served, session):
    """A message_id is that of one message: with another text it is no repetition, and gets no old answer."""
    await served.post(session, {"message_id": "m-1", "text": "hello"}, params={"wait": 30})
    for path in (session, f"{session}/messages"):
        other = await served.post(path, {"message_id": "m-1", "text": "hello you"}, params={"wait": 30})
        assert (other.status_code, other.json()["code"]) == (409, "message_edited")
    assert (await served.http.get(session)).json()["turns"] == 1


async def test_a_message_is_edited_and_the_conversation_switched(served, session):
    """An edit is delivered once, is refused if the conversation has branched since, and the other branch can be gone on with."""
    for message_id, text in (("m-1", "one"), ("m-2", "two")):
        await served.post(session, {"message_id": message_id, "text": text}, params={"wait": 30})
    edit = {"message_id": "m-2", "text": "TWO", "branches": 0}
    sent = [await served.post(f"{session}/edit", edit, params={"wait": 30}) for _ in range(2)]
    assert [(each.status_code, each.json()["output"]["text"]) for each in sent] == [
        (201, "TWO"),
        (200, "TWO"),
    ]
    late = await served.post(f"{session}/edit", edit | {"text": "2"})
    assert (late.status_code, late.json()["code"]) == (409, "await_closed")
    unknown = await served.post(f"{session}/edit", {"message_id": "m-9"})
    assert (unknown.status_code, unknown.json()["code"]) == (422, "invalid_input")
    found = (await served.http.get(f"{session}/alternatives")).json()
    ((two, other),) = found["alternatives"]
    assert (found["branches"], two["text"], two["is_present"], other["text"], other["is_present"]) == (
        *(1, "two", False),
        *("TWO", True),
    )
    switched = await served.post(f"{session}/switch", {"at": two["at"]})
    assert (switched.status_code, switched.json()["done"]) == (200, "switched")
    told = await served.post(session, {"message_id": "m-3", "text": "three"}, params={"wait": 30})
    said = (await served.http.get(f"/v1/runs/{told.json()['run_id']}/transcript")).json()
    assert [each["parts"][0]["text"] for each in said if each["role"] == "user"] == ["one", "two", "three"]


async def test_a_failed_turn_is_told_with_its_message(served, session):
    """A turn that fails ends only itself."""
    failed = (await served.post(f"{session}/messages", {"text": "fail"}, params={"wait": 30})).json()
    assert (failed["output"], "the shop is closed" in str(failed["error"])) == (None, True)
    after = (await served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 30})).json()
    assert after["output"]["text"] == "hello"


async def test_a_message_comes_back_once_the_turn_waits(served, session):
    """With `wait`, a message is answered at once when its turn asks somebody, and a message behind it too; the answer goes to the run."""
    asked = await asyncio.wait_for(
        served.post(f"{session}/messages", {"text": "ask"}, params={"wait": 50}), 45
    )
    told = asked.json()
    assert (asked.status_code, told["status"], told["output"], told["error"]) == (201, "waiting", None, None)
    (wait,) = told["awaits"]
    assert (wait["kind"], wait["prompt"], wait["run_id"]) == ("question", "Which one?", told["run_id"])
    behind = await asyncio.wait_for(
        served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 50}), 45
    )
    assert [each["await_id"] for each in behind.json()["awaits"]] == [wait["await_id"]]
    again = {"message_id": behind.json()["message_id"], "text": "hello"}
    answer = {"await_id": wait["await_id"], "answer": "this one"}
    for sent, status in ((answer, 200), (answer, 200), ({**answer, "answer": "another"}, 409)):
        assert (await served.post(f"/v1/runs/{told['run_id']}/answers", sent)).status_code == status
    after = (await served.post(f"{session}/messages", again, params={"wait": 50})).json()
    assert (after["output"]["text"], after["status"], after["awaits"]) == ("hello", None, [])


async def test_a_message_comes_back_once_a_child_run_waits(served, session):
    """With `wait`, a message is answered at once when a child run of its turn asks somebody, with the child's id."""
    sent = served.post(f"{session}/messages", {"text": "below"}, params={"wait": 50})
    told = (await asyncio.wait_for(sent, 45)).json()
    ((child, (wait,)),) = told["child_awaits"].items()
    assert child.startswith(f"{told['run_id']}/")
    answer = {"await_id": wait["await_id"], "answer": "that one"}
    assert (await served.post(f"/v1/runs/{child}/answers", answer)).status_code == 200


async def test_a_message_that_is_not_answered_in_time_tells_the_status(served, session):
    """Where nobody is asked and the time is over, the status is told."""
    told = (await served.post(f"{session}/messages", {"text": "hang"}, params={"wait": 0.5})).json()
    assert (told["status"], told["output"], told["awaits"]) == ("running", None, [])


async def test_a_message_that_interrupts_a_question_waits_for_its_own_answer(served, session):
    """A question that a message ends is not what that message waits for."""
    await served.post(f"{session}/messages", {"text": "ask"}, params={"wait": 50})
    body = {"text": "hello", "mode": "interrupt"}
    told = (await served.post(f"{session}/messages", body, params={"wait": 50})).json()
    assert told["output"]["text"] == "hello"


async def test_a_conversation_is_steered_without_a_body(served, session):
    """What has only fields that can be left out needs no body."""
    await served.post(f"{session}/messages", {"text": "ask"}, params={"wait": 50})
    assert (await served.http.post(f"{session}/interrupt")).json()["done"] == "interrupted"
    assert (await served.http.post(f"{session}/close")).json()["done"] == "closed"


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
    assert (late.status_code, late.json()["code"]) == (409, "run_ended")

    async def is_listed() -> bool:
        query = {"agent_id": "shop.clerk", "session_id": unquote(session.split("/", 4)[4])}
        runs = (await served.http.get("/v1/sessions", params=query)).json()["sessions"]
        return [(run["status"], "conversation" in run) for run in runs] == [("completed", False)]

    await until(is_listed)


async def test_a_conversation_needs_an_agent_of_the_app(served):
    """A message to an agent that the app does not have is refused with 404, and starts nothing."""
    answer = await served.post("/v1/sessions/shop.nobody/desk/messages", {"text": "hello"})
    assert (answer.status_code, answer.json()["code"]) == (404, "agent_not_found")


async def test_an_interruption_is_of_the_turn_that_is_meant(served, session):
    """With a `turn_id` another turn than that one is not ended: 409; between two turns there is none to end."""
    await served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 30})
    first = (await served.http.get(session)).json()["turn_id"]
    ended = await served.post(f"{session}/interrupt", {"turn_id": first})
    assert (ended.status_code, ended.json()["done"]) == (200, "no_turn")
    await served.post(f"{session}/messages", {"text": "ask"}, params={"wait": 30})
    unnamed = await served.post(f"{session}/interrupt", {"turn_id": ""})
    assert unnamed.status_code == 422  # not whichever turn is under way
    late = await served.post(f"{session}/interrupt", {"turn_id": first})
    assert (late.status_code, late.json()["code"]) == (409, "await_closed")
    present = (await served.http.get(session)).json()
    assert len(present["awaits"]) == 1
    done = await served.post(f"{session}/interrupt", {"turn_id": present["turn_id"]})
    assert (done.status_code, done.json()["done"]) == (200, "interrupted")


@pytest.mark.parametrize("below", ["mesages", "messages/", "", "status", "messages/m-1", "cancel", "desk-2"])
async def test_a_path_below_a_session_that_there_is_not_begins_none(served, below):
    """A misspelt path is 404 with every method that paths of sessions have, and is the id of no session."""
    session = f"desk-{uuid.uuid4().hex[:8]}"
    path = f"/v1/sessions/shop.clerk/{session}/{below}"
    for answer in (await served.post(path, {"text": "hello"}), await served.http.get(path)):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "%2F" in answer.json()["then"]
    begun = await served.post(path.removesuffix(f"/{below}"), {"text": "hello"}, params={"wait": 30})
    assert begun.status_code == 201
    misread = served.client.session("shop.clerk", f"{session}/{below}")
    with pytest.raises(RunNotFound):
        await misread.status()


async def test_a_session_whose_id_ends_like_a_path_is_not_another_one(served):
    """A message for `desk/messages`, whose `/` is encoded, never goes to the session `desk`."""
    session = f"desk-{uuid.uuid4().hex[:8]}"
    answer = await served.post(f"/v1/sessions/shop.clerk/{session}%2Fmessages", {"text": "hello"})
    assert answer.status_code == 404
    assert (await served.http.get(f"/v1/sessions/shop.clerk/{session}")).json()["code"] == "run_not_found"


async def test_a_message_that_waits_is_withdrawn(served, session):
    """Its request comes back with the code `withdrawn`; withdrawn again nothing changes, and a message whose turn has begun stays."""
    first = {"message_id": "m-1", "text": "ask"}
    asked = (await served.post(f"{session}/messages", first, params={"wait": 50})).json()
    second = {"message_id": "m-2", "text": "hello"}
    await served.post(f"{session}/messages", second)
    for _ in range(2):
        gone = await served.post(f"{session}/withdraw", {"message_id": "m-2"})
        assert (gone.status_code, gone.json()["done"]) == (200, "withdrawn")
    sent_again = await served.post(f"{session}/messages", second, params={"wait": 50})
    assert (sent_again.status_code, sent_again.json()["error"]["code"]) == (200, "withdrawn")
    begun = await served.post(f"{session}/withdraw", {"message_id": "m-1"})
    assert (begun.status_code, begun.json()["code"]) == (409, "await_closed")
    assert "its turn has begun; stop the turn instead" in begun.text
    assert (await served.post(f"{session}/withdraw", {"message_id": "m-3"})).status_code == 422
    answer = {"await_id": asked["awaits"][0]["await_id"], "answer": "this one"}
    await served.post(f"/v1/runs/{asked['run_id']}/answers", answer)
    assert (await served.http.get(session)).json()["queued"] == 0
