"""Steps of flows: a new version of a function finds what has run, and passes by no payment."""

import itertools
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from sojourn import Case, RunFailed, RunPolicy, ToolFailed, ToolRequest, Toolset, flow
from sojourn.core.run.approval import APPROVE
from sojourn.core.run.ids import is_named, step_id
from sojourn.errors import DefinitionError
from sojourn.flows.steps import ChangedFlowError, Recorded, Steps

paid: list[tuple[str, object]] = []
bank = Toolset("steps.bank")


class Receipt(BaseModel):
    """A receipt."""

    number: int


@bank.tool(idempotent=True)
async def pay(purpose: str, at: float = 0) -> Receipt:
    """Pay."""
    paid.append((purpose, at))
    if purpose == "broke":
        raise ToolFailed("no money")
    return Receipt(number=len(paid))


@bank.tool(idempotent=True)
async def transfer(purpose: str) -> Receipt:
    """Pay, by the new name of the tool."""
    paid.append((purpose, "transfer"))
    return Receipt(number=len(paid))


@bank.tool
async def note(step: str) -> str:
    """Take a note; the tool has an argument `step` of its own."""
    return step


@bank.tool(read_only=True)
async def balance(of: str) -> int:
    """Tell a balance."""
    return len(of)


ASKING = RunPolicy(interrupts_allowed=True)


@pytest.fixture
async def deploy(serve, status_when):
    """Run one version of a flow until it asks `Next?`, then another one; return the run's output."""
    paid.clear()

    async def deployed(before: Callable[[Case], object], after: Callable[[Case], object], **options):
        versions = iter([before])
        now = {"run": next(versions)}

        @flow(**options)
        def desk(case: Case) -> str:
            """Do what the present version does."""
            return f"{now['run'](case)}"

        client = await serve(planner=desk, uses=(bank,), policy=ASKING)
        run = await client.start("test.agent", "go")
        (await status_when(run, lambda status: status.awaits)).awaits  # noqa: B018 - it waits
        now["run"] = after
        await run.answer("yes")
        return run

    return deployed


def asks(case: Case) -> None:
    case.ask("Next?")


async def test_a_named_step_keeps_its_payment_when_its_tool_is_renamed(deploy):
    """The recorded result of the step is used, typed by the new tool, with a note of what differs."""

    def before(case: Case) -> object:
        case.call(pay, purpose="lunch", step="pay")
        asks(case)

    def after(case: Case) -> object:
        receipt = case.call(transfer, purpose="Lunch", step="pay")
        asks(case)
        return receipt.number + case.call(balance, of="x")

    run = await deploy(before, after)
    assert (await run.result()).text == "2"
    assert paid == [("lunch", 0)]
    notes = [event.text async for event in run.events() if event.type == "planner_note"]
    assert any("pay called steps.bank.pay and had another purpose" in text for text in notes)


async def test_a_renamed_tool_without_a_name_fails_the_run(deploy):
    """A payment that the new code passes by fails the run before anything is paid again, and names the mend."""

    def before(case: Case) -> object:
        case.call(pay, purpose="lunch")
        asks(case)

    def after(case: Case) -> object:
        receipt = case.call(transfer, purpose="lunch")
        asks(case)
        return receipt.number

    run = await deploy(before, after)
    with pytest.raises(
        RunFailed, match=r"passes by what has run: steps\.bank\.pay .*step='steps\.bank\.pay#1'"
    ):
        await run.result()
    assert paid == [("lunch", 0)]


async def test_the_named_mend_takes_the_payment_up(deploy):
    """The name of the error, as `step`, finds the call that was made without a name."""

    def before(case: Case) -> object:
        case.call(pay, purpose="lunch")
        asks(case)

    def after(case: Case) -> object:
        receipt = case.call(transfer, purpose="lunch", step="steps.bank.pay#1")
        asks(case)
        return receipt.number

    assert (await (await deploy(before, after)).result()).text == "1"
    assert paid == [("lunch", 0)]


