"""A fork goes on from a point of another run, and executes nothing again that was executed before."""

import asyncio
import base64
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    AwaitConfirmation,
    Client,
    InvalidInput,
    PlanResult,
    Principal,
    Run,
    RunFailed,
    RunNotFound,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolError,
    ToolRequest,
    ToolResult,
    Toolset,
    Turn,
    Usage,
    Worker,
)
from sojourn.client.forking import edit_warning
from sojourn.errors import NotApprover, NoWorker, RunAlreadyExists, RunCanceled, RunUnreadable
from sojourn.events import Event
from sojourn.policy import PolicyDecision, PolicyInput
from sojourn.reader.waits import waiting_in_history
from sojourn.testing.scripted import ScriptedPlanner
from sojourn.timeline import Call
from tests.conftest import Serve

ASKING = RunPolicy(interrupts_allowed=True)
QUESTION = AwaitClarification(id="which", question="Which site?")


class Topic(BaseModel):
    """What the helper is asked."""

    topic: str


class Shop:
    """Tools that count what they have done."""

    def __init__(self) -> None:
        self.done = Counter[str]()
        self.keys = set[tuple[str, str]]()
        self.is_down = False
        self.tools = Toolset("shop.tools")

        @self.tools.tool
        async def buy(what: str, meta: ToolCallMeta) -> str:
            """Buy something."""
            return self.count(what, meta)

        @self.tools.tool(destructive=True)
        async def wipe(what: str, meta: ToolCallMeta) -> str:
            """Destroy something."""
            return self.count(what, meta)

    def count(self, what: str, meta: ToolCallMeta) -> str:
        key = (meta.run_id, meta.idempotency_key)
        assert key not in self.keys, "in a run, a key is used for one call only"
        self.keys.add(key)
        self.done[what] += 1
        return f"{what} for {meta.run_id}"

    def planned(self, *steps: Any, policy: RunPolicy = ASKING) -> App:
        planner = ScriptedPlanner(steps)
        return App(agents=[Agent("shop.buyer", planner=planner, uses=[self.tools], policy=policy)])


def calls(*names: str, tool: str = "buy") -> PlanResult:
    requests = [ToolRequest(name=f"shop.tools.{tool}", payload={"what": name}) for name in names]
    return PlanResult(tool_calls=requests, usage=Usage(input_tokens=100, cost=1.0))


def says(turn: Turn) -> PlanResult:
    """Answer with all that the planner has received."""
    texts = [message.text for message in turn.messages if message.role == "user"]
    results = [result.result or str(result.error) for each in turn.messages for result in each.tool_results]
    return PlanResult.final("; ".join([*texts, *map(str, results)]))


async def ended(client: Client, **options: Any) -> Run:
    run = await client.start("shop.buyer", "go", **options)
    await run.result()
    return run


async def the_event(run: Run, kind: str, number: int = 0) -> Event:
    return [event async for event in run.events(follow=False) if event.type == kind][number]


async def test_what_was_executed_is_not_executed_again(serve: Serve) -> None:
    """A fork after the first step has its result, and executes only the later step."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen"), calls("ink"), says))
    run = await ended(client, session_id="s", labels={"team": "a"})
    at = await the_event(run, "tool_end")
    fork = await client.fork(run.id, at=at.event_id)
    output = await fork.result()
    assert shop.done == {"pen": 1, "ink": 2}
    assert output.text == f"go; pen for {run.id}; ink for {fork.id}"
    before, after = await run.transcript(), await fork.transcript()
    assert after[:3] == before[:3]
    assert [m.role for m in after] == [m.role for m in before]


async def test_a_fork_names_its_origin_and_the_origin_its_forks(
    serve: Serve, until: Callable[..., Awaitable[Any]]
) -> None:
    """The link is in the events, the status, the listing and Temporal's memo; labels and session go along."""
    client = await serve(Shop().planned(calls("pen"), says))
    run = await ended(client, session_id="s", labels={"team": "a"})
    at = await the_event(run, "tool_start")
    fork = await client.fork(run.id, at=at.event_id, new_run_id=f"{run.id}-again")
    assert fork.id == f"{run.id}-again"
    await fork.result()
    first = await the_event(fork, "run_started")
    origin = (await fork.status()).forked_from
    assert origin is not None
    assert first.type == "run_started"
    assert first.forked_from == origin
    assert (origin.run_id, origin.at) == (run.id, at.event_id)
    assert origin.event_id < at.event_id, "the call was in progress: the plan is made again"
    described = await client.temporal.get_workflow_handle(fork.id).describe()
    assert described.id == fork.id
    assert await described.memo() == {"message": "go", "forked_from": run.id}
    execution = (await client.temporal.get_workflow_handle(run.id).describe()).run_id
    assert origin.execution == execution

    async def is_listed() -> bool:
        found = [
            each async for each in client.list_runs(fork_of=run.id, session_id="s", labels={"team": "a"})
        ]
        return [(each.run_id, each.forked_from and each.forked_from.run_id) for each in found] == [
            (fork.id, run.id)
        ]

    await until(is_listed)
    with pytest.raises(RunAlreadyExists, match="was used before; choose another one"):
        await client.fork(run.id, new_run_id=fork.id)


