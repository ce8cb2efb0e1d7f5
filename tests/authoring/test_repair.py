"""RepairingPlanner: its repairs, waits and questions, and what it leaves to the inner planner, on real runs (SR-117)."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field
from temporalio.api.enums.v1 import EventType

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    FieldIssue,
    Message,
    PlanInput,
    PlanResult,
    PlanResumeInput,
    RateLimited,
    Retry,
    RetryHint,
    RunContext,
    RunPolicy,
    ToolError,
    ToolFailed,
    ToolRequest,
    ToolResult,
    Toolset,
    ToolUnavailable,
)
from sojourn.contracts import Finalize
from sojourn.contracts.run_policy import Caps
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.hints import hint_for_issues
from sojourn.errors import DefinitionError, InvalidInput
from sojourn.repair import RepairingPlanner, clarification_for, repair_calls, wait_or_substitute

TIMER = EventType.EVENT_TYPE_TIMER_STARTED
ONCE = Retry(max_attempts=1)
SOON = timedelta(milliseconds=10)

Count = Annotated[int, Field(le=10)]


class Shop:
    """Tools that record their executions, and raise the exceptions in `failures` first."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []
        self.failures: list[Exception] = []
        self.tools = Toolset("test.shop")
        example = {"item": "apple", "day": "monday"}

        @self.tools.tool(read_only=True, retry=ONCE, examples=[example])
        async def look(item: str, day: Literal["monday", "friday"], count: Count = 1) -> str:
            """Read."""
            return self._did("look", item=item, day=day, count=count)

        @self.tools.tool(destructive=True, retry=ONCE, examples=[example])
        async def order(item: str, day: Literal["monday", "friday"], count: Count = 1) -> str:
            """Change."""
            return self._did("order", item=item, day=day, count=count)

        @self.tools.tool(idempotent=True, retry=ONCE, examples=[{"item": "apple"}])
        async def pay(item: str) -> str:
            """Change, once for each idempotency key."""
            return self._did("pay", item=item)

        @self.tools.tool(idempotent=False)
        async def charge(item: str) -> str:
            """Change, once."""
            return self._did("charge", item=item)

        @self.tools.tool(read_only=True, retry=ONCE)
        async def guess(item: str, day: str = "") -> str:
            """Read elsewhere."""
            return self._did("guess", item=item, day=day)

        @self.tools.tool(idempotent=False, retry=ONCE)
        async def send(item: str) -> str:
            """Change, at most once."""
            return self._did("send", item=item)

    def _did(self, tool: str, **payload: Any) -> str:
        self.done.append((tool, payload))
        if self.failures:
            raise self.failures.pop(0)
        return f"{tool} {payload['item']}"


class Inner:
    """A planner that makes its calls, then answers with their results; records its later turns."""

    def __init__(self, *calls: ToolRequest) -> None:
        self.calls = calls
        self.turns: list[PlanResumeInput] = []

    async def plan_start(self, turn: PlanInput) -> PlanResult:
        return PlanResult.calls(*self.calls)

    async def plan_resume(self, turn: PlanResumeInput) -> PlanResult:
        self.turns.append(turn)
        return PlanResult.final(
            "; ".join(
                str(result.result if result.ok else result.error and result.error.code)
                for result in turn.tool_results
            )
        )


def call(tool: str, **payload: Any) -> ToolRequest:
    return ToolRequest(name=f"test.shop.{tool}", payload=payload)


def failed(reason: str, tool: str, **fields: Any) -> ToolFailed:
    return ToolFailed(f"{tool}: {reason}", hint=RetryHint(reason=reason, tool=f"test.shop.{tool}", **fields))


def policy(**fields: Any) -> RunPolicy:
    return RunPolicy(approval=ApprovalPolicy.unattended(), **fields)


ALONE = policy()
ASKS = policy(interrupts_allowed=True)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def start(serve, shop):
    """Start a run whose calls are repaired; return the run and the inner planner."""

    async def started(*calls: ToolRequest, policy: RunPolicy = ALONE, **options: Any):
        inner = Inner(*calls)
        planner = RepairingPlanner(inner, **options)
        agent = Agent("test.agent", planner=planner, uses=[shop.tools], policy=policy)
        client = await serve(App(agents=[agent]))
        return await client.start("test.agent", "go"), inner

    return started