async def test_a_reworded_argument_is_the_same_step(deploy):
    """A call whose arguments differ is the recorded one of its number; calls with equal arguments come first."""

    def before(case: Case) -> object:
        for purpose in ("lunch", "taxi"):
            case.call(pay, purpose=purpose)
        asks(case)

    def after(case: Case) -> object:
        numbers = [case.call(pay, purpose=purpose).number for purpose in ("Lunch", "taxi")]
        asks(case)
        return numbers

    assert (await (await deploy(before, after)).result()).text == "[1, 2]"
    assert paid == [("lunch", 0), ("taxi", 0)]


async def test_a_dropped_payment_fails_the_run_or_asks(deploy, status_when):
    """With `ask` a person decides whether the flow goes on without the call; with `ignore` nobody does."""

    def before(case: Case) -> object:
        case.call(pay, purpose="lunch")
        asks(case)

    def after(case: Case) -> object:
        asks(case)
        return case.call(balance, of="xy")

    run = await deploy(before, after, on_skipped_call="ask")
    asked = (
        await status_when(run, lambda status: status.awaits and "passes by" in status.awaits[0].question)
    ).awaits
    await run.answer(asked[0].id, "yes")
    assert (await run.result()).text == "2"
    run = await deploy(before, after, on_skipped_call="ask")
    asked = (
        await status_when(run, lambda status: status.awaits and "passes by" in status.awaits[0].question)
    ).awaits
    await run.answer(asked[0].id, "no")
    with pytest.raises(RunFailed, match="a person declined"):
        await run.result()
    run = await deploy(before, after, on_skipped_call="ignore")
    assert (await run.result()).text == "2"
    with pytest.raises(RunFailed, match="passes by"):
        await (await deploy(before, after)).result()


async def test_a_clock_in_an_argument_fails_the_run_after_one_payment(serve):
    """The function runs twice where arguments differ; what differs between the two does not follow from the case."""
    paid.clear()
    clock = itertools.count()

    @flow
    def desk(case: Case) -> str:
        """Pay, with the time."""
        return f"{case.call(pay, purpose='lunch', at=next(clock)).number}"

    client = await serve(planner=desk, uses=(bank,))
    with pytest.raises(RunFailed, match=r"the argument at of step steps\.bank\.pay#1 differs each time"):
        await client.execute("test.agent", "go")
    assert len(paid) == 1


async def test_a_failed_call_is_made_anew_by_a_new_version(deploy):
    """A definite failure had no effect: a new version with other arguments calls again."""

    def before(case: Case) -> object:
        try:
            case.call(pay, purpose="broke")
        except Exception as failed:
            case.note(str(failed))
        asks(case)

    def after(case: Case) -> object:
        number = case.call(pay, purpose="lunch").number
        asks(case)
        return number

    assert (await (await deploy(before, after)).result()).text == "2"
    assert [purpose for purpose, _ in paid] == ["broke", "lunch"]


async def test_a_tool_with_an_argument_step_gets_it(serve):
    """`step` is such a tool's own argument."""

    @flow
    def desk(case: Case) -> str:
        """Take a note."""
        return case.call("steps.bank.note", step="first")

    client = await serve(planner=desk, uses=(bank,))
    assert (await client.execute("test.agent", "go")).text == "first"


def test_the_setting_has_three_values():
    """Another value is refused where the flow is declared."""
    with pytest.raises(DefinitionError, match="on_skipped_call is fail, ask or ignore"):
        flow(on_skipped_call="sometimes")(lambda case: "")


def made(**payload: object) -> ToolRequest:
    return ToolRequest(name="a.b.pay", payload=payload)


def steps_of(*recorded: Recorded) -> Steps:
    return Steps(recorded, lambda _: True)