async def test_a_result_is_replaced(serve: Serve) -> None:
    """The planner goes on with the other result; the call of the same step that had ended keeps its own."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen", "ink"), says))
    run = await ended(client)
    ends = [event async for event in run.events(follow=False) if event.type == "tool_end"]
    last = ends[-1]
    assert last.type == "tool_end"
    fork = await client.fork(run.id, at=last.event_id, result={"price": 3})
    text = (await fork.result()).text
    assert "{'price': 3}" in text
    assert shop.done == {"pen": 1, "ink": 1}
    fails = ToolResult(error=ToolError.new("sold out"))
    assert "sold out" in (await (await client.fork(run.id, at=last.event_id, result=fails)).result()).text
    with pytest.raises(InvalidInput, match="no result to replace"):
        await client.fork(run.id, at=(await the_event(run, "run_started")).event_id, result=1)


async def test_a_call_without_result_is_requested_again(serve: Serve) -> None:
    """Calls of a step that had not ended are answered as not executed; those that had ended keep their results."""
    shop = Shop()
    policy = RunPolicy(max_parallel_calls=1, interrupts_allowed=True)
    client = await serve(shop.planned(calls("pen", "ink"), says, policy=policy))
    run = await ended(client)
    fork = await client.fork(run.id, at=(await the_event(run, "tool_end")).event_id)
    text = (await fork.result()).text
    assert f"pen for {run.id}" in text
    assert f"not executed in this run, which was forked from {run.id}" in text
    assert shop.done == {"pen": 1, "ink": 1}


async def test_a_message_begins_a_turn(serve: Serve) -> None:
    """A message after the answer goes on with the conversation; at an earlier event it joins the results there."""
    client = await serve(Shop().planned(calls("pen"), says, says))
    run = await ended(client)
    fork = await client.fork(run.id, message="and now?")
    output = await fork.result()
    assert output.text == f"go; and now?; pen for {run.id}"
    assert (await fork.status()).turn_id == "t2"
    assert [m.role for m in await fork.transcript()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    at = (await the_event(run, "tool_end")).event_id
    assert (
        await (await client.fork(run.id, at=at, message="hurry")).result()
    ).text == f"go; hurry; pen for {run.id}"
    at = (await the_event(run, "run_started")).event_id
    assert (await (await client.fork(run.id, at=at, message="hurry")).result()).text.startswith(
        "go; hurry; pen"
    )


async def test_an_answer_is_changed(serve: Serve) -> None:
    """At a question the fork gets the other answer, or waits itself; the origin keeps its own."""
    client = await serve(Shop().planned(PlanResult.ask(QUESTION), says))
    run = await client.start("shop.buyer", "go")
    await run.until_waiting()
    asked = (await the_event(run, "await_clarification")).event_id
    waiting = await client.fork(run.id, at=asked)
    (wait,) = await waiting.until_waiting()
    assert wait.id == "which"
    assert (await the_event(waiting, "await_clarification")).run_id == waiting.id
    assert (await (await client.fork(run.id, answer="s-2")).result()).text == "go; s-2"
    await run.answer("s-1")
    assert (await run.result()).text == "go; s-1"
    assert (await (await client.fork(run.id, at=asked, answer="s-3")).result()).text == "go; s-3"
    await waiting.answer("s-4")
    assert (await waiting.result()).text == "go; s-4"
    with pytest.raises(InvalidInput, match="answer in place of a message"):
        await client.fork(run.id, at=asked, message="s-2")
    assert (await (await client.fork(run.id, answer="s-5")).result()).text == "go; s-5"
    with pytest.raises(InvalidInput, match="asks nothing"):
        await client.fork(run.id, at=(await the_event(run, "run_started")).event_id, answer="s-2")


async def test_a_decision_is_changed(serve: Serve, until: Callable[..., Awaitable[Any]]) -> None:
    """A call that was denied is carried out in the fork; calls that had ended are not executed again."""
    shop = Shop()
    both = PlanResult(tool_calls=[*calls("pen").tool_calls, *calls("disk", tool="wipe").tool_calls])
    client = await serve(shop.planned(both, says))
    run = await client.start("shop.buyer", "go")
    (wait,) = await run.until_waiting()
    await until(lambda: shop.done["pen"])
    await run.deny(wait.id, "no")
    assert "denied: no" in (await run.result()).text
    assert shop.done == {"pen": 1}
    answered = (await the_event(run, "await_answered")).event_id
    fork = await client.fork(run.id, at=answered, approve=True)
    text = (await fork.result()).text
    assert f"pen for {run.id}; disk for {fork.id}" in text
    assert shop.done == {"pen": 1, "disk": 1}
    answer = await the_event(fork, "await_answered")
    assert answer.type == "await_answered"
    assert answer.approved
    back = await client.fork(fork.id, approve=False)
    assert "denied" in (await back.result()).text
    assert shop.done == {"pen": 1, "disk": 1}
    with pytest.raises(InvalidInput, match="asked about no call"):
        await client.fork(run.id, at=(await the_event(run, "run_started")).event_id, approve=True)


async def test_a_failed_run_is_retried(serve: Serve) -> None:
    """A retry goes on before the plan that failed; what the first run has done stays done."""
    shop = Shop()
    shop.is_down = True

    def fails_while_down(turn: Turn) -> PlanResult:
        return PlanResult.fail("the provider is down") if shop.is_down else says(turn)

    client = await serve(shop.planned(calls("pen"), fails_while_down))
    run = await client.start("shop.buyer", "go")
    with pytest.raises(RunFailed):
        await run.result()
    with pytest.raises(RunFailed):
        await (await client.retry(run.id)).result()
    shop.is_down = False
    retried = await client.retry(run.id, new_run_id=f"{run.id}-2")
    output = await retried.result()
    assert output.text == f"go; pen for {run.id}"
    assert shop.done == {"pen": 1}
    with pytest.raises(InvalidInput, match="did not fail, it is completed"):
        await client.retry(retried.id)


async def test_a_fork_counts_from_zero(serve: Serve) -> None:
    """The totals are those of the fork alone, and so its limits begin at zero; the run's own limits go along."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen"), calls("ink"), says))
    policy = RunPolicyOverride(max_tool_calls=2)
    run = await ended(client, policy=policy)
    output = await run.result()
    assert (output.tool_calls, output.usage.cost) == (2, 2.0)
    fork = await client.fork(run.id, at=(await the_event(run, "tool_end")).event_id)
    output = await fork.result()
    assert (output.tool_calls, output.usage.cost) == (1, 1.0)
    assert (await fork.status()).caps.tool_calls == 1


