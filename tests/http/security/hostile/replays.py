"""Requests that are sent again, are stale, or say that somebody else has sent them; on runs of the sender's own tenant."""

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from tests.http.security.hostile.world import Answer, Row, World, row

FORGED = {"by": "bo", "principal": {"subject": "bo", "tenant": "globex", "roles": ["operator"]}}
A2A = {"A2A-Version": "1.0"}


def forged(name: str, path: str, value: dict[str, Any], member: str) -> Row:
    """A row whose body says who sends it, which no body of ours does."""
    body = {**value, member: FORGED[member]}
    return row(f"forged {member}: {name}", "POST", path, 422, "invalid_request", body)


_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "start": ("/v1/runs", {"agent_id": "shop.clerk", "input": "hello"}),
    "answer": ("/v1/runs/$own/answers", {"await_id": "x", "answer": "y"}),
    "approval": ("/v1/runs/$own/approvals", {"await_id": "x", "approved": False}),
    "results": (
        "/v1/runs/$own/tool-results",
        {"await_id": "x", "results": [{"tool_call_id": "y", "result": 1}]},
    ),
    "pause": ("/v1/runs/$own/pause", {}),
    "resume": ("/v1/runs/$own/resume", {}),
    "cancel": ("/v1/runs/$own/cancel", {}),
    "set_aside": ("/v1/runs/$own/set-aside", {"what": 0}),
    "fork": ("/v1/runs/$own/fork", {}),
    "message": ("/v1/sessions/shop.clerk/x/messages", {"text": "hello"}),
    "session": ("/v1/sessions/shop.clerk/x", {"text": "hello"}),
    "withdraw": ("/v1/sessions/shop.clerk/x/withdraw", {"message_id": "m"}),
    "edit": ("/v1/sessions/shop.clerk/x/edit", {"message_id": "m"}),
    "switch": ("/v1/sessions/shop.clerk/x/switch", {"at": "0-000001-00000"}),
    "interrupt": ("/v1/sessions/shop.clerk/x/interrupt", {}),
    "close": ("/v1/sessions/shop.clerk/x/close", {}),
}

Step = Callable[[World], Awaitable[Answer]]


def story(name: str, status: int, code: str = "") -> Callable[[Step], Step]:
    """Make a row of a function, which returns the answer to its last request."""

    def add(step: Step) -> Step:
        _STORIES.append(Row(name, step, status, code))
        return step

    return add


_STORIES: list[Row] = []


async def _decide(world: World, run_id: str, wait: Any, **fields: Any) -> Answer:
    body = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"], **fields}
    return await world.send("POST", f"/v1/runs/{run_id}/approvals", body)


@story("an answer again", 200)
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("ask")
    body = {"await_id": wait["await_id"], "answer": "yes"}
    assert (await world.send("POST", f"/v1/runs/{run_id}/answers", body)).status == 200
    await world.ended(run_id)
    return await world.send("POST", f"/v1/runs/{run_id}/answers", body)


@story("an answer to a call", 422, "invalid_input")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await world.send(
        "POST", f"/v1/runs/{run_id}/answers", {"await_id": wait["await_id"], "answer": "yes"}
    )


@story("an approval of a question", 422, "invalid_input")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("ask")
    return await _decide(world, run_id, {**wait, "digest": "0" * 64})


@story("an approval again", 200)
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    assert (await _decide(world, run_id, wait)).status == 200
    await world.ended(run_id)
    return await _decide(world, run_id, wait)


@story("a denial after an approval", 409, "already_answered")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    assert (await _decide(world, run_id, wait)).status == 200
    return await _decide(world, run_id, wait, approved=False)


@story("an approval of one run at another one", 409, "unknown_wait")
async def _(world: World) -> Answer:
    _, wait = await world.waiting("wipe")
    run_id, _ = await world.waiting("wipe")
    return await _decide(world, run_id, wait)


@story("a stale digest", 409, "stale_digest")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, digest="0" * 64)


@story("a digest in other letters", 409, "stale_digest")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, digest=wait["digest"].upper())


@story("the beginning of a digest", 409, "stale_digest")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, digest=wait["digest"][:12])


@story("a denial with a stale digest", 409, "stale_digest")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, approved=False, digest="0" * 64)


@story("an approval without a digest", 422, "invalid_request")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, digest=None)


@story("an approval that is no truth value", 422, "invalid_request")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("wipe")
    return await _decide(world, run_id, wait, approved=["true"])