@pytest.mark.parametrize("old", [True, False], ids=["earlier version", "this version"])
def test_recorded_calls_are_found_whichever_version_made_them(old):
    """Ids of earlier versions are made of tool and arguments: their calls are found by equal arguments, or by number."""
    ids = ["pay-0123456789ab", "pay-0123456789ab-2"] if old else [step_id("a.b.pay#1"), step_id("a.b.pay#2")]
    recorded = [Recorded(id, "a.b.pay", {"n": 1}) for id in ids]
    steps = steps_of(*recorded)
    assert [steps.take(made(n=1), None).call.tool_call_id for _ in range(3)][:2] == ids
    assert not steps.unclaimed()
    steps = steps_of(*recorded)
    assert [steps.take(made(n=n), None).call.tool_call_id for n in (7, 8)] == ids


def test_a_name_for_a_call_that_had_none_finds_it():
    """A version that names its steps takes up what the one before has made, by equal arguments."""
    steps = steps_of(Recorded("pay-0123456789ab", "a.b.pay", {"n": 1}))
    assert steps.take(made(n=1), "pay").recorded
    assert steps.take(made(n=1), "pay").call.tool_call_id == step_id("pay#2")


def test_an_inserted_call_that_takes_the_place_of_another_is_refused():
    """Where a call may be either of two steps, the flow is told to name them."""
    steps = steps_of(Recorded(step_id("a.b.pay#1"), "a.b.pay", {"n": 1}))
    steps.take(made(n=0), None)
    with pytest.raises(ChangedFlowError, match="name the step"):
        steps.take(made(n=1), None)


def test_an_approval_holds_only_for_what_was_shown():
    """An approval of a flow is found by equal arguments alone: one of 30 does not stand for one of 3,000."""
    steps = steps_of(Recorded(step_id(f"{APPROVE}#1"), APPROVE, {"question": "Pay 30?"}))
    asked = [ToolRequest(name=APPROVE, payload={"question": f"Pay {sum}?"}) for sum in ("3,000", "30")]
    first, second = (steps.take(call, None) for call in asked)
    assert first.recorded is None
    assert second.recorded
    assert first.call.tool_call_id != second.call.tool_call_id


def test_a_new_step_never_has_the_id_of_a_recorded_one():
    """The result of a recorded call cannot become that of another."""
    steps = steps_of(Recorded(step_id("a.b.pay#2"), "a.b.pay", {"n": 1}))
    first, second = (steps.take(made(n=n), None) for n in (1, 2))
    assert first.recorded
    assert second.recorded is None
    assert first.call.tool_call_id != second.call.tool_call_id


def test_what_has_only_a_number_is_no_named_step():
    """The ids that follow from a tool and its number, and those of other planners, are not those of named steps."""
    tool = "desk.bank.pay_with_a_name_of_over_thirty_characters"
    assert is_named(step_id("pay"), tool)
    assert not any(is_named(step_id(name), tool) for name in (f"{tool}#1", f"{tool}#12", f"{tool}#1~2"))
    assert not is_named("call_1", tool)


@pytest.mark.parametrize("name", ["pay", "pay#2", "steps.bank.pay#1"])
def test_the_name_that_an_author_gave_a_step_is_told(name):
    """The text of a changed flow has the name as its author wrote it, and no id."""
    recorded = Recorded(step_id(name), "steps.bank.pay", {})
    assert Steps([recorded], lambda _: True).name_of(recorded) == name


async def test_a_note_says_what_differs_also_where_the_run_ends_next(deploy):
    """A step with other arguments whose flow ends without a further question is noted."""

    def before(case: Case) -> object:
        case.call(pay, purpose="lunch", step="pay")
        return case.ask("Next?")

    def after(case: Case) -> object:
        case.call(pay, purpose="dinner", step="pay")
        case.ask("Next?")
        return "done"

    output = await (await deploy(before, after)).result()
    assert any("pay had another purpose when it ran" in note for note in output.notes)