async def test_a_fork_of_a_fork(serve: Serve) -> None:
    """A fork is a run like any other: it can be forked, and its transcript is read from its history."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen"), calls("ink"), says))
    run = await ended(client)
    fork = await client.fork(run.id, at=(await the_event(run, "tool_end")).event_id)
    await fork.result()
    again = await client.fork(fork.id)
    await again.result()
    assert await again.transcript() == await fork.transcript()
    assert shop.done == {"pen": 1, "ink": 2}
    at_start = await client.fork(fork.id, at=(await the_event(fork, "run_started")).event_id)
    await at_start.result()
    assert shop.done == {"pen": 1, "ink": 3}


async def test_a_run_is_forked_from_its_export(serve: Serve, tmp_path: Path) -> None:
    """A file of its history is enough, also for a run that the server has no more."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen"), says))
    run = await ended(client)
    file, at = tmp_path / "history.json", (await the_event(run, "tool_end")).event_id
    history = await client.temporal.get_workflow_handle(run.id).fetch_history()
    text = history.to_json()
    file.write_text(text.replace(run.id, "long-gone"))
    with pytest.raises(RunNotFound):
        await client.fork("long-gone", at=at)
    fork = await client.fork("long-gone", at=at, history=file)
    assert (await fork.result()).text == f"go; pen for {run.id}"
    assert shop.done == {"pen": 1}
    with pytest.raises(InvalidInput, match="is the history of run long-gone"):
        await client.fork(run.id, history=file)
    file.write_text("{}")
    with pytest.raises(InvalidInput, match="is not a history"):
        await client.fork("long-gone", history=file)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"at": "0-000099-00000"}, "has no event '0-000099-00000'"),
        ({"at": "tomorrow"}, "has no event 'tomorrow'"),
        ({"at": ""}, "leave it out to fork the end of the run"),
        ({"message": " "}, "the message is empty"),
        ({"message": "x" * 1_100_000}, "at most 1,000,000"),
        ({"message": "\ud800"}, "cannot be written"),
        ({"new_run_id": "a b"}, "run_id must begin"),
        ({"result": 1, "answer": "x"}, "only one of"),
        ({"result": float("nan"), "at": "end"}, "cannot be used"),
        ({"approve": True, "message": "x"}, "takes no message"),
    ],
)
async def test_a_wrong_argument_is_refused(serve: Serve, given: dict[str, Any], rule: str) -> None:
    """No run is started, and the error says why."""
    client = await serve(Shop().planned(calls("pen"), says))
    run = await ended(client)
    if given.get("at") == "end":
        given = {**given, "at": (await the_event(run, "tool_end")).event_id}
    with pytest.raises(InvalidInput, match=rule):
        await client.fork(run.id, **given)


