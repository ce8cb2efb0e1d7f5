"""The genuine client of A2A, against an agent on a real worker."""

import asyncio
import json
import re
import socket
import uuid

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError

from sojourn.asgi import create_app
from sojourn.http.protocols.a2a import endpoint
from tests.http.conftest import listening


class Peer:
    """A client of the clerk."""

    def __init__(self, client):
        self.client = client

    async def send(self, text, **fields):
        """Send a message; return what comes."""
        fields.setdefault("message_id", uuid.uuid4().hex)
        message = Message(role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
        return [event async for event in self.client.send_message(SendMessageRequest(message=message))]

    async def task(self, task_id):
        """Look at a task."""
        return await self.client.get_task(GetTaskRequest(id=task_id))


async def peer_of(url, http, *, streaming=False):
    """A client of the clerk, by its card."""
    card = await A2ACardResolver(http, f"{url}/a2a/shop.clerk").get_agent_card()
    return Peer(ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card))


@pytest.fixture
async def http():
    """An HTTP client."""
    async with httpx.AsyncClient(timeout=60) as found:
        yield found


def streaming(text):
    """A request of a stream, as a client sends it."""
    message = {"role": "ROLE_USER", "parts": [{"text": text}], "messageId": uuid.uuid4().hex}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}


def code_in(text):
    """The code that a prompt shows."""
    return re.findall(r"`yes ([0-9a-f]{12})`", text)[0]


def text_of(task):
    """The answer of a task."""
    return next(each.parts[0].text for each in task.artifacts if each.artifact_id == "answer")


async def test_a_message_is_a_task_with_its_answer(served, http):
    """The card leads to the agent, and a message is answered with a task that has ended."""
    peer = await peer_of(served.url, http)
    (event,) = await peer.send("measure")
    assert event.task.status.state == TaskState.TASK_STATE_COMPLETED
    assert text_of(event.task) == "measured"
    assert [each.name for each in event.task.artifacts] == ["answer", "curve"]
    found = (await peer.task(event.task.id)).artifacts[1]
    assert list(found.parts[0].data.list_value) == list(event.task.artifacts[1].parts[0].data.list_value)
    assert list(found.parts[0].data.list_value)[:3] == [0, 1, 2]
    (failed,) = await peer.send("fail", context_id=event.task.context_id)
    assert failed.task.status.state == TaskState.TASK_STATE_FAILED
    assert "the shop is closed" in failed.task.status.message.parts[0].text


async def test_a_stream_has_live_text_and_ends_with_the_task(served, http, shop):
    """A stream has the task, the answer as it is written, once, and the end."""
    shop.gate.set()
    peer = await peer_of(served.url, http, streaming=True)
    events = await peer.send("talk")
    assert events[0].WhichOneof("payload") == "task"
    pieces = [each.artifact_update for each in events if each.WhichOneof("payload") == "artifact_update"]
    assert {each.artifact.artifact_id for each in pieces} == {"answer"}
    assert "".join(each.artifact.parts[0].text for each in pieces) == "The site is dark."
    assert [each.append for each in pieces] == [False, *[True] * (len(pieces) - 1)]
    assert pieces[-1].last_chunk
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_a_question_is_answered_by_a_message_to_the_task(served, http, shop):
    """A task that needs input gets it by a message, at another process, and sent again it is the same task."""
    peer = await peer_of(served.url, http)
    async with listening(create_app(shop.app, client=served.client)) as url:
        other = await peer_of(url, http)
        first = {"message_id": uuid.uuid4().hex, "context_id": uuid.uuid4().hex}
        (asked,) = await peer.send("ask", **first)
        assert asked.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        assert asked.task.status.message.parts[0].text == "Which one?"
        (again,) = await other.send("ask", **first)
        assert again.task.context_id == asked.task.context_id == first["context_id"]
        (done,) = await other.send("this", task_id=asked.task.id, context_id=asked.task.context_id)
    assert done.task.id == asked.task.id
    assert text_of(done.task) == "this"
    assert text_of(await peer.task(asked.task.id)) == "this"


@pytest.mark.parametrize("key", ["nobody", "ana@acme"])
async def test_the_answer_names_the_context_of_the_conversation(served, shop, principals, key):
    """A message without a context begins one, whose id the answer has, the same when it is sent again, and which goes on."""
    auth = {"auth": principals} if "@" in key else {}
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        listening(create_app(shop.app, client=served.client, **auth)) as url,
        httpx.AsyncClient(timeout=60, headers=headers) as http,
    ):
        peer = await peer_of(url, http)
        first = {"message_id": uuid.uuid4().hex}
        answers = [(await peer.send("hello", **first))[0].task for _ in range(2)]
        contexts = [*(each.context_id for each in answers), (await peer.task(answers[0].id)).context_id]
        (next_one,) = await peer.send("again", context_id=contexts[0])
    assert {*contexts, next_one.task.context_id} == {contexts[0]}
    assert answers[0].metadata["runId"] == next_one.task.metadata["runId"]
    assert (await served.client.get_run(next_one.task.metadata["runId"]).status()).turns == 2


