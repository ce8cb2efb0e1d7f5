from typing import Any


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
