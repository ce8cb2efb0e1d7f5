"""Who may decide on a call whose tool names its approvers: at every door the same people, and each decision carries who made it."""

import json
import uuid
from typing import Any

import pytest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    ApprovalRule,
    AwaitClarification,
    AwaitConfirmation,
    PlanResult,
    Principal,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import say

pay_tools = Toolset("desk.payments")
PAID: list[tuple[str, ToolCallMeta]] = []


@pay_tools.tool(approvers=["finance"], four_eyes=True)
async def pay(meta: ToolCallMeta, session: str) -> str:
    """Pay."""
    PAID.append((session, meta))
    return f"paid {session}"


@pay_tools.tool(approvers=["finance"])
async def refund(session: str) -> str:
    """Refund."""
    return f"refunded {session}"


def is_kim(principal: Principal, call: ToolRequest, wait: AwaitConfirmation) -> bool:
    """Kim alone."""
    return principal.subject == "kim"


@pay_tools.tool(approvers=is_kim)
async def open_safe(session: str) -> str:
    """Open the safe."""
    return f"opened for {session}"


async def plan_safe(turn: Turn) -> PlanResult:
    """Open the safe once, then say so."""
    if turn.results:
        return PlanResult.final(str(turn.results[-1].result or turn.results[-1].error))
    return PlanResult.calls(open_safe.call(session=turn.messages[-1].text))


async def plan_asked(turn: Turn) -> PlanResult:
    """Ask for what, and pay once."""
    if turn.results:
        return PlanResult.final(str(turn.results[-1].result or turn.results[-1].error))
    said = [message.text for message in turn.messages if message.role == "user"]
    if len(said) == 1:
        return PlanResult.ask(AwaitClarification(question="For which session?"))
    return PlanResult.calls(pay.call(session=said[-1]))


GUARDED = ApprovalPolicy(rules=[ApprovalRule(tools=["desk.payments.open_safe"], approvers=["guard"])])


async def plan(turn: Turn) -> PlanResult:
    """Pay once, then say so."""
    if turn.results:
        return PlanResult.final(str(turn.results[-1].result or turn.results[-1].error))
    return PlanResult.calls(pay.call(session=turn.messages[-1].text))


async def plan_refund(turn: Turn) -> PlanResult:
    """Refund once, then say so."""
    if turn.results:
        return PlanResult.final(str(turn.results[-1].result or turn.results[-1].error))
    return PlanResult.calls(refund.call(session=turn.messages[-1].text))


app = App(
    agents=[
        Agent(
            "desk.safe",
            planner=plan_safe,
            uses=[pay_tools],
            policy=RunPolicy(interrupts_allowed=True, approval=GUARDED),
            visibility="subject",
        ),
        Agent(
            "desk.refunder", planner=plan_refund, uses=[pay_tools], policy=RunPolicy(interrupts_allowed=True)
        ),
        Agent("desk.asker", planner=plan_asked, uses=[pay_tools], policy=RunPolicy(interrupts_allowed=True)),
        Agent("desk.clerk", planner=plan, uses=[pay_tools], policy=RunPolicy(interrupts_allowed=True)),
        Agent(
            "desk.pair",
            planner=plan_refund,
            uses=[pay_tools],
            policy=RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(approvals=2)),
        ),
    ]
)

ANA = "ana@acme+finance"
"""Who asks: a user, who is of finance too."""

WRONG = ("zed@acme", "vi@acme-user", "op@acme+operator", "al@acme+approver", "fin@globex+finance", ANA)
"""A user, a viewer, an operator, an approver of other calls, finance of another tenant, and whoever asked."""

RIGHT = "fin@acme+finance"