async def test_a_fork_needs_a_worker(serve: Serve, temporal_address: str) -> None:
    """Nobody polls the queue: no fork is started."""
    run = await ended(await serve(Shop().planned(says)))
    client = await Client.connect(temporal_address, task_queue="nobody-is-here")
    with pytest.raises(NoWorker, match="nobody-is-here"):
        await client.fork(run.id)


async def test_a_child_run_is_forked_by_reference(serve: Serve) -> None:
    """A child run that had ended is not run again: its link stays in the transcript."""
    helped = Counter[str]()

    async def help_once(turn: Turn) -> PlanResult:
        helped[turn.run.run_id] += 1
        return PlanResult.final("helped")

    helper = Agent("shop.helper", planner=help_once)
    asking = helper.export("shop.helpers", tools=[AgentTool("ask", args=Topic, result=str)])
    request = ToolRequest(name="shop.helpers.ask", payload={"topic": "x"}, tool_call_id="c1")
    planner = ScriptedPlanner([PlanResult.calls(request), says])
    client = await serve(App(agents=[helper, Agent("shop.buyer", planner=planner, uses=[asking])]))
    run = await ended(client)
    fork = await client.fork(run.id)
    assert (await fork.result()).text == "go; helped"
    assert helped == {f"{run.id}/c1": 1}
    (result,) = (await fork.transcript())[2].tool_results
    assert result.run_link is not None
    assert result.run_link.run_id == f"{run.id}/c1"
    child = await client.fork(f"{run.id}/c1", new_run_id=f"{run.id}-child")
    assert (await child.result()).text == "helped"


async def test_the_origin_in_a_start_by_hand_is_bounded(serve: Serve) -> None:
    """Who starts a run by hand cannot give it an origin with an id of any length."""
    client = await serve(Shop().planned(says))
    origin = {"run_id": "x" * 301, "event_id": "0-000001-00000"}
    opening = {
        "agent_id": "shop.buyer",
        "messages": [{"role": "user", "parts": [{"type": "text", "text": "go"}]}],
        "forked_from": origin,
    }
    run_id = f"by-hand-{uuid.uuid4().hex[:8]}"
    await client.temporal.start_workflow("AgentRun", opening, id=run_id, task_queue=client.task_queue or "")
    with pytest.raises(RunFailed, match="at most 300 characters"):
        await client.get_run(run_id).result()


