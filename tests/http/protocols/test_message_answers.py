"""A message that is answered while an approval is open, by every protocol: its reply is that answer, and the call waits on."""

import asyncio
import uuid

import pytest

from sojourn import PlanResult, Principal
from sojourn.asgi import create_app
from sojourn.errors import NotApprover
from sojourn.http.answering import QUIET
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import PROTOCOLS, say
from tests.workflows.test_message_answers import Meddling, Planner, app_of, burn, done, verdicts, wipe

LOCAL = Principal(subject="local")
"""Who asks without an authentication."""


class Silent(Meddling):
    """Never answers a message, whatever it is told."""

    async def answer(self, turn, usage):
        """Ask instead."""
        return PlanResult.ask("May I?")


class Reading(Silent):
    """Reads a message that it has not answered only once it may."""

    def __init__(self):
        super().__init__()
        self.may_read = asyncio.Event()

    async def plan(self, turn):
        """Plan."""
        if turn.finalize is None and any(message.role == "tool" for message in turn.messages):
            await self.may_read.wait()
        return await super().plan(turn)


class Twice(Silent):
    """Wipes a second disk after the first."""

    async def plan(self, turn):
        """Plan."""
        results = [message for message in turn.messages if message.role == "tool"]
        if turn.finalize is None and len(results) == 1:
            return PlanResult.calls(wipe.call(disk="b"))
        return await super().plan(turn)


class Both(Silent):
    """Wipes two disks at once."""

    async def plan(self, turn):
        """Plan."""
        if turn.finalize is None and turn.messages[-1].text == "wipe":
            return PlanResult.calls(wipe.call(disk="a"), wipe.call(disk="b"))
        return await super().plan(turn)


class Burning(Planner):
    """Burns a disk, about which a worker judges who may decide."""

    async def plan(self, turn):
        """Plan."""
        if turn.finalize is None and turn.messages[-1].text == "burn":
            return PlanResult.calls(burn.call(disk="a"))
        return await super().plan(turn)


