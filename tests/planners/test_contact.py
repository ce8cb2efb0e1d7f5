from typing import Any

import pytest

from planners import operations
from sojourn import Agent, App, AwaitConfirmation, RunPolicy
from toolsets.executions import history
from toolsets.profiles import profiles

ALL = "register Ana <ana@example.org> as maintenance contact of s-19"


async def test_register_asks_for_what_the_tool_misses(run: Any):
    """A name alone is tried, the hint says what is missing, and only the email is asked for."""
    question = await run.ask("register ana as contact of s-7")
    assert run.payloads("upsert") == [{"site_id": "s-7", "name": "Ana"}]
    assert question.id == "fix-ops.profiles.upsert"
    assert question.missing_fields == ["email"]
    assert question.restrict_to_tool == "ops.profiles.upsert"
    assert question.example_input
    answer = await run.finish("ana@example.org")
    assert run.payloads("upsert")[-1] == {
        "site_id": "s-7",
        "name": "Ana",
        "email": "ana@example.org",
        "role": "operations",
    }
    assert answer.startswith("Ana (ana@example.org) is registered as operations contact of s-7")


async def test_question_that_gives_all(run: Any):
    """A question that gives everything is one call."""
    answer = await run.finish("register Ana <ana@example.org> as maintenance contact of s-19")
    assert run.steps == [["upsert"]]
    assert run.plans[-1].result["role"] == "maintenance"
    assert "in place of" not in answer


async def test_bad_email_is_asked_for_again(run: Any):
    """An answer that the tool refuses is asked for again, with the tool's own question."""
    await run.ask("register ana as contact of s-7")
    question = await run.ask("ana at example")
    assert run.payloads("upsert")[-1]["email"] == "ana at example"
    assert question.missing_fields == ["email"]
    answer = await run.finish('{"email": "ana@example.org"}')
    assert "is registered" in answer


async def test_role_of_the_answer_wins(run: Any):
    """A role that the answer names stands in place of the assumed one."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("ana@example.org, as owner")
    assert "owner contact" in answer


async def test_no_leaves_it(run: Any):
    """A no ends the run with nothing registered."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("never mind")
    assert answer == "Register a contact: left undone, as you said."
    assert all(result.error for result in run.results)


async def test_repair_is_given_up(run: Any):
    """A person who never gives a valid value is not asked for ever."""
    plan = await run.say("register ana as contact of s-7")
    answers = 0
    while plan.await_:
        answers += 1
        plan = await run.say(f"nowhere {answers}")
    assert answers < 8
    assert "failed" in plan.final_response.text


async def test_where_nobody_may_be_asked(run: Any):
    """A run without interrupts says what it would need."""
    run.may_ask = False
    assert await run.finish("register ana as contact of s-7") == (
        "To register a contact I need the email, which I do not have."
    )


async def test_question_as_answer_changes_the_subject(run: Any):
    """A question in place of an answer is answered."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("which sites are dark?")
    assert answer.startswith("2 dark sites")


async def test_a_contact_that_is_not_approved_is_told_so(run: Any):
    """A denied call is not repaired, not asked about and not made again; the answer says why."""
    run.denied["ops.profiles.upsert"] = "Ana has left"
    answer = await run.finish(ALL)
    assert answer == "Register a contact: not approved, so it was not done (Ana has left)."
    assert run.steps == [["upsert"]]


async def test_what_another_form_mends_is_not_asked(run: Any):
    """A role in other letters is read as it was meant, and the email alone is asked for."""
    question = await run.ask("register ana as OWNER contact of s-7")
    assert question.missing_fields == ["email"]
    await run.finish("ana@example.org, +351 912 345 678")
    assert run.payloads("upsert")[-1]["role"] == "owner"
    assert run.payloads("upsert")[-1]["phone"] == "+351 912 345 678"


@pytest.fixture
async def start(serve):
    """Start a run of the assistant's planner, with this toolset alone, on a real server."""
    agent = Agent(
        "ops.assistant", planner=operations.plan, uses=[profiles], policy=RunPolicy(interrupts_allowed=True)
    )
    client = await serve(App(agents=[agent]))
    return lambda text: client.start("ops.assistant", text)


async def test_a_question_that_a_person_declines_is_a_no(start, status_when):
    """Whoever will not answer is not asked again, and not taken for nobody."""
    run = await start("register ana as contact of s-7")
    await status_when(run, lambda status: status.awaits)
    await run.decline(None, "ask somebody else")
    assert (await run.result()).text == "Register a contact: left undone, as you said."


@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_approves_what_is_registered(start, status_when, approved: bool):
    """The call is shown as a sentence with its payload, and runs only when it is approved."""
    run = await start(ALL)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    assert isinstance(wait, AwaitConfirmation)
    assert wait.prompt == (
        "Register Ana (ana@example.org) as maintenance contact of s-19? Whoever is that now is replaced."
    )
    assert history(run.id) == []
    await (run.approve(wait.id, by="eva") if approved else run.deny(wait.id, by="eva"))
    answer = (await run.result()).text
    assert ("is registered as maintenance contact of s-19" in answer) is approved
    assert ("not approved, so it was not done (it was not approved by eva)" in answer) is not approved
    assert len(history(run.id)) == approved