async def ids_of(traces, run) -> list[list[str]]:
    """The ids of the run's calls, step by step, the first call's as `x`."""
    messages = await traces(run).check()
    steps = [[call.tool_call_id for call in message.tool_calls] for message in messages if message.tool_calls]
    return [[call_id.replace(steps[0][0], "x") for call_id in step] for step in steps]


# Repair and retry.


@pytest.mark.parametrize(
    ("sent", "executed"),
    [
        pytest.param(call("look", item="pear", day="FRIDAY"), "friday", id="reading, another form"),
        pytest.param(call("look", item="pear", day="fridy"), "friday", id="reading, misspelt"),
        pytest.param(call("order", item="pear", day="Friday"), "friday", id="destructive, another form"),
        pytest.param(call("order", ITEM="pear", day="friday"), "friday", id="destructive, another name"),
    ],
)
async def test_a_safe_repair_is_made_and_the_planner_sees_only_its_outcome(
    start, traces, shop, sent, executed
):
    """The call is repaired once, with an id made from its own; the inner planner gets the result as that of its call (SR-92, SR-145)."""
    run, inner = await start(sent)
    output = await run.result()
    tool = sent.name.rsplit(".", 1)[-1]
    assert output.text == f"{tool} pear"
    assert shop.done == [(tool, {"item": "pear", "day": executed, "count": 1})]
    assert await ids_of(traces, run) == [["x"], ["x-repair1"]]
    (turn,) = inner.turns
    assert [result.ok for result in turn.tool_results] == [True]
    assert turn.hints == []
    assert any(note.startswith(f"repaired {sent.name}: ") for note in output.notes)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(call("look", day="friday"), id="reading, no item"),
        pytest.param(call("look", item="pear", day="sunday"), id="reading, another word"),
        pytest.param(call("order", day="friday"), id="destructive, no item"),
        pytest.param(call("order", item="pear", day="fridy"), id="destructive, misspelt"),
        pytest.param(call("order", item="pear", day="friday", count=99), id="destructive, out of range"),
        pytest.param(
            call("order", item="pear", day="friday", dry_run=True), id="destructive, an unknown field"
        ),
        pytest.param(call("pay", item="pear", dry_run=True), id="idempotent, an unknown field"),
    ],
)
async def test_a_repair_that_would_be_a_guess_is_left_to_the_planner(start, shop, sent):
    """Where nobody may be asked, the inner planner gets the failure, and no tool is executed (SR-145)."""
    run, inner = await start(sent)
    assert (await run.result()).text in ("invalid_arguments", "missing_fields")
    assert shop.done == []
    assert len(inner.turns) == 1
    assert len(inner.turns[0].hints) == 1


async def test_a_default_is_filled_in(start, shop):
    """A value of `defaults` is used for any tool, and only where the call lacks the field."""
    run, _ = await start(
        call("order", item="pear"), defaults={"test.shop.order": {"day": "monday", "item": "apple"}}
    )
    assert (await run.result()).text == "order pear"
    assert shop.done == [("order", {"item": "pear", "day": "monday", "count": 1})]


async def test_the_others_of_a_step_keep_their_results(start, traces, shop):
    """Only failed calls are made again, in one step; the inner planner gets all results of its step, in call order."""
    run, _ = await start(
        call("look", item="a", day="Friday"),
        call("look", item="b", day="friday"),
        call("look", item="c", day="never"),
        call("look", item="d", day="FRIDAY", count="2"),
    )
    assert (await run.result()).text == "look a; look b; invalid_arguments; look d"
    first, *again = [payload["item"] for _, payload in shop.done]
    assert first == "b"
    assert sorted(again) == ["a", "d"]  # calls of one step are executed side by side, in any order
    assert [len(step) for step in await ids_of(traces, run)] == [4, 2]


async def test_a_repair_that_failed_is_not_tried_again(start, shop):
    """A tool that refuses the repaired payload with the same hint is called once."""
    shop.failures = [
        failed(
            "invalid_arguments",
            "look",
            prior_input={"item": "pear", "day": "FRIDAY"},
            example_input={"item": "pear", "day": "friday"},
            issues=[FieldIssue(field="/day", constraint="invalid_enum_value", allowed=["friday"])],
        )
    ] * 5
    run, inner = await start(call("look", item="pear", day="FRIDAY"))
    assert (await run.result()).text == "ToolFailed"
    assert len(shop.done) == 1
    assert len(inner.turns) == 1