async def test_a_call_is_carried_out_with_other_arguments(serve: Serve) -> None:
    """The fork calls the tool with them, its transcript says so, and the origin stays as it is."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen", "cap"), says))
    run = await ended(client)
    at = await the_event(run, "tool_end")
    assert at.type == "tool_end"
    other = {"pen": "cap", "cap": "pen"}[at.result.result.split(" ")[0]]
    fork = await client.fork(
        run.id, at=(await the_event(run, "tool_end", 1)).event_id, arguments={"what": "ink"}
    )
    await fork.result()
    assert shop.done == {"pen": 1, "cap": 1, "ink": 1}
    made, before = await _calls_of(fork), await _calls_of(run)
    assert sorted(before) == ["cap", "pen"]
    assert sorted(made) == sorted({"pen", "cap"} - {other} | {"ink"})


async def test_a_person_is_asked_about_the_arguments_that_will_run(serve: Serve) -> None:
    """Where the call needs an approval: about the new ones."""
    shop = Shop()
    client = await serve(shop.planned(calls("disk", tool="wipe"), says))
    run = await client.start("shop.buyer", "go")
    (first,) = await run.until_waiting()
    await run.deny(by="eve")
    await run.result()
    at = await the_event(run, "await_confirmation")
    fork = await client.fork(run.id, at=at.event_id, arguments={"what": "tape"})
    (asked,) = await fork.until_waiting()
    assert isinstance(first, AwaitConfirmation)
    assert isinstance(asked, AwaitConfirmation)
    assert (asked.payload, asked.prompt) == ({"what": "tape"}, "Run “Wipe”?")
    assert asked.payload_digest != first.payload_digest
    await fork.approve(payload_digest=asked.payload_digest, by="eve")
    await fork.result()
    assert shop.done == {"tape": 1}


async def test_who_is_asked_in_a_fork_learns_what_the_origin_was_asked(serve: Serve) -> None:
    """The context of a fork's wait has the message that the fork copied, though no event of the fork tells it."""
    shop = Shop()
    client = await serve(shop.planned(calls("disk", tool="wipe"), says))
    run = await client.start("shop.buyer", "wipe it")
    (wait,) = await run.until_waiting()
    await run.approve(wait)
    await run.result()
    fork = await client.fork(run.id, arguments={"what": "tape"})
    await fork.until_waiting()
    assert (await waiting_in_history(client.temporal, fork.id)).asked == "wipe it"
    await fork.cancel()


async def test_arguments_that_do_not_fit_are_refused(serve: Serve) -> None:
    """With the app no fork starts; without it the fork fails, and neither the tool nor the planner gets them."""
    shop = Shop()
    app = shop.planned(calls("pen"), says)
    client = await serve(app)
    run = await ended(client)
    at = (await the_event(run, "tool_end")).event_id
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"what": 3}, "`what`"),
        ({}, "`what`"),
        ({"what": "x", "hwat": "y"}, "`hwat`"),
    ]
    for arguments, name in wrong:
        with pytest.raises(InvalidInput, match=name):
            await client.fork(run.id, at=at, arguments=arguments, app=app)
        fork = await client.fork(run.id, at=at, arguments=arguments)
        with pytest.raises(RunFailed, match=name) as failed:
            await fork.result()
        assert failed.value.code == "invalid_arguments"
        kinds = [event.type async for event in fork.events()]
        assert (kinds.count("plan_started"), kinds.count("tool_start")) == (1, 0)
    assert shop.done == {"pen": 1}


async def test_other_arguments_are_one_object_of_one_call(serve: Serve) -> None:
    """A message with them, no object, or no call at the event is refused."""
    client = await serve(Shop().planned(calls("pen"), says))
    run = await ended(client)
    at = (await the_event(run, "tool_end")).event_id
    no_object: Any = [1]
    for arguments, message, reason in (({"what": "x"}, "more", "no message"), (no_object, None, "an object")):
        with pytest.raises(InvalidInput, match=reason):
            await client.fork(run.id, at=at, arguments=arguments, message=message)
    with pytest.raises(InvalidInput, match="has no call"):
        await client.fork(run.id, at=(await the_event(run, "run_started")).event_id, arguments={"what": "x"})


class Limit:
    """A policy engine that lets a purchase run, asks about a dear one, and disables purchases for a subject."""

    def __init__(self) -> None:
        self.given: list[PolicyInput] = []

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        self.given.append(given)
        dear = [call.tool_call_id for call in given.requested if call.arguments["what"] == "gold"]
        banned = given.principal is not None and given.principal.subject == "eve"
        disabled = ["shop.tools.*"] if banned and given.requested else []
        cheap = [call.tool_call_id for call in given.requested if call.tool_call_id not in dear]
        return PolicyDecision(ask=dear, approve=cheap, disable_tools=disabled)


