"""What was once unknown about a call stays so until an attempt settles it, whatever question comes between."""

import uuid
from datetime import timedelta

import pytest

from sojourn import (
    Agent,
    App,
    CallFailed,
    Case,
    Client,
    InputForm,
    InputRequired,
    PlanResult,
    Retry,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Worker,
    flow,
)
from sojourn.errors import RunCanceled
from tests.bank import Bank, receipt_of

ASKS = RunPolicy(interrupts_allowed=True)
EARLIER = "An earlier attempt of this call may have taken effect"
CODE = InputForm(key="k", message="Which code?", form={"type": "object", "properties": {"code": {}}})


def results_of(messages):
    return [result for message in messages for result in message.tool_results]


async def twice(turn):
    """Pay, and pay once more with the same arguments if the first call failed."""
    results = results_of(turn.messages)
    if results and (results[-1].ok or len(results) > 1):
        return PlanResult.final(" / ".join("paid" if r.ok else str(r.error.code) for r in results))
    call_id = f"a{len(results) + 1}"
    arguments = {"payment": "p", "amount": 30}
    return PlanResult.calls(ToolRequest(name="desk.bank.pay", payload=arguments, tool_call_id=call_id))


def release(bank: Bank, **declared) -> App:
    tools = Toolset("desk.bank")

    @tools.tool(
        idempotent=True,
        confirmation="Pay {amount}?",
        retry=Retry(max_attempts=5, initial_interval=timedelta(seconds=3)),
        **declared,
    )
    async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
        """Pay."""
        return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

    return App(agents=[Agent("test.agent", planner=twice, uses=[tools], policy=ASKS)])


async def wait_of(status_when, run, await_id: str):
    status = await status_when(run, lambda status: [wait.id for wait in status.awaits] == [await_id])
    return status.awaits[0]


@pytest.mark.parametrize("then", ["deny", "cancel", "approve"])
async def test_an_approval_that_a_deploy_voids_after_a_lost_payment_stays_in_doubt(
    temporal_address, status_when, until, traces, then
):
    """The person who is asked again is warned, and whatever they decide, an equal call has the key of the first."""
    async with Bank.of(p=["lost", "503:7200"] if then == "approve" else ["lost"]) as bank:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(release(bank), client):
            run = await client.start("test.agent", "pay")
            await run.approve(await wait_of(status_when, run, "confirm-a1"))
            await until(lambda: bank.counts)
        async with Worker(release(bank, destructive=True), client):
            again = await wait_of(status_when, run, "confirm-a1#2")
            assert again.changes
            assert again.outcome_unknown
            assert again.prompt.startswith(EARLIER)
            events = [event async for event in run.events(follow=False)]
            shown = [event.confirmation for event in events if event.type == "await_confirmation"]
            assert [wait.outcome_unknown for wait in shown] == [False, True]
            repeated = run
            if then == "cancel":
                await run.cancel()
                with pytest.raises(RunCanceled):
                    await run.result()
                repeated = await client.fork(run.id, message="go on")
            elif then == "deny":
                await run.deny(again, "ask anew")
            else:
                await run.approve(again)
            later = await wait_of(status_when, repeated, "confirm-a2")
            assert later.prompt.startswith(EARLIER)
            await repeated.approve(later)
            await repeated.result()
            (first, second) = results_of(await repeated.transcript())
            assert first.error.outcome_unknown
            assert not first.error.without_effect
            assert "may have taken effect" in first.error.message
            assert second.ok
            assert bank.counts == {"p": 1}
            assert len(set(bank.requests["p"])) == 1
            ends = [event.result async for event in run.events() if event.type == "tool_end"]
            assert ends[0].error == first.error
            await traces(run).check()


def asking_for_a_code(bank: Bank) -> tuple[Toolset, list[str]]:
    """A tool that pays, and asks for a code in its second attempt; and the keys of its attempts."""
    tools, calls = Toolset("desk.bank"), list[str]()

    @tools.tool(idempotent=True, retry=Retry(max_attempts=5, initial_interval=timedelta(seconds=0.1)))
    async def pay(payment: str, amount: float, meta: ToolCallMeta):
        """Pay."""
        calls.append(meta.idempotency_key)
        if len(calls) == 2:
            return ToolResult(input_required=InputRequired(forms=[CODE]))
        return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

    return tools, calls


async def test_a_call_that_asks_for_input_after_a_lost_payment_stays_in_doubt(
    serve, status_when, until, traces
):
    """A question of the tool itself settles nothing about the attempt before it; a fork's equal call has the first one's key."""
    async with Bank.of(p=["lost"]) as bank:
        tools, _ = asking_for_a_code(bank)
        client = await serve(planner=twice, uses=(tools,), policy=ASKS)
        run = await client.start("test.agent", "pay")
        await wait_of(status_when, run, "input-a1")
        await run.cancel()
        with pytest.raises(RunCanceled):
            await run.result()
        (cut,) = results_of(await run.transcript())
        assert cut.error.outcome_unknown
        assert not cut.error.without_effect
        fork = await client.fork(run.id, message="go on")
        await fork.result()
        assert bank.counts == {"p": 1}
        assert len(set(bank.requests["p"])) == 1
        await traces(run).check()