async def test_repairs_of_a_call_are_bounded(start, shop):
    """After `max_repairs` calls in place of a call, its failure is left to the inner planner."""
    shop.failures = [
        failed(
            "invalid_arguments",
            "look",
            example_input={"item": "pear", "day": "friday", "count": count},
            issues=[FieldIssue(field="/count", constraint="invalid_range", minimum=count)],
        )
        for count in range(2, 9)
    ]
    run, inner = await start(
        call("look", item="pear", day="friday", count=1),
        max_repairs=2,
        policy=policy(max_consecutive_failed_tool_calls=None),
    )
    assert (await run.result()).text == "ToolFailed"
    assert [payload["count"] for _, payload in shop.done] == [1, 2, 3]
    assert len(inner.turns) == 1


async def test_long_ids_of_a_planner_are_repaired_too(start, traces, shop):
    """An id that leaves no room for a suffix is hashed; the result still finds its call."""
    named = call("look", item="pear", day="Friday").model_copy(update={"tool_call_id": "c" * 64})
    run, _ = await start(named)
    assert (await run.result()).text == "look pear"
    (_, (second,)) = await ids_of(traces, run)
    assert second.endswith("-repair1")


async def test_an_id_that_looks_like_a_repairs_is_no_repair(start, shop):
    """A call id that only looks like a repair's counts as the planner's own."""
    named = call("look", item="pear", day="Friday").model_copy(update={"tool_call_id": "mine-repair1"})
    run, _ = await start(named)
    assert (await run.result()).text == "look pear"


# Back off or switch tools.


@pytest.mark.parametrize(
    ("tool", "failure"),
    [
        ("look", RateLimited("slow", retry_after=SOON)),
        ("order", RateLimited("slow", retry_after=SOON)),
        ("order", ToolUnavailable("closed", retry_after=SOON)),
        ("look", failed("timeout", "look", retry_after=SOON)),
    ],
)
async def test_a_durable_wait_then_the_same_call(start, traces, shop, tool, failure):
    """The run waits on a durable timer, and makes the same call again; nobody is asked (SR-136)."""
    shop.failures = [failure]
    run, inner = await start(call(tool, item="pear", day="friday"), policy=ASKS)
    assert (await run.result()).text == f"{tool} pear"
    assert [payload for _, payload in shop.done] == [{"item": "pear", "day": "friday", "count": 1}] * 2
    assert await traces(run).count(TIMER) == 1
    assert await ids_of(traces, run) == [["x"], ["x-repair1"]]
    assert len(inner.turns) == 1


@pytest.mark.parametrize(
    ("tool", "failure"),
    [
        pytest.param("look", RateLimited("slow", retry_after=timedelta(days=9)), id="longer than max_wait"),
        pytest.param("look", failed("rate_limited", "look"), id="no retry_after"),
        pytest.param("order", failed("timeout", "order", retry_after=SOON), id="a change that timed out"),
        pytest.param("send", failed("timeout", "send", retry_after=SOON), id="at most once"),
        pytest.param("look", failed("moonlight", "look", retry_after=SOON), id="an unknown reason"),
    ],
)
async def test_what_waiting_would_not_repair_is_left_to_the_planner(start, traces, shop, tool, failure):
    """A call whose effect is unknown, or whose wait would be too long or unknown, is not made again (SR-136)."""
    shop.failures = [failure]
    run, inner = await start(
        call(tool, item="pear", **{"day": "friday"} if tool != "send" else {}), policy=ASKS
    )
    assert (await run.result()).text in ("ToolFailed", "rate_limited")
    assert len(shop.done) == len(inner.turns) == 1
    assert await traces(run).count(TIMER) == 0


async def test_an_idempotent_call_that_may_have_taken_effect_is_made_again(start, shop):
    """The same call is the same effect, by its key; no other tool takes its place, which would be a second effect."""
    shop.failures = [failed("timeout", "pay", retry_after=SOON)]
    run, _ = await start(call("pay", item="pear"), alternatives={"test.shop.pay": "test.shop.guess"})
    assert (await run.result()).text == "pay pear"
    assert shop.done == [("pay", {"item": "pear"})] * 2


