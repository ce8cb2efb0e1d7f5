from typing import Any

import pytest

from planners import operations
from sojourn import Agent, App, AwaitConfirmation, RunPolicy
from toolsets.executions import history
from toolsets.profiles import profiles

ALL = "register Ana <ana@example.org> as maintenance contact of s-19"


@pytest.mark.usefixtures("processes")
async def test_only_the_missing_field_is_asked_for(run: Any):
    """A call with a name alone is made, its hint says what is missing, and only the email is asked for."""
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
    """A question with all fields leads to one call."""
    answer = await run.finish("register Ana <ana@example.org> as maintenance contact of s-19")
    assert run.steps == [["upsert"]]
    assert run.plans[-1].result["role"] == "maintenance"
    assert "in place of" not in answer


async def test_bad_email_is_asked_for_again(run: Any):
    """A value that the tool refuses is asked for again."""
    await run.ask("register ana as contact of s-7")
    question = await run.ask("ana at example")
    assert run.payloads("upsert")[-1]["email"] == "ana at example"
    assert question.missing_fields == ["email"]
    answer = await run.finish('{"email": "ana@example.org"}')
    assert "is registered" in answer


async def test_role_of_the_answer_wins(run: Any):
    """A role in the answer replaces the default."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("ana@example.org, as owner")
    assert "owner contact" in answer


async def test_no_registers_nobody(run: Any):
    """A no ends the run, and nobody is registered."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("never mind")
    assert answer == "Register a contact: left undone, as you said."
    assert all(result.error for result in run.results)


async def test_repair_is_given_up(run: Any):
    """After several invalid values the run ends with the failure."""
    plan = await run.say("register ana as contact of s-7")
    answers = 0
    while plan.await_:
        answers += 1
        plan = await run.say(f"nowhere {answers}")
    assert answers < 8
    assert "failed" in plan.final_response.text


async def test_where_nobody_may_be_asked(run: Any):
    """Without interrupts the answer says which field is missing."""
    run.may_ask = False
    assert await run.finish("register ana as contact of s-7") == (
        "To register a contact I need the email, which I do not have."
    )


async def test_question_in_place_of_an_answer(run: Any):
    """A new question in place of an answer is answered itself."""
    await run.ask("register ana as contact of s-7")
    answer = await run.finish("which sites are dark?")
    assert answer.startswith("2 dark sites")


async def test_a_denied_contact_is_reported(run: Any):
    """A denied call is neither repaired nor asked about nor made again, and the answer has the reason."""
    run.denied["ops.profiles.upsert"] = "Ana has left"
    answer = await run.finish(ALL)
    assert answer == "Register a contact: not approved, so it was not done (Ana has left)."
    assert run.steps == [["upsert"]]


async def test_a_value_in_another_form_is_not_asked_for(run: Any):
    """A role in upper case is understood, and only the email is asked for."""
    question = await run.ask("register ana as OWNER contact of s-7")
    assert question.missing_fields == ["email"]
    await run.finish("ana@example.org, +351 912 345 678")
    assert run.payloads("upsert")[-1]["role"] == "owner"
    assert run.payloads("upsert")[-1]["phone"] == "+351 912 345 678"


@pytest.fixture
async def start(serve):
    """Start runs of the assistant's planner, with one toolset, on a Temporal server."""
    agent = Agent(
        "ops.assistant", planner=operations.plan, uses=[profiles], policy=RunPolicy(interrupts_allowed=True)
    )
    client = await serve(App(agents=[agent]))
    return lambda text: client.start("ops.assistant", text)


async def test_a_question_that_a_person_declines_is_a_no(start, status_when):
    """A declined question is not asked again, and is not a missing answer."""
    run = await start("register ana as contact of s-7")
    await status_when(run, lambda status: status.awaits)
    await run.decline(None, "ask somebody else")
    assert (await run.result()).text == "Register a contact: left undone, as you said."


@pytest.mark.parametrize("approved", [True, False])
async def test_a_person_approves_what_is_registered(start, status_when, approved: bool):
    """The approval shows the call as a sentence, and the tool runs only when the call is approved."""
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