async def test_an_attempt_after_the_question_settles_the_call(serve, status_when):
    """The call that goes on with a person's answer has the same key, and its success leaves nothing in doubt."""
    async with Bank.of(p=["lost"]) as bank:
        tools, calls = asking_for_a_code(bank)
        client = await serve(planner=twice, uses=(tools,), policy=ASKS)
        run = await client.start("test.agent", "pay")
        wait = await wait_of(status_when, run, "input-a1")
        await run.answer(wait.id, {"code": "7"})
        assert (await run.result()).text == "paid"
        assert len(set(calls)) == 1
        assert bank.counts == {"p": 1}


async def test_a_repetition_that_never_began_had_no_effect(serve, status_when):
    """A call that repeats one that was not carried out, and is interrupted before it begins, leaves nothing in doubt."""
    async with Bank.of(p=["503:7200"]) as bank:
        client = await serve(release(bank))
        talk = client.session("test.agent", f"s-{uuid.uuid4().hex[:8]}")
        await talk.send("pay")
        run = talk.run
        await run.approve(await wait_of(status_when, run, "confirm-a1"))
        await wait_of(status_when, run, "confirm-a2")
        reply = await talk.send("stop", mode="interrupt")
        await reply.result()
        refused, cut = results_of(await run.transcript())
        assert not refused.error.outcome_unknown
        assert cut.error.without_effect
        assert not cut.error.outcome_unknown
        assert "had no effect" in cut.error.message


@pytest.mark.parametrize("way", ["defaults", "person", "policy"])
async def test_no_repair_changes_the_arguments_of_a_payment_in_doubt(temporal_address, until, traces, way):
    """A deploy adds a required field after a lost answer: nobody fills it in, and the flow gets `CallFailed` with `outcome_unknown`."""
    caught = list[CallFailed]()
    fields = {"desk.bank.pay": {"purpose": "rent"}} if way == "defaults" else {}

    @flow(defaults=fields)
    def clerk(case: Case) -> str:
        """Pay."""
        try:
            return case.call("desk.bank.pay", payment="p", amount=30, step="pay")
        except CallFailed as failed:
            caught.append(failed)
            return "in doubt"

    policy = RunPolicy(
        interrupts_allowed=True, on_missing_fields="await_clarification" if way == "policy" else "resume"
    )

    def app(*, purpose: bool) -> App:
        tools = Toolset("desk.bank")

        async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
            """Pay."""
            return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

        async def pay_for(payment: str, amount: float, purpose: str, meta: ToolCallMeta) -> str:
            """Pay."""
            return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

        attempts = Retry(max_attempts=5, initial_interval=timedelta(seconds=3))
        tools.tool(name="pay", idempotent=True, retry=attempts)(pay_for if purpose else pay)
        return App(agents=[Agent("test.agent", planner=clerk, uses=[tools], policy=policy)])

    async with Bank.of(p=["lost"]) as bank:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(app(purpose=False), client):
            run = await client.start("test.agent", "pay")
            await until(lambda: bank.counts)
        async with Worker(app(purpose=True), client):
            assert (await run.result()).text == "in doubt"
            assert caught[0].outcome_unknown
            assert "takes these arguments no more" in caught[0].result.retry_hint.message
            assert "may have taken effect" in str(caught[0])
            assert len(bank.requests["p"]) == 1
            await traces(run).check()


async def test_a_tool_that_must_not_be_repeated_by_now_is_not_attempted_again(
    temporal_address, until, traces
):
    """A deploy declares `idempotent=False` after a lost answer: the next attempt calls nothing, and says that the outcome is unknown."""

    def app(*, idempotent: bool) -> App:
        tools = Toolset("desk.bank")

        @tools.tool(idempotent=idempotent, retry=Retry(max_attempts=5, initial_interval=timedelta(seconds=3)))
        async def pay(payment: str, amount: float, meta: ToolCallMeta) -> str:
            """Pay."""
            return await receipt_of(bank.url, payment, amount, meta.idempotency_key)

        return App(agents=[Agent("test.agent", planner=twice, uses=[tools])])

    async with Bank.of(p=["lost"]) as bank:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(app(idempotent=True), client):
            run = await client.start("test.agent", "pay")
            await until(lambda: bank.counts)
        async with Worker(app(idempotent=False), client):
            assert (await run.result()).text == "not_repeated / not_repeated"
            assert all(result.error.outcome_unknown for result in results_of(await run.transcript()))
            assert len(bank.requests["p"]) == 1
            await traces(run).check()