async def test_waits_end_with_the_run_s_own_limits(start, traces, shop):
    """Under a rate limit that persists, tries after a wait are no strikes, but failed steps: the policy's number of them ends the run."""
    shop.failures = [RateLimited("slow", retry_after=SOON) for _ in range(9)]
    limits = policy(max_consecutive_failed_tool_calls=3)
    run, inner = await start(call("look", item="pear", day="friday"), policy=limits)
    output = await run.result()
    assert output.reason == "failure_streak"
    assert len(shop.done) == 3
    assert inner.turns[-1].finalize is not None


@pytest.mark.parametrize(
    "failure",
    [
        RateLimited("slow", retry_after=SOON),
        ToolUnavailable("closed"),
        failed("timeout", "look"),
    ],
)
@pytest.mark.parametrize(
    "other",
    ["test.shop.guess", lambda made: call("guess", item=made.payload["item"])],
    ids=["id", "function"],
)
async def test_an_alternative_takes_the_place_of_a_tool_that_is_away(start, traces, shop, failure, other):
    """The alternative is called at once, with the same payload or with the one that a function makes (SR-136)."""
    shop.failures = [failure]
    sent = call("look", item="pear", day="friday")
    run, inner = await start(sent, alternatives={"test.shop.look": other})
    assert (await run.result()).text == "guess pear"
    assert [tool for tool, _ in shop.done] == ["look", "guess"]
    assert await traces(run).count(TIMER) == 0
    assert inner.turns[0].tool_results[0].name == "test.shop.guess"


async def test_alternatives_are_tried_once_each(start, shop):
    """Two tools that are each other's alternatives are called once each."""
    shop.failures = [ToolUnavailable("closed") for _ in range(9)]
    run, _ = await start(
        call("look", item="pear", day="friday"),
        alternatives={"test.shop.look": "test.shop.guess", "test.shop.guess": "test.shop.look"},
    )
    assert (await run.result()).text == "tool_unavailable"
    assert [tool for tool, _ in shop.done] == ["look", "guess"]


async def test_a_change_that_timed_out_has_no_alternative(start, shop):
    """A change that timed out may have taken effect; an alternative would repeat the effect."""
    shop.failures = [failed("timeout", "pay")]
    run, _ = await start(call("pay", item="pear"), alternatives={"test.shop.pay": "test.shop.guess"})
    assert (await run.result()).text == "ToolFailed"
    assert [tool for tool, _ in shop.done] == ["pay"]


async def test_a_call_that_may_run_only_once_is_not_made_again(start, traces, shop):
    """A tool that became unavailable during a call may have done its work: neither it nor an alternative is called again."""
    shop.failures = [failed("tool_unavailable", "send", retry_after=SOON)]
    run, _ = await start(call("send", item="pear"), alternatives={"test.shop.send": "test.shop.pay"})
    assert (await run.result()).text == "ToolFailed"
    assert shop.done == [("send", {"item": "pear"})]
    assert await traces(run).count(TIMER) == 0


# Ask.


