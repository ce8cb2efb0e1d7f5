"""Which message is answered while approvals are open, and what becomes of it."""

from datetime import UTC, datetime, timedelta

import pytest

from sojourn import Message, PlanResult, Principal, RunPolicy, Usage
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import RunInput
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.awaits.steering import PauseRequest
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.interim import (
    MAX_ANSWERS,
    MAX_BYTES,
    InterimAnswer,
    answering,
    interim_input,
)
from sojourn.core.run.outcomes import MAX_FAULTS
from sojourn.core.run.state import RunState
from sojourn.core.run.totals import ActiveTime
from sojourn.core.run.turns import (
    apply_interim,
    begin_interim,
    end_turn,
    find_interim,
    interrupt_turn,
    join_turn,
    open_turn,
    receive_message,
)
from sojourn.values.frozen import copy_with

ANA, EVE = (Principal(subject=name, tenant="acme", roles=["user", name]) for name in ("ana", "eve"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def waiting(on_message: str = "answer", *messages: SentMessage) -> RunState:
    """A turn of Ana's that waits for an approval, and messages that came since."""
    state = RunState.opened(RunInput(agent_id="a.b", messages=[], conversation=True))
    opening = SentMessage("m1", Message.user("wipe"), principal=ANA)
    state = copy_with(open_turn(receive_message(state, opening, "0-000001-00000")[0]), new=())
    waits, _ = state.waits.opened(
        AwaitConfirmation(id="w", tool_call_id="c1", tool="a.b.c", payload_digest="d", on_message=on_message)
    )
    state = copy_with(state, waits=waits)
    for message in messages or (sent(),):
        state = receive_message(state, message, "0-000002-00000")[0]
    return state


def sent(text: str = "why?", mode: str = "queue", principal: Principal | None = ANA) -> SentMessage:
    return SentMessage(text, Message.user(text), mode, principal=principal)  # type: ignore[arg-type]


def found(state: RunState) -> str:
    """The id of the message that is answered next, or an empty text."""
    message = find_interim(state, NOW)
    return message.message_id if message else ""


def test_the_first_message_that_waits_and_may_join_is_answered() -> None:
    """Others are passed over; while one is answered no other begins, and the next one is after it."""
    state = waiting("answer", sent("e", principal=EVE), sent("s", "steer"), sent("one"), sent("two"))
    assert found(state) == "one"
    state = begin_interim(state, "one")
    assert (found(state), answering(state.interim), state.taken) == ("", "one", ("m1", "one"))
    state = apply_interim(state, PlanOutcome(final=Message.assistant("yes")))
    assert (found(state), answering(state.interim)) == ("two", "")
    assert begin_interim(state, "gone").interim == state.interim


SPENT = copy_with(
    waiting(), policy=RunPolicy(max_tokens=1), totals=copy_with(waiting().totals, usage=Usage(input_tokens=1))
)
QUESTION = copy_with(waiting(), waits=waiting().waits.opened(AwaitClarification(id="q", question="?"))[0])


@pytest.mark.parametrize(
    "state",
    [
        waiting("wait"),
        waiting("deny"),
        QUESTION,
        copy_with(waiting(), waits=waiting().waits.closed("w")),
        copy_with(waiting(), paused=PauseRequest("", None)),
        interrupt_turn(waiting(), ""),
        copy_with(waiting(), limit=Finalize(reason="history", message="long")),
        copy_with(waiting(), active=ActiveTime(budget=timedelta(0))),
        SPENT,
        copy_with(waiting(), interim=(InterimAnswer(sent("old"), is_over=True),) * MAX_ANSWERS),
        copy_with(waiting(), interim=(InterimAnswer(sent("x" * MAX_BYTES), is_over=True),)),
    ],
    ids=[
        "wait",
        "deny",
        "question",
        "nothing",
        "paused",
        "interrupted",
        "limit",
        "time",
        "money",
        "many",
        "large",
    ],
)
def test_nothing_begins_unless_only_such_approvals_are_open(state: RunState) -> None:
    assert found(state) == ""


def test_anything_but_an_answer_is_refused_and_then_given_up() -> None:
    """Usage counts each time; the planner reads why; in the end the message is read by the next plan alone."""
    state = begin_interim(waiting(), "why?")
    call = ToolRequest(name="a.b.c", tool_call_id="c9")
    plan = PlanOutcome(calls=[call], usage=Usage(input_tokens=5))
    for n in range(1 + MAX_FAULTS):
        assert answering(state.interim) == "why?"
        refusals = [each.text for each in interim_input(state.interim, ()) if "was refused" in each.text]
        assert len(refusals) == min(n, 1)
        state = apply_interim(state, plan)
    assert (answering(state.interim), state.totals.usage.input_tokens) == ("", 15)
    joined, ids = join_turn(state)
    assert (ids, [each.role for each in joined.new]) == ([], ["user", "system"])
    assert joined.interim == ()


def test_a_fault_without_a_limit_left_is_the_last() -> None:
    state = begin_interim(copy_with(waiting(), policy=RunPolicy(max_tokens=5)), "why?")
    spent = PlanOutcome(fault="no", usage=Usage(input_tokens=5))
    assert answering(apply_interim(state, spent).interim) == ""
    failure = PlanResult.fail("no").failure
    assert (
        answering(apply_interim(begin_interim(waiting(), "why?"), PlanOutcome(failure=failure)).interim) == ""
    )


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_was_said_comes_behind_the_results(is_answered: bool) -> None:
    """The next plan gets it, or the next turn if this one is interrupted; the turn then acts with the roles of all senders."""
    fewer = ANA.model_copy(update={"roles": ["user"]})
    state = begin_interim(waiting("answer", sent(principal=fewer)), "why?")
    if is_answered:
        state = apply_interim(state, PlanOutcome(final=Message.assistant("so")))
    results = Message.results([])
    state = copy_with(state, new=(results,))
    roles = ["tool", "user", *["assistant"][:is_answered], "system"]
    joined, _ = join_turn(state)
    assert [each.role for each in joined.new] == roles
    assert joined.acts_for == fewer
    ended = end_turn(interrupt_turn(state, ""))
    assert [each.role for each in ended.new][: len(roles)] == roles
    assert ended.interim == ()