@story("results again", 200)
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("weigh")
    results = [{"tool_call_id": wait["calls"][0]["tool_call_id"], "result": 1.5}]
    body = {"await_id": wait["await_id"], "results": results}
    assert (await world.send("POST", f"/v1/runs/{run_id}/tool-results", body)).status == 200
    await world.ended(run_id)
    return await world.send("POST", f"/v1/runs/{run_id}/tool-results", body)


@story("other results after the first", 409, "already_answered")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("weigh")
    result = {"tool_call_id": wait["calls"][0]["tool_call_id"], "result": 1.5}
    body = {"await_id": wait["await_id"], "results": [result]}
    assert (await world.send("POST", f"/v1/runs/{run_id}/tool-results", body)).status == 200
    await world.ended(run_id)
    body["results"] = [{**result, "result": 2.5}]
    return await world.send("POST", f"/v1/runs/{run_id}/tool-results", body)


@story("results of another tenant's call", 422, "invalid_input")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("weigh")
    body = {"await_id": wait["await_id"], "results": [{"tool_call_id": "$external_call", "result": 1.5}]}
    return await world.send("POST", f"/v1/runs/{run_id}/tool-results", body)


@story("results of 400 digits", 422, "invalid_request")
async def _(world: World) -> Answer:
    run_id, wait = await world.waiting("weigh")
    call_id = wait["calls"][0]["tool_call_id"]
    body = f'{{"await_id": "{wait["await_id"]}", "results": [{{"tool_call_id": "{call_id}", "result": {"9" * 400}}}]}}'
    return await world.send("POST", f"/v1/runs/{run_id}/tool-results", body=body.encode())


@story("a message again, with another text", 409, "message_edited")
async def _(world: World) -> Answer:
    """It is delivered once; what is sent under its id again gets its answer only if it is the same."""
    path, id = f"/v1/sessions/shop.clerk/{uuid.uuid4().hex}/messages", uuid.uuid4().hex
    first = {"text": "hello", "message_id": id}
    sent = await world.send("POST", path, first, query={"wait": "20"})
    again = await world.send("POST", path, first, query={"wait": "20"})
    assert again.value["output"]["final"] == sent.value["output"]["final"]
    other = await world.send("POST", path, {**first, "text": "other"}, query={"wait": "20"})
    events = await world.events_of(sent.value["run_id"])
    assert len([each for each in events if each.type == "message_received"]) == 1
    return other


@story("a start again", 200)
async def _(world: World) -> Answer:
    body, headers = {"agent_id": "shop.clerk", "input": "hello"}, {"Idempotency-Key": uuid.uuid4().hex}
    first = await world.send("POST", "/v1/runs", body, headers=headers)
    again = await world.send("POST", "/v1/runs", body, headers=headers)
    assert again.value == first.value
    return again


@story("another start with the same key", 409, "idempotency_key_reused")
async def _(world: World) -> Answer:
    body, headers = {"agent_id": "shop.clerk", "input": "hello"}, {"Idempotency-Key": uuid.uuid4().hex}
    assert (await world.send("POST", "/v1/runs", body, headers=headers)).status == 201
    return await world.send("POST", "/v1/runs", {**body, "input": "other"}, headers=headers)


@story("a colleague's start with the same key", 200)
async def _(world: World) -> Answer:
    """Keys are the tenant's: the run is the one that was started first, for whoever has started it."""
    body, headers = {"agent_id": "shop.clerk", "input": "hello"}, {"Idempotency-Key": uuid.uuid4().hex}
    assert (await world.send("POST", "/v1/runs", body, headers=headers)).status == 201
    return await world.send("POST", "/v1/runs", body, headers=headers, who="una")


@story("the key of another tenant's run", 201)
async def _(world: World) -> Answer:
    body = {"agent_id": "shop.clerk", "input": "hello"}
    answer = await world.send("POST", "/v1/runs", body, headers={"Idempotency-Key": "$key-2"})
    assert answer.value["run_id"] == world.filled("acme-$mark=$key-2")
    return answer


@story("a cancellation of what has ended", 409, "run_ended")
async def _(world: World) -> Answer:
    run_id = await world.start("hello")
    await world.send("GET", f"/v1/runs/{run_id}/output", query={"wait": "20"})
    return await world.send("POST", f"/v1/runs/{run_id}/cancel", {})


@story("a fork under another tenant's id", 422, "invalid_input")
async def _(world: World) -> Answer:
    run_id = await world.start("hello")
    await world.send("GET", f"/v1/runs/{run_id}/output", query={"wait": "20"})
    return await world.send("POST", f"/v1/runs/{run_id}/fork", {"run_id": "$run"})