async def test_a_person_is_asked_and_the_answer_used(start, status_when, traces, shop):
    """The question names the tool and the missing fields, and its answer repairs the call (SR-94, SR-145)."""
    run, inner = await start(call("order", day="friday"), policy=ASKS)
    (question,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert (question.id, question.restrict_to_tool) == ("fix-test.shop.order", "test.shop.order")
    assert (question.missing_fields, question.example_input) == (["item"], {"item": "apple", "day": "friday"})
    await run.answer(question.id, "pear")
    assert (await run.result()).text == "order pear"
    assert shop.done == [("order", {"item": "pear", "day": "friday", "count": 1})]
    assert await ids_of(traces, run) == [["x"], ["x-repair1"]]
    assert len(inner.turns) == 1


async def test_only_fields_without_a_repair_are_asked_for(start, status_when, shop):
    """A field that can be repaired is not asked for; an answer by field has all of the others."""
    sent = call("order", count="3", day="some day")
    run, _ = await start(sent, policy=ASKS)
    (question,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert question.missing_fields == question.form["required"] == ["item", "day"]
    assert "count" not in question.question
    with pytest.raises(InvalidInput, match="item is missing"):
        await run.answer(question.id, {"day": "monday"})
    await run.answer(question.id, {"item": "pear", "day": "monday"})
    await run.result()
    assert shop.done == [("order", {"item": "pear", "day": "monday", "count": 3})]


async def test_an_answer_that_the_tool_refuses_is_asked_again_within_bounds(start, status_when, shop):
    """A refused answer leads to a new question, from the new hint."""
    shop.failures = [
        failed("invalid_arguments", "pay", issues=[FieldIssue(field="/item", constraint="sold_out")])
    ]
    run, _ = await start(call("pay"), policy=ASKS)
    (first,) = (await status_when(run, lambda status: status.awaits)).awaits
    await run.answer(first.id, "pear")
    (second,) = (
        await status_when(run, lambda status: status.awaits and status.awaits[0].id != first.id)
    ).awaits
    assert second.id == "fix-test.shop.pay#2"
    await run.answer(second.id, "plum")
    assert (await run.result()).text == "pay plum"


@pytest.mark.parametrize(
    "settle",
    [
        lambda run: run.decline(None, "I do not know"),
        lambda run: run.answer(None, "whatever you like, or nothing"),
    ],
    ids=["declined", "in words"],
)
async def test_an_answer_without_values_is_left_to_the_planner(start, status_when, shop, settle):
    """A declined question, or an answer without values, is not asked again: the inner planner gets the failure and the reply (SR-145)."""
    run, inner = await start(call("order"), policy=ASKS)
    await status_when(run, lambda status: status.awaits)
    await settle(run)
    assert (await run.result()).text == "missing_fields"
    assert shop.done == []
    (turn,) = inner.turns
    assert len(turn.tool_results) == 1
    assert turn.messages[-1].role in ("user", "system")


async def test_the_policy_s_own_question_serves_too(start, status_when, shop):
    """An answer to a question of the run's policy repairs the call too (SR-77)."""
    run, _ = await start(
        call("pay"), policy=policy(interrupts_allowed=True, on_missing_fields="await_clarification")
    )
    await status_when(run, lambda status: status.awaits)
    await run.answer(None, "pear")
    assert (await run.result()).text == "pay pear"


async def test_a_repaired_destructive_call_is_still_approved_by_a_person(start, status_when, shop):
    """A repaired call needs approval like any other: the person sees the repaired payload."""
    run, _ = await start(call("order", item="pear", day="FRIDAY"), policy=RunPolicy(interrupts_allowed=True))
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert wait.payload == {"item": "pear", "day": "friday"}
    await run.deny(wait.id, "not today")
    assert (await run.result()).text == "denied"
    assert shop.done == []


# Leave it to the inner planner.


async def test_a_final_turn_is_the_planner_s_own(start, shop):
    """Nothing is repaired when only an answer is legal, and the turn is passed on as it is."""
    run, inner = await start(
        call("look", item="pear", day="FRIDAY"), policy=policy(max_consecutive_failed_tool_calls=1)
    )
    output = await run.result()
    assert output.reason == "failure_streak"
    assert shop.done == []
    assert inner.turns[0].finalize.reason == "failure_streak"


async def test_the_planner_s_own_waits_are_its_own(serve, status_when, shop):
    """A wait that the inner planner planned itself ends in a turn of the inner planner, without old results."""
    turns: list[Any] = []

    async def plan(turn):
        turns.append(turn)
        if not turn.messages[-1].tool_results and len(turn.messages) == 1:
            return PlanResult.calls(call("order", item="pear", day="never"))
        if turn.tool_results:
            return PlanResult.wait(SOON)
        return PlanResult.final(f"after {turn.messages[-1].text}")

    agent = Agent("test.agent", planner=RepairingPlanner(plan), uses=[shop.tools], policy=policy())
    client = await serve(App(agents=[agent]))
    assert (await client.execute("test.agent", "go")).text == "after Waited 0.01 s."
    assert turns[-1].tool_results == []


async def test_a_run_without_failures_is_not_changed(start, traces):
    """A run without failed calls has the inner planner's plans alone."""
    run, inner = await start(call("look", item="pear", day="friday"))
    assert (await run.result()).text == "look pear"
    assert len(inner.turns) == 1


def test_the_inner_planner_must_be_a_planner():
    """An object that is no planner is refused when it is declared."""
    with pytest.raises(DefinitionError, match="RepairingPlanner"):
        RepairingPlanner("plan")  # type: ignore[arg-type]


# The functions alone.


def turn_after(shop: Shop, *messages: Message, **fields: Any) -> PlanResumeInput:
    return PlanResumeInput(
        run=RunContext(run_id="r", agent_id="test.agent", interrupts_allowed=True),
        messages=[Message.user("go"), *messages],
        tools=[tool.spec for tool in shop.tools.tools.values()],
        **fields,
    )


def refused(shop: Shop, sent: ToolRequest, tool_call_id: str = "x") -> list[Message]:
    """Return the messages of a step whose one call was refused at the boundary."""
    tool = shop.tools.tools[sent.name.rsplit(".", 1)[-1]]
    made = sent.model_copy(update={"tool_call_id": tool_call_id})
    issues = tool.validator.issues(made.payload)
    answer = hint_for_issues(tool.spec, made.payload, issues, tool.validator)
    return [Message.calls([made]), Message.results([refusal(made, answer)])]


MENDABLE = call("look", item="pear", day="FRIDAY")
ASKABLE = call("look", day="friday")


def test_each_function_does_its_own_part(shop):
    """A planner in code may use one of the three and do the rest itself (SR-145)."""
    mendable, askable = refused(shop, MENDABLE), refused(shop, ASKABLE)
    assert repair_calls(turn_after(shop, *mendable)).tool_calls[0].payload == {
        "item": "pear",
        "day": "friday",
    }
    assert clarification_for(turn_after(shop, *mendable)) is None
    assert repair_calls(turn_after(shop, *askable)) is None
    assert clarification_for(turn_after(shop, *askable)).await_.missing_fields == ["item"]
    assert (
        wait_or_substitute(turn_after(shop, *mendable))
        is wait_or_substitute(turn_after(shop, *askable))
        is None
    )
    assert (
        repair_calls(turn_after(shop))
        is clarification_for(turn_after(shop))
        is wait_or_substitute(turn_after(shop))
        is None
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"finalize": Finalize(reason="time_budget", message="over")},
        {"caps": Caps(rounds=0)},
        {"caps": Caps(tool_calls=0)},
        {"tools": []},
    ],
    ids=["final turn", "no rounds left", "no calls left", "the tool was taken away"],
)
@pytest.mark.parametrize("sent", [MENDABLE, ASKABLE], ids=["mendable", "askable"])
def test_nothing_is_planned_where_no_call_could_follow(shop, sent, fields):
    """No repair, wait or question is planned when no call of the tool could follow."""
    turn = turn_after(shop, *refused(shop, sent)).model_copy(update=fields)
    assert repair_calls(turn) is clarification_for(turn) is wait_or_substitute(turn) is None