@pytest.mark.parametrize("tool", ["buy", "wipe"])
async def test_the_present_engine_judges_the_call(serve: Serve, tool: str) -> None:
    """It gets the new arguments, by which it asks; a call that it let run is nobody's approval of another one."""
    shop, engine = Shop(), Limit()
    planner = ScriptedPlanner([calls("pen", tool=tool), says])
    agent = Agent("shop.buyer", planner=planner, uses=[shop.tools], policy=ASKING)
    client = await serve(App(agents=[agent], policy_engine=engine))
    run = await ended(client)
    at = (await the_event(run, "tool_end")).event_id
    engine.given.clear()
    fork = await client.fork(run.id, at=at, arguments={"what": "gold"}, principal=Principal(subject="op"))
    (asked,) = await fork.until_waiting()
    assert isinstance(asked, AwaitConfirmation)
    assert asked.payload == {"what": "gold"}
    assert shop.done == {"pen": 1}
    seen = engine.given[-1]
    assert [call.arguments for call in seen.requested] == [{"what": "gold"}]
    assert seen.principal == Principal(subject="op")
    await fork.approve(asked, by="ana")
    await fork.result()
    assert shop.done == {"pen": 1, "gold": 1}
    cheap = await client.fork(run.id, at=at, arguments={"what": "cap"})
    await cheap.result()
    assert shop.done == {"pen": 1, "gold": 1, "cap": 1}


async def test_the_present_engine_disables_the_call(serve: Serve) -> None:
    """What it disables for the principal of the fork does not run, with other arguments or with another decision."""
    shop, engine = Shop(), Limit()
    planner = ScriptedPlanner([calls("gold"), says])
    agent = Agent("shop.buyer", planner=planner, uses=[shop.tools], policy=ASKING)
    client = await serve(App(agents=[agent], policy_engine=engine))
    run = await client.start("shop.buyer", "go")
    await run.until_waiting()
    await run.deny(None, by="ana")
    await run.result()
    at, eve = (
        (await the_event(run, "await_confirmation")).event_id,
        Principal(subject="eve", roles=["approver"]),
    )
    for change in ({"arguments": {"what": "pen"}}, {"approve": True}):
        fork = await client.fork(run.id, at=at, principal=eve, by="eve", **change)
        await fork.result()
        end = await the_event(fork, "tool_end")
        assert end.type == "tool_end"
        assert end.retry_hint
        assert end.retry_hint.reason == "tool_unavailable"
    assert not shop.done


@pytest.mark.parametrize(
    "change", [{"arguments": {"what": "ink"}}, {"approve": True}], ids=["arguments", "approve"]
)
async def test_the_present_policy_judges_the_call(temporal_address: str, change: dict[str, Any]) -> None:
    """A tool that the agent's policy denies or asks about by now is denied or asked about in the fork of an older run."""
    shop = Shop()
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    old = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy.supervised())
    async with Worker(shop.planned(calls("pen"), says, policy=old), client):
        run = await client.start("shop.buyer", "go")
        await run.until_waiting()
        await run.approve(by="ana")
        await run.result()
    at = (await the_event(run, "await_confirmation")).event_id
    denied = ApprovalPolicy(denied_tools=["shop.tools.buy"])
    policy = RunPolicy(interrupts_allowed=True, approval=denied)
    async with Worker(shop.planned(calls("pen"), says, policy=policy), client):
        fork = await client.fork(run.id, at=at, by="ana", **change)
        await fork.result()
        end = await the_event(fork, "tool_end")
        assert end.type == "tool_end"
        assert end.error
        assert end.error.code == "denied"
    assert shop.done == {"pen": 1}


async def test_the_results_of_the_other_calls_stay(serve: Serve) -> None:
    """A step's other calls keep their results, are not shown to the engine, and do not run again."""
    shop, engine = Shop(), Limit()
    planner = ScriptedPlanner([calls("pen", "cap"), says])
    agent = Agent("shop.buyer", planner=planner, uses=[shop.tools], policy=ASKING)
    client = await serve(App(agents=[agent], policy_engine=engine))
    run = await ended(client)
    last = await the_event(run, "tool_end", 1)
    engine.given.clear()
    fork = await client.fork(run.id, at=last.event_id, arguments={"what": "ink"})
    output = await fork.result()
    assert shop.done == {"pen": 1, "cap": 1, "ink": 1}
    assert sum(len(given.requested) for given in engine.given) == 1
    assert output.text.count(run.id) == 1
    assert output.text.count(fork.id) == 1
    again = await client.fork(fork.id, at=(await the_event(fork, "run_started")).event_id)
    await again.result()