async def test_a_call_is_approved_as_it_was_seen(served, http):
    """An approval names the call that was shown, by the code that the prompt asks for and nothing else; a plain yes is refused."""
    peer = await peer_of(served.url, http)
    (asked,) = await peer.send("wipe")
    text = asked.task.status.message.parts[0].text
    assert re.findall(r"`(yes.*?)`", text) == [f"yes {code_in(text)}"]
    place = {"task_id": asked.task.id, "context_id": asked.task.context_id}
    for said in ("yes", "ok", "Approve.", "yes 0123456789ab"):
        with pytest.raises(Exception, match="names the call"):
            await peer.send(said, **place)
    (done,) = await peer.send(f"yes {code_in(text)}", **place)
    assert text_of(done.task) == "wiped a"


async def test_a_message_beside_an_open_approval_is_a_task_of_its_own(served, http):
    """A message to the context of a call that waits is not lost: its task works, and has its answer after the decision."""
    peer = await peer_of(served.url, http)
    (asked,) = await peer.send("wipe")
    message = {
        "role": "ROLE_USER",
        "messageId": "beside",
        "contextId": asked.task.context_id,
        "parts": [{"text": "hello"}],
    }
    params = {"message": message, "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    for _ in range(2):  # sent again, it is the same task
        task = (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_WORKING"
        assert task["id"] != asked.task.id
    place = {"task_id": asked.task.id, "context_id": asked.task.context_id}
    (done,) = await peer.send(f"yes {code_in(asked.task.status.message.parts[0].text)}", **place)
    assert text_of(done.task) == "wiped a"
    while (found := await peer.task(task["id"])).status.state == TaskState.TASK_STATE_WORKING:
        await asyncio.sleep(0.05)
    assert text_of(found) == "hello"


async def test_a_denial_is_none_the_less_for_its_reason(served, http):
    """What data denies is denied, whatever its reason says; malformed data, and data with other arguments, decides nothing."""
    peer = await peer_of(served.url, http)
    (asked,) = await peer.send("wipe")
    call = asked.task.status.message.parts[1].data.struct_value
    data = {"await_id": call["await_id"], "approved": False, "reason": "yes"}
    message = {"role": "ROLE_USER", "messageId": uuid.uuid4().hex, "taskId": asked.task.id}

    async def sent(**more):
        asking = {"message": {**message, "parts": [{"data": data | more}]}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": asking}
        return (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()

    refused = await sent(approved=True, digest=call["digest"], payload={"disk": "b"})
    assert "no field 'payload'" in refused["error"]["message"]
    for malformed in ({"approved": "true"}, {"approved": "false"}, {"approved": None}, {"reason": 5}):
        assert '{"approved": true}' in (await sent(**malformed))["error"]["message"]
    data = {"await_id": call["await_id"]}
    assert "not empty" in (await sent())["error"]["message"]
    data |= {"approved": False, "reason": "yes"}
    await sent()
    assert text_of(await peer.task(asked.task.id)) == "None"


async def test_an_approval_that_is_sent_again_approves_nothing_else(served, http):
    """An answer that names its wait is that wait's: sent again it gets the task as it is, another one is refused, and an equal call is asked about."""
    peer = await peer_of(served.url, http)
    (asked,) = await peer.send("twice")
    call = dict(asked.task.status.message.parts[1].data.struct_value)
    decided = {"await_id": call["await_id"], "approved": True, "digest": call["digest"]}

    async def send(**data) -> dict:
        message = {
            "role": "ROLE_USER",
            "messageId": "m-1",
            "taskId": asked.task.id,
            "parts": [{"data": data}],
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        return (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()

    first, again = await send(**decided), await send(**decided)
    for reply in (first, again):
        task = reply["result"]["task"]
        (second,) = [part["data"] for part in task["status"]["message"]["parts"] if "data" in part]
        assert (second["digest"], second["await_id"] == call["await_id"]) == (call["digest"], False)
    assert "error" in await send(await_id=call["await_id"], approved=False)
    assert "error" in await send(await_id="nobody", approved=True, digest=call["digest"])
    done = await send(**{**decided, "await_id": second["await_id"]})
    assert done["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_task_is_followed_again_and_cancelled(served, http):
    """A client that comes back follows the task to its end, which is its cancellation."""
    peer = await peer_of(served.url, http, streaming=True)
    message = Message(role=Role.ROLE_USER, parts=[Part(text="hang")], message_id=uuid.uuid4().hex)
    stream = peer.client.send_message(SendMessageRequest(message=message))
    task = (await anext(stream)).task
    await stream.aclose()
    back = peer.client.subscribe(SubscribeToTaskRequest(id=task.id))
    assert (await anext(back)).task.status.state == TaskState.TASK_STATE_WORKING
    canceled = await peer.client.cancel_task(CancelTaskRequest(id=task.id))
    assert canceled.status.state == TaskState.TASK_STATE_CANCELED
    rest = [event async for event in back]
    assert rest[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED


async def test_a_task_that_has_ended_is_not_cancelled(served, http):
    """A cancellation of what is completed or cancelled is refused with the code of the protocol, and says which it is."""
    peer = await peer_of(served.url, http)
    (done,) = await peer.send("hello")
    (asked,) = await peer.send("ask")
    await peer.client.cancel_task(CancelTaskRequest(id=asked.task.id))
    for task, state in ((done.task, "completed"), (asked.task, "canceled")):
        body = {"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task.id}}
        error = (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()["error"]
        assert (error["code"], state in error["message"]) == (-32002, True)
        with pytest.raises(TaskNotCancelableError):
            await peer.client.cancel_task(CancelTaskRequest(id=task.id))


async def test_errors_and_times_are_those_of_the_protocol(served, http):
    """Another version, another type of body and a subscription to what has ended have the protocol's codes, errors their ErrorInfo, and times a Z."""
    peer = await peer_of(served.url, http)
    (done,) = await peer.send("hello")
    url = f"{served.url}/a2a/shop.clerk/"

    async def asked(method: str, params: dict, **headers: str) -> dict:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await http.post(url, json=body, headers=headers)).json()

    task = (await asked("GetTask", {"id": done.task.id}, **{"A2A-Version": "1.0"}))["result"]
    assert task["status"]["timestamp"].endswith("Z")
    missing = (await asked("GetTask", {"id": "nobody"}))["error"]
    assert (missing["code"], missing["data"][0]["reason"]) == (-32001, "TASK_NOT_FOUND")
    for method in ("SubscribeToTask", "CancelTask"):
        assert (await asked(method, {"id": "nobody"}))["error"] == missing
    again = (await asked("SubscribeToTask", {"id": done.task.id}))["error"]
    assert (again["code"], "completed" in again["message"]) == (-32004, True)
    newer = (await asked("GetTask", {"id": done.task.id}, **{"A2A-Version": "99.0"}))["error"]
    assert newer["code"] == -32009
    (info,) = newer["data"]
    assert (info["@type"], info["reason"]) == (
        "type.googleapis.com/google.rpc.ErrorInfo",
        "VERSION_NOT_SUPPORTED",
    )
    text = await http.post(url, content=b"{}", headers={"Content-Type": "text/plain"})
    assert text.json()["error"]["code"] == -32005


async def test_a_task_has_its_messages(served, http):
    """The history is what opened the task and what was asked and answered, in order, as many of the newest as the client wants."""
    peer = await peer_of(served.url, http)
    first = {"message_id": uuid.uuid4().hex}
    (asked,) = await peer.send("ask", **first)
    assert [each.parts[0].text for each in asked.task.history] == ["ask"]
    (done,) = await peer.send("this", task_id=asked.task.id, context_id=asked.task.context_id)
    assert [each.parts[0].text for each in done.task.history] == ["ask", "Which one?", "this"]
    assert [each.role for each in done.task.history] == [Role.ROLE_USER, Role.ROLE_AGENT, Role.ROLE_USER]
    assert done.task.history[0].message_id == first["message_id"]
    assert done.task.metadata["runId"].startswith("shop.clerk@")
    for name, length, texts in (
        ("historyLength", 0, []),
        ("historyLength", 2, ["Which one?", "this"]),
        ("history_length", 1, ["this"]),
        ("historyLength", 9, ["ask", "Which one?", "this"]),
    ):
        params = {"id": done.task.id, name: length}
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params}
        found = (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()["result"]
        assert [each["parts"][0]["text"] for each in found.get("history", [])] == texts
    body = streaming("hello") | {"method": "SendMessage"}
    body["params"]["configuration"] = {"historyLength": 0}
    told = (await http.post(f"{served.url}/a2a/shop.clerk/", json=body)).json()["result"]["task"]
    assert "history" not in told


async def test_a_subscription_goes_on_after_a_question(served, http):
    """A subscriber of a task that asks is there until the task has ended."""
    peer = await peer_of(served.url, http, streaming=True)
    *_, asked = await peer.send("ask")
    assert asked.status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    task_id, context_id = asked.status_update.task_id, asked.status_update.context_id
    back = peer.client.subscribe(SubscribeToTaskRequest(id=task_id))
    first = await anext(back)
    assert first.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    await peer.send("this", task_id=task_id, context_id=context_id)
    states = [each.status_update.status.state async for each in back if each.HasField("status_update")]
    assert states[-1] == TaskState.TASK_STATE_COMPLETED
    assert set(states[:-1]) <= {TaskState.TASK_STATE_WORKING}


async def test_a_stream_has_comments_while_nothing_happens(served, http, monkeypatch):
    """While an agent is silent a stream has a comment now and then, between its events, which its client passes over."""
    monkeypatch.setattr(endpoint, "HEARTBEAT", 0.1)
    peer = await peer_of(served.url, http, streaming=True)
    async with http.stream("POST", f"{served.url}/a2a/shop.clerk/", json=streaming("hang")) as answer:
        lines = answer.aiter_lines()
        first = json.loads((await anext(lines)).removeprefix("data: "))
        assert await anext(lines) == ""
        assert [await anext(lines) for _ in range(4)] == [": heartbeat", "", ": heartbeat", ""]
        back = peer.client.subscribe(SubscribeToTaskRequest(id=first["result"]["task"]["id"]))
        await anext(back)
        await asyncio.sleep(0.3)
        await peer.client.cancel_task(CancelTaskRequest(id=first["result"]["task"]["id"]))
        rest = [line async for line in lines]
    assert rest[-2].startswith("data: ")
    assert "TASK_STATE_CANCELED" in rest[-2]
    assert [event async for event in back][-1].status_update.status.state == TaskState.TASK_STATE_CANCELED


async def test_a_client_that_takes_nothing_is_dropped(served, shop, monkeypatch):
    """A stream whose client takes nothing ends after a while, and nothing is followed for it any more."""
    monkeypatch.setattr(endpoint, "STALL", 0.5)
    monkeypatch.setattr(endpoint, "HEARTBEAT", 0.0005)
    web = create_app(shop.app, client=served.client)
    metrics = web.state.service.metrics
    body = json.dumps(streaming("hang")).encode()
    head = f"POST /a2a/shop.clerk/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    with socket.socket() as deaf:
        async with listening(web, buffer=1) as url, asyncio.timeout(60):
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.setblocking(False)
            await loop.sock_connect(deaf, ("127.0.0.1", httpx.URL(url).port))
            await loop.sock_sendall(deaf, head.encode() + body)
            while not metrics.streams:
                await asyncio.sleep(0.01)
            while metrics.streams:
                await asyncio.sleep(0.05)


async def test_a_task_of_another_tenant_does_not_exist(served, shop, principals):
    """Another tenant finds, answers and cancels nothing."""
    async with listening(create_app(shop.app, client=served.client, auth=principals)) as url:

        def of(key):
            return httpx.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {key}"})

        async with of("ana@acme") as ana_http, of("eve@globex") as eve_http, httpx.AsyncClient() as nobody:
            ana, eve = await peer_of(url, ana_http), await peer_of(url, eve_http)
            (asked,) = await ana.send("ask")
            foreign = asked.task.id
            for tried in (
                lambda: eve.task(foreign),
                lambda: eve.send("this", task_id=foreign),
                lambda: eve.client.cancel_task(CancelTaskRequest(id=foreign)),
            ):
                with pytest.raises(Exception, match=r"not found|there is no"):
                    await tried()
            following = await peer_of(url, eve_http, streaming=True)
            with pytest.raises(Exception, match="there is no"):
                await following.send("this", task_id=foreign)
            assert (await ana.task(asked.task.id)).status.state == TaskState.TASK_STATE_INPUT_REQUIRED
            assert (await nobody.post(f"{url}/a2a/shop.clerk/", json={})).status_code == 401


async def test_what_is_not_there_is_refused_with_the_code_of_the_protocol(served, http):
    """Lists are not supported, nor are push notifications, which the card says; another method is no request of the protocol."""
    answer = await http.get(f"{served.url}/a2a/shop.clerk/.well-known/agent-card.json")
    assert (answer.headers["cache-control"], answer.headers["etag"][0]) == ("private, max-age=60", '"')
    card = answer.json()
    assert (card["capabilities"]["streaming"], card["capabilities"]["pushNotifications"]) == (True, False)
    for method, params, code in (
        ("ListTasks", {}, -32004),
        ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://example.org"}, -32003),
        ("tasks/pushNotification/set", {"taskId": "t", "url": "https://example.org"}, -32003),
        ("ListTaskPushNotificationConfigs", {"taskId": "t"}, -32003),
        ("DoAnything", {}, -32600),
    ):
        asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = (await http.post(f"{served.url}/a2a/shop.clerk/", json=asked)).json()
        assert (answer["id"], answer["error"]["code"]) == (7, code), answer
        assert answer["error"]["data"][0]["@type"].endswith("google.rpc.ErrorInfo")