@pytest.mark.parametrize(
    "since",
    [
        [Message.user("never mind")],
        [Message.assistant("Which?"), Message.user("pear")],
        [Message.system("The last plan was refused: too long.")],
        [Message.assistant("What should `item` be?")],
        [Message.assistant("What should `item` be?"), Message.user("pear"), Message.user("and be quick")],
        [Message.assistant("What should `item` be?"), Message.system("Declined."), Message.user("go on")],
    ],
)
def test_messages_since_the_failure_are_for_the_planner(shop, since):
    """A message of a person, and a question of the planner's own, come before any repair."""
    turn = turn_after(shop, *refused(shop, ASKABLE), *since)
    assert repair_calls(turn) is clarification_for(turn) is wait_or_substitute(turn) is None


def test_arguments_that_are_no_json_are_not_repaired(shop):
    """Arguments that are no JSON cannot be kept, so the call is neither repaired nor asked about."""
    made = ToolRequest(name="test.shop.look", raw='{"item": "pe', tool_call_id="x")
    messages = refused(shop, ASKABLE)
    result = messages[1].tool_results[0]
    hint = result.retry_hint.model_copy(update={"prior_input": None})
    result = result.model_copy(update={"retry_hint": hint})
    turn = turn_after(shop, Message.calls([made]), Message.results([result]))
    assert (
        repair_calls(turn, defaults={"test.shop.look": {"item": "pear"}}) is clarification_for(turn) is None
    )