@pytest.fixture
async def post(serve, principals):
    """Send a request as somebody; returns the answer."""
    client = await serve(app)
    async with (
        listening(create_app(app, client=client, auth=principals)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):

        async def sent(who: str, path: str, body: Any, headers: Any = None, *, form: bool = False) -> Any:
            of = {"Authorization": f"Bearer {who}", "Origin": url, **(headers or {})}
            more = {"data": body} if form else {"json": body}
            return await http.post(path, headers=of, **more)

        sent.http, sent.client = http, client
        yield sent


def of_desk(
    kind: str, text: str, session: str, agent: str = "clerk", *, message_id: str = ""
) -> tuple[str, Any, Any]:
    """A request of one kind to the desk."""
    _, path, headers, body = say(
        kind, text, session_id=session, message_id=message_id, agent_id=f"desk.{agent}"
    )
    return path, headers, body


async def the_wait(post: Any, session: str) -> Any:
    """The wait of a session's conversation, as the inbox has it for who may decide."""
    got = await post.http.get("/v1/waits", headers={"Authorization": f"Bearer {RIGHT}"})
    return next(wait for wait in got.json()["waits"] if wait["session_id"] == session)


async def by_http(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve over the API."""
    wait = await the_wait(post, session) if asked is None else asked
    body = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    return await post(who, f"/v1/runs/{wait['run_id']}/approvals", body)


async def by_console(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve on the page of the inbox."""
    wait = await the_wait(post, session) if asked is None else asked
    body = {"do": "approve", "digest": wait["digest"]}
    return await post(who, f"/inbox/{wait['run_id']}/{wait['await_id']}", body, form=True)


async def by_agui(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve as a page of AG-UI."""
    path, headers, body = of_desk("agui", session, session, message_id="m-0")
    if asked is None:
        told = (await post(ANA, path, body, headers)).text
        last = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")][-1]
        (asked,) = last["outcome"]["interrupts"]
        return asked
    answer = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    return await post(who, path, {**body, "resume": [answer]}, headers)


async def by_openai(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve by a yes to a response."""
    if asked is None:
        path, _, body = of_desk("response", session, session)
        return (await post(ANA, path, body)).json()
    body = {"model": "desk.clerk", "input": "yes", "previous_response_id": asked["id"]}
    return await post(who, "/openai/v1/responses", body)


async def by_a2a(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve by a message to a task."""
    if asked is None:
        path, headers, body = of_desk("a2a", session, session)
        return (await post(ANA, path, body, headers)).json()["result"]["task"]
    code = asked["status"]["message"]["parts"][0]["text"].partition("`yes ")[2][:12]
    path, headers, body = of_desk("a2a", f"yes {code}", session)
    body["params"]["message"]["taskId"] = asked["id"]
    return await post(who, path, body, headers)


async def by_mcp(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve by the form of an elicitation."""
    path, headers, body = of_desk("mcp of 2026", session, session)
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    if asked is None:
        text = (await post(ANA, path, body, headers)).text
        last = [
            line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("{", "data: {"))
        ]
        return json.loads(last[-1])["result"]
    (key,) = asked["inputRequests"]
    form = {"action": "accept", "content": {"decision": "approve"}}
    body["params"] |= {"requestState": asked["requestState"], "inputResponses": {key: form}}
    return await post(who, path, body, headers)


async def by_ai_sdk(post: Any, who: str, session: str, asked: Any) -> Any:
    """Approve as a page of the AI SDK, by the part that its `addToolApprovalResponse` makes."""
    path, headers, body = of_desk("vercel", session, session, message_id="m-0")
    if asked is None:
        told = (await post(ANA, path, body, headers)).text
        chunks = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
        (call,) = [each for each in chunks if each["type"] == "tool-input-available"]
        (request,) = [each for each in chunks if each["type"] == "tool-approval-request"]
        return {**call, **request}
    part = {
        "type": f"tool-{asked['toolName']}",
        "toolCallId": asked["toolCallId"],
        "state": "approval-responded",
        "input": asked["input"],
        "approval": {"id": asked["approvalId"], "approved": True},
    }
    assistant = {"id": "answer-m-0", "role": "assistant", "parts": [part]}
    return await post(who, path, {**body, "messages": [*body["messages"], assistant]}, headers)


async def first_of_api(post: Any, session: str) -> Any:
    """Send the message over the API; returns the wait once it is open."""
    await post(ANA, f"/v1/sessions/desk.clerk/{session}/messages?wait=60", {"text": session})
    return await the_wait(post, session)


DOORS = {
    "http": by_http,
    "console": by_console,
    "agui": by_agui,
    "ai sdk": by_ai_sdk,
    "openai": by_openai,
    "a2a": by_a2a,
    "mcp": by_mcp,
}


@pytest.mark.parametrize("door", DOORS)
async def test_nobody_but_the_approver_decides_and_the_decision_is_theirs(post, door):
    """A user, a viewer, an operator, an approver of other calls, another tenant and the asker approve nothing; finance does, once."""
    session, decide = uuid.uuid4().hex, DOORS[door]
    in_api = door in ("http", "console")
    asked = await first_of_api(post, session) if in_api else await decide(post, ANA, session, None)
    for who in WRONG:
        answer = await decide(post, who, session, asked)
        assert answer.status_code in (200, 403, 404), (who, answer.text)
        assert f"paid {session}" not in answer.text, who
        if door == "http":
            assert answer.status_code == (404 if "globex" in who else 403)
            assert "globex" in who or "finance" in answer.text
    wait = await the_wait(post, session)
    assert (wait["approvers"], wait["four_eyes"], wait["asked_by"]) == (
        ["finance"],
        True,
        {"subject": "ana", "tenant": "acme"},
    )
    assert session not in [paid for paid, _ in PAID]
    answer = await decide(post, RIGHT, session, asked)
    assert answer.status_code in (200, 303), answer.text
    run = post.client.get_run(wait["run_id"])
    async for event in run.events():
        if event.type == "turn_completed":
            break
    assert [paid for paid, _ in PAID].count(session) == 1
    decided = [event async for event in run.events(follow=False) if event.type == "await_answered"]
    assert [(each.by, each.principal.tenant, "finance" in each.principal.roles) for each in decided] == [
        ("fin", "acme", True)
    ]
    (meta,) = [meta for paid, meta in PAID if paid == session]
    assert (meta.approval.subject, meta.approval.tenant, meta.approval.scope) == ("fin", "acme", "call")
    assert (meta.approval.digest, meta.approval.await_id) == (wait["digest"], wait["await_id"])
    assert meta.approval.at is not None


async def asks(post: Any, session: str) -> tuple[str, str]:
    """Have the desk ask a question over the API; returns the run and the wait."""
    sent = await post(ANA, f"/v1/sessions/desk.asker/{session}/messages?wait=60", {"text": "pay"})
    wait = (await post.client.get_run(sent.json()["run_id"]).until_waiting())[0]
    return sent.json()["run_id"], wait.id


async def says_by_http(post: Any, session: str) -> None:
    """Answer over the API."""
    run_id, await_id = await asks(post, session)
    await post(RIGHT, f"/v1/runs/{run_id}/answers", {"await_id": await_id, "answer": session})


async def says_by_console(post: Any, session: str) -> None:
    """Answer on the page of the inbox."""
    run_id, await_id = await asks(post, session)
    await post(RIGHT, f"/inbox/{run_id}/{await_id}", {"do": "answer", "answer": session}, form=True)


async def says_by_agui(post: Any, session: str) -> None:
    """Answer as a page of AG-UI."""
    path, headers, body = of_desk("agui", "pay", session, "asker")
    told = (await post(ANA, path, body, headers)).text
    last = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")][-1]
    (asked,) = last["outcome"]["interrupts"]
    resume = [{"interruptId": asked["id"], "status": "resolved", "payload": session}]
    await post(RIGHT, path, {**body, "resume": resume}, headers)


async def says_by_ai_sdk(post: Any, session: str) -> None:
    """Answer as a page of the AI SDK, by the part for a question."""
    path, headers, body = of_desk("vercel", "pay", session, "asker")
    told = (await post(ANA, path, body, headers)).text
    chunks = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
    (asked,) = [each for each in chunks if each["type"] == "data-question"]
    answer = {"type": "data-answer", "data": {"id": asked["id"], "answer": session}}
    assistant = {"id": "answer-m-0", "role": "assistant", "parts": [asked]}
    second = {"id": "m-1", "role": "user", "parts": [answer]}
    await post(RIGHT, path, {**body, "messages": [*body["messages"], assistant, second]}, headers)


async def says_by_openai(post: Any, session: str) -> None:
    """Answer by a message into the conversation of another."""
    body = {"model": "desk.asker", "input": "pay", "conversation": session}
    await post(ANA, "/openai/v1/responses", body)
    await post(RIGHT, "/openai/v1/responses", {**body, "input": session})


async def says_by_a2a(post: Any, session: str) -> None:
    """Answer by a message to the task that asks."""
    path, headers, body = of_desk("a2a", "pay", session, "asker")
    task = (await post(ANA, path, body, headers)).json()["result"]["task"]
    path, headers, body = of_desk("a2a", session, session, "asker")
    body["params"]["message"]["taskId"] = task["id"]
    await post(RIGHT, path, body, headers)


async def says_by_mcp(post: Any, session: str) -> None:
    """Answer by the form of an elicitation."""
    path, headers, body = of_desk("mcp of 2026", "pay", session, "asker")
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
    text = (await post(ANA, path, body, headers)).text
    last = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("{", "data: {"))]
    asked = json.loads(last[-1])["result"]
    (key,) = asked["inputRequests"]
    form = {"action": "accept", "content": {"answer": session}}
    body["params"] |= {"requestState": asked["requestState"], "inputResponses": {key: form}}
    await post(RIGHT, path, body, headers)


SAYS = {
    "http": says_by_http,
    "console": says_by_console,
    "agui": says_by_agui,
    "ai sdk": says_by_ai_sdk,
    "openai": says_by_openai,
    "a2a": says_by_a2a,
    "mcp": says_by_mcp,
}


@pytest.mark.parametrize("door", SAYS)
async def test_who_answered_has_asked_at_every_door(post, door, until):
    """Who answers the agent's question does not approve the call that is made of the answer, wherever the answer came in."""
    session = uuid.uuid4().hex
    await SAYS[door](post, session)

    async def of_call() -> Any:
        got = await post.http.get("/v1/waits", headers={"Authorization": "Bearer fay@acme+finance"})
        return next((wait for wait in got.json()["waits"] if session in str(wait.get("payload"))), None)

    wait = await until(of_call)
    assert wait["also_asked_by"] == [{"subject": "fin", "tenant": "acme"}]
    refused = await by_http(post, RIGHT, session, wait)
    assert (refused.status_code, session in [paid for paid, _ in PAID]) == (403, False)
    assert (await by_http(post, "fay@acme+finance", session, wait)).status_code == 200


async def test_the_asker_may_deny(post):
    """Four eyes are for an approval: who asked, with the role, may take the call back."""
    session = uuid.uuid4().hex
    wait = await first_of_api(post, session)
    body = {"await_id": wait["await_id"], "approved": False, "reason": "never mind"}
    answer = await post(ANA, f"/v1/runs/{wait['run_id']}/approvals", body)
    assert (answer.status_code, answer.json()["done"]) == (200, "denied")
    page = await post.http.get("/inbox", headers={"Authorization": f"Bearer {ANA}"})
    assert page.status_code == 200


async def test_the_page_shows_who_decides_and_offers_nobody_else_a_button(post):
    """The page of the wait names the role and the asker; the asker has no Approve, an approver of other calls no form."""
    session = uuid.uuid4().hex
    wait = await first_of_api(post, session)
    path = f"/inbox/{wait['run_id']}/{wait['await_id']}"

    async def page(who: str) -> str:
        return (await post.http.get(path, headers={"Authorization": f"Bearer {who}"})).text

    own, others, right = await page(ANA), await page("al@acme+approver"), await page(RIGHT)
    for text in (own, others, right):
        assert "a principal who has the role finance, but not ana, who asked" in text
    assert ('value="approve"' in own, 'value="deny"' in own) == (False, True)
    assert 'value="approve"' not in others
    assert 'value="approve"' in right


@pytest.mark.parametrize("door", ["http", "console"])
async def test_a_fork_that_decides_takes_the_roles_of_the_call(post, until, door):
    """An operator with the call's own role decides on it anew by a fork; one with the role `approver` alone starts none."""
    fin, al = "fin@acme+operator+finance", "al@acme+operator+approver"
    session = uuid.uuid4().hex
    run_id = (await post(ANA, "/v1/runs", {"agent_id": "desk.refunder", "input": session})).json()["run_id"]
    run = post.client.get_run(run_id)
    (wait,) = await run.until_waiting()
    denial = {"await_id": wait.id, "approved": False}
    assert (await post(RIGHT, f"/v1/runs/{run_id}/approvals", denial)).status_code == 200
    await run.result()
    at = next(e.event_id for e in [e async for e in run.events()] if e.type == "await_confirmation")
    in_console = door == "console"
    path = f"/runs/{run_id}/fork" if in_console else f"/v1/runs/{run_id}/fork"

    async def fork(who: str, *, approve: bool) -> Any:
        change = {"change": "approve" if approve else "deny"} if in_console else {"approve": approve}
        return await post(who, path, {"at": at, **change}, form=in_console)

    if in_console:
        for who, may in ((fin, True), (al, False)):
            headers = {"Authorization": f"Bearer {who}"}
            page = (await post.http.get(f"{path}?at={at}", headers=headers)).text
            assert ('value="approve"' in page, 'value="deny"' in page) == (may, may)
    for approve in (True, False):
        refused = await fork(al, approve=approve)
        assert refused.status_code == 403, refused.text
        assert "al does not have the role finance" in refused.text
    answer = await fork(fin, approve=True)
    assert answer.status_code in (201, 303), answer.text

    async def forks() -> Any:
        return [each async for each in post.client.list_runs(fork_of=run_id)]

    (made,) = await until(forks)
    assert (await post.client.get_run(made.run_id).result()).text == f"refunded {session}"


async def test_a_rule_shows_the_call_that_a_function_judges(post, until):
    """Of a run that only its subject sees, the inbox of those with the rule's role has the call, and whom the function accepts decides."""
    started = await post(ANA, "/v1/runs", {"agent_id": "desk.safe", "input": uuid.uuid4().hex})
    run_id = started.json()["run_id"]

    async def waits_of(who: str) -> list[Any]:
        got = await post.http.get("/v1/waits", headers={"Authorization": f"Bearer {who}"})
        return [each for each in got.json()["waits"] if each["run_id"] == run_id]

    kim, guard = "kim@acme+guard", "gus@acme+guard"
    (wait,) = await until(lambda: waits_of(kim))
    assert (wait["approvers"], wait["narrowed_to"], wait["approver_check"]) == ([], [["guard"]], "is_kim")
    assert [len(await waits_of(who)) for who in (guard, RIGHT, "kim@acme")] == [1, 0, 0]
    body = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    path = f"/v1/runs/{run_id}/approvals"
    answers = [(await post(who, path, body)).status_code for who in (RIGHT, "kim@acme", guard, kim)]
    assert answers == [404, 404, 403, 200]
    assert "opened" in (await post.client.get_run(run_id).result()).text


async def test_two_approvers_decide_over_the_api_and_agui(post):
    """After the first approval the interrupt is there again and says how far it is; the second one of another person runs the call."""
    session, other = uuid.uuid4().hex, "fay@acme+finance"
    path, headers, body = of_desk("agui", session, session, "pair", message_id="m-0")

    def told(answer: Any) -> list[Any]:
        return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]

    (asked,) = told(await post(ANA, path, body, headers))[-1]["outcome"]["interrupts"]
    resume = {"interruptId": asked["id"], "status": "resolved", "payload": {"approved": True}}
    decided = {**body, "resume": [resume]}
    for _ in range(2):  # the same answer again is the same
        first = told(await post(RIGHT, path, decided, headers))
        (again,) = first[-1]["outcome"]["interrupts"]
        assert again["id"] == asked["id"]
        assert [each["subject"] for each in again["metadata"]["given"]] == ["fin"]
    wait = await the_wait(post, session)
    assert (wait["approvals_needed"], [each["subject"] for each in wait["given"]]) == (2, ["fin"])
    decision = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    mine = await post(RIGHT, f"/v1/runs/{wait['run_id']}/approvals", {**decision, "reason": "once more"})
    assert (mine.status_code, mine.json()["left"]) == (200, 1)
    done = await post(other, f"/v1/runs/{wait['run_id']}/approvals", decision)
    assert (done.status_code, done.json()["left"]) == (200, 0)
    results = [
        each for each in told(await post(ANA, path, body, headers)) if each["type"] == "TOOL_CALL_RESULT"
    ]
    assert [each["content"] for each in results] == [f"refunded {session}"]