@pytest.fixture(params=[{}])
async def served(serve, request):
    """An agent that answers messages while it waits for an approval, its service, and a client of both."""
    done.clear()
    given = dict(request.param)
    app = app_of(given.pop("planner", Planner)(), **given)
    client = await serve(app)
    async with (
        listening(create_app(app, client=client)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):
        yield client, http, url


async def opened(client):
    """Begin a conversation whose call waits for an approval."""
    session_id = uuid.uuid4().hex
    session = client.session("test.agent", session_id, principal=LOCAL)
    first = await session.send("wipe")
    (wait,) = await session.run.until_waiting()
    return session_id, session, first, wait


async def test_a_message_is_answered_by_every_protocol(served, subtests):
    """The call waits as before, a second message is answered too, and the decision has what was said in its turn."""
    client, http, _ = served

    async def ask(name: str) -> None:
        session_id, session, first, wait = await opened(client)
        for n, text in enumerate(("why disk a?", "and when?")):
            request = say(
                name, text, session_id=session_id, message_id=f"m-{session_id}-{n}", agent_id="test.agent"
            )
            answer = await http.request(
                request.method, request.path, headers=request.headers, json=request.body
            )
            assert answer.status_code in (200, 201), answer.text
            assert f"on {text}" in answer.text
            assert [each.id for each in (await session.status()).awaits] == [wait.id]
        await session.run.approve(wait, by="bo")
        assert "why disk a? | on why disk a? | and when? | on and when?" in (await first.result()).text

    for name in PROTOCOLS:
        with subtests.test(name):
            await ask(name)


UNANSWERED = [{"planner": Silent}, {"max_tokens": 5}]
"""An agent whose answers fail, and one that has no tokens left for an answer."""


@pytest.mark.parametrize("served", UNANSWERED, indirect=True)
async def test_a_message_without_an_answer_shows_the_call_again(served, subtests):
    """By every protocol the reply ends with the call that waits, since the person who decides may have this chat alone."""
    client, http, _ = served

    async def ask(name: str) -> None:
        session_id, session, first, wait = await opened(client)
        request = say(
            name, "why?", session_id=session_id, message_id=f"m-{session_id}", agent_id="test.agent"
        )
        answer = await http.request(
            request.method, request.path, headers=request.headers, json=request.body, timeout=20
        )
        assert answer.status_code in (200, 201, 202), answer.text
        assert any(each in answer.text for each in ("disk", "answers.tools.wipe", wait.id)), answer.text
        await session.run.approve(wait, by="bo")
        await first.result()

    for name in PROTOCOLS:
        with subtests.test(name):
            await ask(name)


@pytest.mark.parametrize("served", UNANSWERED, indirect=True)
async def test_the_call_that_is_shown_again_is_approved_in_the_chat(served):
    """By OpenAI's responses `yes` to the reply of the message runs the call; both replies have the decision's turn."""
    _, http, _ = served
    first = (await http.post("/openai/v1/responses", json={"model": "test.agent", "input": "wipe"})).json()
    body = {"model": "test.agent", "input": "why?", "previous_response_id": first["id"]}
    second = (await http.post("/openai/v1/responses", json=body)).json()
    assert "disk" in second["output"][0]["content"][0]["text"]
    assert (await http.get(f"/openai/v1/responses/{second['id']}")).json()["status"] == "completed"
    yes = {"model": "test.agent", "input": "yes", "previous_response_id": second["id"]}
    last = (await http.post("/openai/v1/responses", json=yes)).json()
    assert last["status"] == "completed"
    assert done == ["a"]


@pytest.mark.parametrize("served", [{"planner": Both}], indirect=True)
async def test_after_yes_the_reply_shows_a_second_call_that_was_open_before(served):
    """The person who decides may have this chat alone, and `yes` to that reply runs the second call."""
    _, http, _ = served

    async def say_next(text: str, before: str | None) -> tuple[str, str]:
        body = {"model": "test.agent", "input": text, "previous_response_id": before}
        response = (await http.post("/openai/v1/responses", json=body, timeout=20)).json()
        return response["id"], response["output"][0]["content"][0]["text"]

    first, _ = await say_next("wipe", None)
    held, shown = await say_next("why?", first)
    assert '"a"' in shown
    second, shown = await say_next("yes", held)
    assert ('"b"' in shown, done) == (True, ["a"])
    read = (await http.get(f"/openai/v1/responses/{second}")).json()
    assert read["output"][0]["content"][0]["text"] == shown
    _, last = await say_next("yes", second)
    assert ("wiped a, wiped b" in last, done) == (True, ["a", "b"])


@pytest.mark.parametrize("served", [{"planner": Burning}], indirect=True)
async def test_a_message_is_not_shown_a_call_whose_decision_is_being_judged(served, until, status_when):
    """It is answered once a worker has refused the decision, and the status says that one does."""
    client, http, _ = served
    session = client.session("test.agent", uuid.uuid4().hex, principal=LOCAL)
    await session.send("burn")
    (wait,) = await session.run.until_waiting()
    verdicts.append(verdict := asyncio.Event())
    decision = asyncio.create_task(session.run.approve(wait, principal=Principal(subject="eve")))
    assert (await status_when(session.run, lambda status: status.judging)).judging == [wait.id]
    request = say("response", "why?", session_id=session.session_id, message_id="m1", agent_id="test.agent")
    asked = asyncio.create_task(
        http.request(request.method, request.path, headers=request.headers, json=request.body)
    )
    await status_when(session.run, lambda status: status.queued)
    await asyncio.sleep(5 * QUIET)
    assert not asked.done()
    verdict.set()
    verdicts.clear()
    with pytest.raises(NotApprover):
        await decision
    assert "on why?" in (await asked).text
    assert (await session.status()).judging == []
    await session.run.deny(wait, principal=Principal(subject="bo"))


@pytest.mark.parametrize("served", [{"planner": Twice}], indirect=True)
async def test_a_bare_yes_approves_no_call_that_its_reply_did_not_show(served):
    """If the call that a reply showed was decided elsewhere, `yes` to it shows the next call, and runs nothing."""
    client, http, _ = served
    first = (await http.post("/openai/v1/responses", json={"model": "test.agent", "input": "wipe"})).json()
    body = {"model": "test.agent", "input": "why?", "previous_response_id": first["id"]}
    second = (await http.post("/openai/v1/responses", json=body)).json()
    token = ReplyToken.parse(second["id"].removeprefix("resp_"))
    assert token
    run = client.get_run(token.run_id)
    (wait,) = await run.until_waiting()
    await run.deny(wait, by="bo")
    while [each.id for each in await run.until_waiting()] == [wait.id]:
        await asyncio.sleep(0.05)
    yes = {"model": "test.agent", "input": "yes", "previous_response_id": second["id"]}
    third = (await http.post("/openai/v1/responses", json=yes)).json()
    assert "disk" in third["output"][0]["content"][0]["text"]
    (other,) = (await run.status()).awaits
    assert other.payload == {"disk": "b"}
    assert done == []
    await run.deny(other, by="bo")


async def test_use_chat_goes_on_in_the_newest_card(served, start):
    """A message while a card is open has its answer and the card below it; a press on that one runs the call, and a loaded page is the same."""
    _, _, url = served

    async def page(*steps, load: bool = False):
        made = await start("chat.mjs", f"{url}/vercel/test.agent", "chat-1", steps=steps, load=load)
        return [await made.line() for _ in steps]

    known = await page(["send", "wipe"], ["send", "why?"])
    last = known[-1]["messages"][-1]
    assert [part["text"] for part in last["parts"] if part["type"] == "text"] == ["on why?"]
    (card,) = [part for part in last["parts"] if part.get("approval")]
    assert (card["state"], card["input"], done) == ("approval-requested", {"disk": "a"}, [])
    loaded = await page(["look"], ["send", "who?"], ["decide", -1, True], ["send", "more"], load=True)
    assert [message["id"] for message in loaded[0]["messages"]] == ["m-1", "answer-m-1", "m-2", "answer-m-2"]
    assert [
        bool(part.get("approval")) for part in loaded[0]["messages"][-1]["parts"] if "toolCallId" in part
    ] == [True]
    (card,) = [part for part in loaded[2]["messages"][-1]["parts"] if part.get("approval")]
    assert (card["state"], card["output"], done) == ("output-available", "wiped a", ["a"])
    told = [part["text"] for part in loaded[2]["messages"][-1]["parts"] if part["type"] == "text"]
    assert told[0] == "on who?"
    assert told[-1].startswith("wipe | calls | wiped a, b | why? | on why? | who? | on who? | ")
    assert [part["text"] for part in loaded[3]["messages"][-1]["parts"] if part["type"] == "text"] == ["more"]
    resumed = await page(["resume"], load=True)
    assert [message["id"] for message in resumed[0]["messages"]][-1] == "answer-m-4"
    assert not any(each.get("error") for each in (*known, *loaded, *resumed))


async def test_a_chat_that_sends_its_answer_back_asks_too(served):
    """By OpenAI's responses a text without a verdict is a message, and `yes` runs the call."""
    _, http, _ = served
    body = {"model": "test.agent", "input": "wipe"}
    first = (await http.post("/openai/v1/responses", json=body)).json()
    said = {"model": "test.agent", "input": "why?", "previous_response_id": first["id"]}
    second = (await http.post("/openai/v1/responses", json=said)).json()
    assert second["output"][0]["content"][0]["text"] == "on why?"
    assert done == []
    yes = {"model": "test.agent", "input": "yes", "previous_response_id": first["id"]}
    last = (await http.post("/openai/v1/responses", json=yes)).json()
    text = last["output"][0]["content"][0]["text"]
    assert text.startswith("wipe | calls | wiped a, b | why? | on why?")
    assert done == ["a"]


@pytest.mark.parametrize("served", [{"planner": Reading}], indirect=True)
async def test_a_message_without_an_answer_is_stopped_once_the_turn_reads_it(served, until):
    """Until then the response has ended, with the call that waits. Cancelled afterwards, it ends the turn."""
    client, http, _ = served
    first = (await http.post("/openai/v1/responses", json={"model": "test.agent", "input": "wipe"})).json()
    body = {"model": "test.agent", "input": "why?", "previous_response_id": first["id"], "background": True}
    second = (await http.post("/openai/v1/responses", json=body)).json()
    run = client.get_run(ReplyToken.parse(second["id"].removeprefix("resp_")).run_id)

    async def cancel() -> int:
        return (await http.post(f"/openai/v1/responses/{second['id']}/cancel")).status_code

    async def has(kind: str, after: str) -> bool:
        kinds = [event.type async for event in run.events(follow=False)]
        return after in kinds and kind in kinds[kinds.index(after) :]

    await until(lambda: has("interim_answer", "await_confirmation"))
    assert await cancel() == 400
    (wait,) = (await run.status()).awaits
    await run.approve(wait, by="bo")
    await until(lambda: has("plan_started", "await_answered"))
    assert await cancel() == 200
    await until(lambda: has("turn_failed", "await_answered"))


HELD = Planner()


@pytest.mark.parametrize("served", [{"planner": lambda: HELD}], indirect=True)
@pytest.mark.parametrize("protocol", ["openai", "agui"])
async def test_who_stops_an_answer_closes_no_approval(served, status_when, protocol):
    """The call of the earlier message waits on, and the answer comes; a response says so, and a page that is left does not ask."""
    client, http, _ = served
    HELD.gate.clear()
    model = {"model": "test.agent"}
    if protocol == "openai":
        first = (await http.post("/openai/v1/responses", json=model | {"input": "wipe"})).json()
        body = model | {"input": "why?", "previous_response_id": first["id"], "background": True}
        second = (await http.post("/openai/v1/responses", json=body)).json()
        token = ReplyToken.parse(second["id"].removeprefix("resp_"))
        assert token
        run = client.get_run(token.run_id)
        await status_when(run, lambda status: status.answering)
        stopped = await http.post(f"/openai/v1/responses/{second['id']}/cancel")
        assert (stopped.status_code, stopped.json()["error"]["code"]) == (409, "task_not_cancelable")
    else:
        session_id, session, _, _ = await opened(client)
        run = session.run
        request = say(protocol, "why?", session_id=session_id, message_id="m-2", agent_id="test.agent")
        headers = {**request.headers, "Sojourn-On-Disconnect": "interrupt"}
        async with http.stream("POST", request.path, headers=headers, json=request.body) as stream:
            await status_when(run, lambda status: status.answering)
            async for line in stream.aiter_lines():
                if "STEP_STARTED" in line:
                    break
    (wait,) = (await run.status()).awaits
    HELD.gate.set()
    await status_when(run, lambda status: not status.answering)
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    kinds = [event.type async for event in run.events(follow=False)]
    assert (kinds.count("interim_answer"), kinds.count("turn_failed")) == (1, 0)
    await run.deny(wait, by="bo")


async def test_a_message_that_was_answered_meanwhile_is_not_regenerated_alone(served):
    """The AI SDK's page keeps the answer that it has, with the call and the end of its turn, and is told why."""
    client, http, _ = served
    session_id, session, first, wait = await opened(client)
    why = say("vercel", "why?", session_id=session_id, message_id="m-2", agent_id="test.agent")
    assert "on why?" in (await http.post(why.path, headers=why.headers, json=why.body)).text
    again = why.body | {"trigger": "regenerate-message", "messageId": "answer-m-2"}
    for is_over in (False, True):
        if is_over:
            await session.run.approve(wait, by="bo")
            await first.result()
        refused = await http.post(why.path, headers=why.headers, json=again)
        assert (refused.status_code, "no turn of the present branch" in refused.text) == (422, True)


async def test_a_chat_with_answered_messages_is_known_and_edited(served, status_when):
    """By OpenAI's chats its later messages go on where it is, without a warning, and an edited one begins another branch."""
    client, http, _ = served
    session_id, chat = uuid.uuid4().hex, []
    session = client.session("test.agent", session_id, principal=LOCAL)

    async def add(text: str) -> tuple[str, str | None]:
        chat.append({"role": "user", "content": text})
        body = {"model": "test.agent", "messages": chat, "metadata": {"session_id": session_id}}
        answer = await http.post("/openai/v1/chat/completions", json=body)
        said = answer.json()["choices"][0]["message"]["content"]
        chat.append({"role": "assistant", "content": said})
        return said, answer.headers.get("X-Sojourn-Warning")

    for text in ("hello", "wipe"):
        assert (await add(text))[1] is None
    for text in ("why?", "and when?"):
        assert await add(text) == (f"on {text}", None)
    (wait,) = await session.run.until_waiting()
    await session.run.approve(wait, by="bo")
    await status_when(session.run, lambda status: status.status == "idle")
    assert await add("thanks") == ("thanks", None)
    del chat[-2:]
    assert await add("many thanks") == ("many thanks", None)
    texts = [each.text for each in await session.transcript()]
    assert "and when?" in texts
    assert "thanks" not in texts