@pytest.mark.parametrize(
    ("tool", "reason", "is_repeated"),
    [
        ("charge", "tool_unavailable", False),
        ("charge", "timeout", False),
        ("charge", "rate_limited", True),
        ("pay", "tool_unavailable", True),
    ],
)
def test_a_call_that_may_have_begun_is_repeated_only_where_that_is_safe(shop, tool, reason, is_repeated):
    """Whether an unavailable `idempotent=False` tool had begun is unknown; a rate limit is reported before a call begins."""
    made = call(tool, item="pear").model_copy(update={"tool_call_id": "x"})
    hint = RetryHint(reason=reason, tool=made.name, retry_after=SOON)
    result = ToolResult(name=made.name, tool_call_id="x", error=ToolError.new("no"), retry_hint=hint)
    turn = turn_after(shop, Message.calls([made]), Message.results([result]))
    assert (wait_or_substitute(turn) is not None) is is_repeated
    other = {made.name: "test.shop.guess"}
    assert (wait_or_substitute(turn, alternatives=other) is not None) is is_repeated


def test_each_call_made_in_place_of_another_has_a_number_of_its_own(shop):
    """The number is in the id, by which the repairs of a call are counted; after `max_repairs` there are no more."""
    again = call("look", item="pear", day="MONDAY")
    turn = turn_after(shop, *refused(shop, MENDABLE), *refused(shop, again, "x-repair1"))
    assert [each.tool_call_id for each in repair_calls(turn, max_repairs=2).tool_calls] == ["x-repair2"]
    assert repair_calls(turn, max_repairs=1) is None


def away(*failures: tuple[str, str, float]) -> list[Message]:
    """Return the messages of a step of failed calls, each given by its tool, its reason and its `retry_after` in seconds."""
    calls, results = list[ToolRequest](), list[ToolResult]()
    for n, (tool, reason, seconds) in enumerate(failures):
        made = call(tool, item="pear").model_copy(update={"tool_call_id": f"x{n}"})
        hint = RetryHint(reason=reason, tool=made.name, retry_after=timedelta(seconds=seconds))
        calls.append(made)
        error = ToolError.new("no", code=reason)
        results.append(
            ToolResult(name=made.name, tool_call_id=made.tool_call_id, error=error, retry_hint=hint)
        )
    return [Message.calls(calls), Message.results(results)]


@pytest.mark.parametrize(("seconds", "waited"), [((3, 7), 7), ((7, 3), 7), ((0.2, 0.1), 1)])
def test_a_step_waits_for_the_last_of_its_tools_that_are_away(shop, seconds, waited):
    """The calls of a step have one wait, the longest and of a second at least; then each is made again."""
    failures = away(*(("look", "rate_limited", each) for each in seconds))
    plan = wait_or_substitute(turn_after(shop, *failures))
    assert plan.wait_ == timedelta(seconds=waited)
    after = turn_after(shop, *failures, Message.system(f"Waited {waited} s."))
    again = wait_or_substitute(after).tool_calls
    assert [each.tool_call_id for each in again] == ["x0-repair1", "x1-repair1"]


@pytest.mark.parametrize("trusted", [True, False])
def test_an_untrusted_tool_that_says_it_only_reads_is_not_called_again(shop, trusted):
    """A call that timed out may have changed something: it is made again only if a trusted tool says that it only reads."""
    turn = turn_after(shop, *away(("look", "timeout", 1)))
    tools = [spec.model_copy(update={"trusted": trusted}) for spec in turn.tools]
    assert (wait_or_substitute(turn.model_copy(update={"tools": tools})) is not None) is trusted


def test_a_hint_for_another_tool_is_not_used(shop):
    """An example belongs to the tool that the hint names."""
    messages = refused(shop, MENDABLE)
    result = messages[1].tool_results[0]
    hint = result.retry_hint.model_copy(update={"tool": "test.shop.guess"})
    messages[1] = Message.results([result.model_copy(update={"retry_hint": hint})])
    assert repair_calls(turn_after(shop, *messages)) is clarification_for(turn_after(shop, *messages)) is None
