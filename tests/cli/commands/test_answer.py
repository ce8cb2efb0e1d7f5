"""`sojourn answer`, on real runs, and what is told when nothing of the kind is open."""

import asyncio
import getpass
import json

import pytest

from sojourn import RunCanceled


async def test_a_text_answers_the_one_question(served):
    """No id is needed while one question is open, and the answer is recorded with the user's name."""
    run = await served.waiting("ask")
    done = await served.sojourn("answer", run.id, "the left one")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"answered: question of {run.id}, by {getpass.getuser()}\n"
    assert (await run.result()).text == "the left one"


async def test_an_answer_by_field_is_typed_by_the_form(served):
    """`--field` gives numbers and booleans where the form has them, and text where it has text."""
    run = await served.waiting("order")
    fields = ("--field", "disk=12", "--field", "count=3", "--field", "urgent=true")
    done = await served.sojourn("answer", run.id, *fields, "--by", "ana", "--json")
    assert done.code == 0, done.err
    assert done.json == {"run_id": run.id, "done": "answered", "by": "ana", "await_id": done.json["await_id"]}
    assert json.loads((await run.result()).text) == {"disk": "12", "count": 3, "urgent": True}


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(served):
    """The run says what is wrong; then values as JSON answer it."""
    run = await served.waiting("order")
    done = await served.sojourn("answer", run.id, "--field", "disk=a", "--field", "count=many")
    assert done.code == 2
    assert "count" in done.err
    done = await served.sojourn("answer", run.id, "--json-values", '{"disk": "a", "count": 1}')
    assert done.code == 0
    assert json.loads((await run.result()).text) == {"disk": "a", "count": 1}


async def test_a_question_can_be_declined(served):
    """The planner is told that there will be no answer, and why."""
    run = await served.waiting("ask")
    done = await served.sojourn("answer", run.id, "--decline", "--why", "not mine to say")
    assert done.code == 0
    assert "not mine to say" in (await run.result()).text


async def test_what_answers_something_else_is_told_apart(served):
    """A call is approved, not answered; an unknown id is nothing; nothing is sent for either."""
    run = await served.waiting("wipe")
    wait = (await run.status()).awaits[0].id
    for arguments in (
        ("answer", run.id, "yes"),
        ("answer", run.id, wait, "yes"),
        ("approve", run.id, "no-such"),
    ):
        done = await served.sojourn(*arguments)
        assert done.code == 1
        assert f"sojourn approve {run.id} {wait}" in done.err
    assert (await run.status()).status == "waiting"


async def test_a_question_of_a_child_run_is_answered_by_its_parents_id(served):
    """What a child run asks shows in its parent, and the answer goes to the child."""
    run = await served.waiting("below")
    child = next(iter((await run.status()).child_awaits))
    done = await served.sojourn("answer", run.id, "the right one", "--json")
    assert done.code == 0, done.err
    assert done.json["run_id"] == child
    assert "the right one" in (await run.result()).text


async def test_nothing_open_says_what_the_run_does(served):
    """An ended run and one at work are told apart, and both exit 1."""
    ended = await served.start("add")
    await ended.result()
    at_work = await served.start("hang")
    await served.status_when(at_work, lambda status: status.phase == "executing_tools")
    cases = [
        (said, served.sojourn(*arguments))
        for run, said in ((ended, "has ended (completed)"), (at_work, "its tools are running"))
        for arguments in (("answer", run.id, "x"), ("approve", run.id), ("provide", run.id))
    ]
    for said, done in zip(
        [said for said, _ in cases], await asyncio.gather(*(one for _, one in cases)), strict=True
    ):
        assert (done.code, said in done.err) == (1, True), done.err
    await at_work.cancel()
    with pytest.raises(RunCanceled):
        await at_work.result()


async def test_what_a_run_says_reaches_the_terminal_as_text(served):
    """A hostile question and its listing hold no control character, line of their own or markup that is obeyed."""
    run = await served.waiting("ask")
    done = await served.sojourn("approve", run.id)
    assert done.code == 1
    assert "[bold]bold[/bold]" in done.err
    assert all(char.isprintable() or char == "\n" for char in done.err)
    assert not any(line.startswith("sojourn: all is well") for line in done.err.splitlines())