async def test_a_fork_that_is_canceled_before_it_is_judged_runs_nothing(serve: Serve) -> None:
    """An engine that does not answer keeps the call from running, and a cancellation ends the fork."""
    shop, asked = Shop(), asyncio.Event()

    class Hangs:
        async def decide(self, given: PolicyInput) -> PolicyDecision:
            if given.run.run_id.endswith("-slow"):
                asked.set()
                await asyncio.Event().wait()
            return PolicyDecision()

    planner = ScriptedPlanner([calls("pen"), says])
    agent = Agent("shop.buyer", planner=planner, uses=[shop.tools], policy=ASKING)
    client = await serve(App(agents=[agent], policy_engine=Hangs()))
    run = await ended(client)
    at = (await the_event(run, "tool_end")).event_id
    fork = await client.fork(run.id, at=at, arguments={"what": "ink"}, new_run_id=f"{run.id}-slow")
    await asked.wait()
    await fork.cancel("never mind")
    with pytest.raises(RunCanceled):
        await fork.result()
    assert shop.done == {"pen": 1}


async def _calls_of(run: Run) -> list[str]:
    """What the calls in a run's transcript are about."""
    messages = await run.transcript()
    return [part.payload["what"] for each in messages for part in each.parts if part.type == "tool_call"]


async def test_a_run_is_forked_from_before_what_cannot_be_read(serve: Serve, tmp_path: Path) -> None:
    """A record that nobody can decode ends what a fork knows of its origin, and keeps nobody from a fork before it."""
    shop = Shop()
    client = await serve(shop.planned(calls("pen"), says))
    run = await ended(client)
    file, at = tmp_path / "history.json", (await the_event(run, "tool_end")).event_id
    history = (await client.temporal.get_workflow_handle(run.id).fetch_history()).to_json_dict()
    key = "activityTaskCompletedEventAttributes"
    last = next(event for event in reversed(history["events"]) if key in event)
    last[key]["result"]["payloads"][0]["metadata"]["encoding"] = base64.b64encode(b"binary/secret").decode()
    file.write_text(json.dumps(history))
    with pytest.raises(RunUnreadable):
        await client.fork(run.id, history=file)
    fork = await client.fork(run.id, at=at, history=file)
    assert (await fork.result()).text == f"go; pen for {run.id}"


ANA, BEN, KIM = (
    Principal(subject=name, tenant="acme", roles=["user", "operator", "approver"])
    for name in ("ana", "ben", "kim")
)


def till() -> App:
    """An agent that pays what each message names, of which another person than who asked approves."""
    tools = Toolset("till.money")

    @tools.tool(four_eyes=True)
    async def pay(what: str) -> str:
        """Pay."""
        return f"paid {what}"

    async def plan(turn: Turn) -> PlanResult:
        if turn.tool_results:
            return says(turn)
        return PlanResult.calls(pay.call(what=turn.messages[-1].text))

    clerk = Agent("till.clerk", planner=plan, uses=[tools], policy=ASKING)
    office = clerk.export("till.office", tools=[AgentTool("ask", args=Topic, result=str)])

    async def delegate(turn: Turn) -> PlanResult:
        if turn.tool_results:
            return says(turn)
        return PlanResult.calls(office["ask"].call(Topic(topic="5")))

    return App(agents=[clerk, Agent("till.boss", planner=delegate, uses=[office], policy=ASKING)])


async def asked_in(fork: Run) -> AwaitConfirmation:
    (wait,) = await fork.until_waiting()
    assert isinstance(wait, AwaitConfirmation)
    return wait


@pytest.mark.parametrize(
    "change",
    [{}, {"arguments": {"what": "500"}}, {"message": "pay 500"}, {"again": True}],
    ids=["nothing", "arguments", "message", "fork of a fork"],
)
async def test_who_asked_in_the_origin_does_not_approve_in_a_fork(
    serve: Serve, change: dict[str, Any]
) -> None:
    """Whoever asked for a call has not become another person because somebody else forks the run."""
    client = await serve(till())
    run = await client.start("till.clerk", "50", principal=BEN)
    await asked_in(run)
    is_again = change.pop("again", False)
    at = None if "arguments" in change else (await the_event(run, "run_started")).event_id
    if "arguments" in change:
        at = (await the_event(run, "await_confirmation")).event_id
    fork = await client.fork(run.id, at=at, principal=ANA, **change)
    wait = await asked_in(fork)
    if is_again:
        fork = await client.fork(fork.id, at=(await the_event(fork, "run_started")).event_id, principal=BEN)
        wait = await asked_in(fork)
    assert wait.asked_by == Principal(subject="ben" if is_again else "ana", tenant="acme")
    assert wait.also_asked_by == [Principal(subject="ana" if is_again else "ben", tenant="acme")]
    for asker in (ANA, BEN):
        with pytest.raises(NotApprover, match=f"{asker.subject} asked for this call"):
            await fork.approve(wait, principal=asker)
    await fork.approve(wait, principal=KIM)
    assert "paid" in (await fork.result()).text
    await run.cancel()