def _thread(**more: Any) -> dict[str, Any]:
    message = {"id": "m-1", "role": "user", "content": "wipe", **FORGED}
    return {"threadId": uuid.uuid4().hex, "runId": "r", "messages": [message], **FORGED, **more}


async def _resume(world: World, thread: dict[str, Any], payload: Any, who: str = "ana") -> Answer:
    status = await world.send("GET", f"/v1/sessions/shop.clerk/{thread['threadId']}")
    (wait,) = status.value["awaits"] or [None]
    thread.setdefault("interrupt", wait and f"{wait['await_id']}#{wait['digest']}")
    resume = [{"interruptId": thread["interrupt"], "status": "resolved", "payload": payload}]
    return await world.send("POST", "/agui/shop.clerk", {**thread, "messages": [], "resume": resume}, who=who)


@story("forged by: agui", 200)
async def _(world: World) -> Answer:
    """Who has sent the message, and who has approved, is who asked."""
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    answer = await _resume(world, thread, {"approved": True})
    run_id = world.filled(f"shop.clerk:acme-$mark@{thread['threadId']}")
    events = [
        each for each in await world.events_of(run_id) if each.type in ("message_received", "await_answered")
    ]
    assert [each.by for each in events] == [world.filled("ana-$mark")] * 2
    return answer


@story("agui: an approval in the name of another", 422, "invalid_input")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, thread, {"approved": True, **FORGED})


@story("agui: an approval by a user", 403, "forbidden")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, thread, {"approved": True}, who="una")


@story("agui: an approval that is no truth value", 422, "invalid_input")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, thread, {"approved": "true"})


@story("agui: arguments that were changed", 422, "invalid_input")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, thread, {"approved": True, "edited_action": {"disk": "b"}})


@story("agui: edited arguments that do not fit the tool", 422, "invalid_input")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, thread, {"approved": True, "editedArgs": {"disk": ["b"], "as": "root"}})


@story("agui: an approval of a call that was never asked about", 409, "unknown_wait")
async def _(world: World) -> Answer:
    thread = _thread()
    assert (await world.send("POST", "/agui/shop.clerk", thread)).status == 200
    return await _resume(world, {**thread, "interrupt": "confirm-x#" + "0" * 64}, {"approved": True})


async def _task(world: World) -> str:
    message = {"role": "ROLE_USER", "messageId": uuid.uuid4().hex, "parts": [{"text": "wipe"}], **FORGED}
    answer = await _rpc(world, message)
    return answer.value["result"]["task"]["id"]


async def _rpc(world: World, message: dict[str, Any], who: str = "ana") -> Answer:
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return await world.send("POST", "/a2a/shop.clerk", request, headers=A2A, who=who)


def _seen(name: str, data: Any) -> None:
    """A story of a decision by A2A that does not name the call."""

    @story(f"a2a: {name}", 200, "stale_digest")
    async def _(world: World) -> Answer:
        message = {"role": "ROLE_USER", "messageId": "m-2", "taskId": await _task(world), "parts": [data]}
        return await _rpc(world, message)


_seen("yes, without the call", {"text": "yes"})
_seen("yes, to another call", {"text": "yes 000000000000"})
_seen("a digest that is a number", {"data": {"approved": True, "digest": 7}})
_seen("a digest that is null", {"data": {"approved": True, "digest": None}})
_seen("a digest that is a list", {"data": {"approved": True, "digest": ["x"]}})
_seen("a digest that is an object", {"data": {"approved": True, "digest": {"a": 1}}})
_seen("no digest", {"data": {"approved": True}})

REPLAYS = [
    *(forged(name, path, value, member) for name, (path, value) in _BODIES.items() for member in FORGED),
    *_STORIES,
    row("an empty Idempotency-Key", "POST", "/v1/runs", 422, "invalid_input", _BODIES["start"][1], headers={"Idempotency-Key": '""'}),
    row("an Idempotency-Key of another tenant", "POST", "/v1/runs", 422, "invalid_input", _BODIES["start"][1], headers={"Idempotency-Key": "$run"}),
    row("an Idempotency-Key of a conversation", "POST", "/v1/runs", 422, "invalid_input", _BODIES["start"][1], headers={"Idempotency-Key": "$talking"}),
    row("an Idempotency-Key of 301 characters", "POST", "/v1/runs", 422, "invalid_request", _BODIES["start"][1], headers={"Idempotency-Key": "x" * 301}),
    row("an Idempotency-Key and another run_id", "POST", "/v1/runs", 422, "invalid_input", {**_BODIES["start"][1], "run_id": "a"}, headers={"Idempotency-Key": "b"}),
]  # fmt: skip
"""The rows."""