async def test_who_asked_in_the_origin_does_not_decide_anew_in_a_fork(serve: Serve) -> None:
    """A fork that decides on the call again refuses its origin's asker, and takes the decision of somebody who has not asked."""
    client = await serve(till())
    run = await client.start("till.clerk", "50", principal=BEN)
    await run.deny(await asked_in(run), principal=KIM)
    await run.result()
    at = (await the_event(run, "await_confirmation")).event_id
    with pytest.raises(NotApprover, match="ben asked for this call"):
        await client.fork(run.id, at=at, approve=True, principal=BEN, new_run_id=f"{run.id}-by-ben")
    with pytest.raises(RunNotFound):
        await client.get_run(f"{run.id}-by-ben").status()
    fork = await client.fork(run.id, at=at, principal=ANA, arguments={"what": "50"})
    wait = await asked_in(fork)
    with pytest.raises(NotApprover, match="ben asked for this call"):
        await fork.approve(wait, principal=BEN)
    await fork.cancel()


async def test_a_message_that_a_fork_copies_was_asked_for_by_its_sender(serve: Serve) -> None:
    """In the fork of a conversation by somebody else, the sender of a message that waited may not approve what comes of its copy."""
    client = await serve(till())
    session_id = uuid.uuid4().hex
    session = client.session("till.clerk", session_id, principal=ANA)
    first = await session.send("1")
    wait = await asked_in(first.run)
    await client.session("till.clerk", session_id, principal=BEN).send("500")
    await first.run.approve(wait, principal=KIM)
    await first.result()
    fork = await client.fork(
        first.run.id, at=(await the_event(first.run, "tool_end")).event_id, principal=KIM
    )
    wait = await asked_in(fork)
    assert (wait.payload, wait.asked_by) == ({"what": "500"}, Principal(subject="kim", tenant="acme"))
    assert wait.also_asked_by == [Principal(subject="ben", tenant="acme")]
    with pytest.raises(NotApprover, match="ben asked for this call"):
        await fork.approve(wait, principal=BEN)
    await fork.approve(wait, principal=ANA)
    await fork.cancel()
    await first.run.cancel()


async def test_who_asked_in_the_origin_does_not_approve_in_a_child_run(
    serve: Serve, until: Callable[..., Awaitable[Any]]
) -> None:
    """The calls of a fork's child runs were asked for by the origin's asker too."""
    client = await serve(till())

    async def child_of(run: Run) -> tuple[Run, AwaitConfirmation]:
        async def waits() -> Any:
            return (await run.status()).child_awaits

        ((child, (wait,)),) = (await until(waits)).items()
        assert isinstance(wait, AwaitConfirmation)
        return client.get_run(child), wait

    run = await client.start("till.boss", "go", principal=BEN)
    await child_of(run)
    at = (await the_event(run, "run_started")).event_id
    fork = await client.fork(run.id, at=at, principal=ANA)
    child, wait = await child_of(fork)
    for asker in (ANA, BEN):
        with pytest.raises(NotApprover, match=f"{asker.subject} asked for this call"):
            await child.approve(wait, principal=asker)
    await child.approve(wait, principal=KIM)
    await fork.result()
    await run.cancel()


def test_a_warning_about_a_call_has_its_arguments_as_they_are():
    """What a call was given stands in a form and at a terminal, where no sign is markup."""
    request = ToolRequest(name="shop.orders.place", payload={"lines": [{"sku": "*a_1*"}]}, tool_call_id="c-1")
    call = Call(key="call-c-1", event_id="", at=datetime.now(UTC), call=request)
    assert 'with {"lines": [{"sku": "*a_1*"}]}. With other' in edit_warning(call, None)
