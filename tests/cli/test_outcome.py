"""The end of a message's turn, as `sojourn send` prints it."""

import asyncio

import pytest

from sojourn.cli.failure import CommandError
from sojourn.cli.outcome import follow_turn
from tests.workflows.test_message_answers import Planner, app_of, open_approval


async def test_the_turn_of_an_edited_message_is_that_of_its_branch(serve, capsys):
    """And not the one under way that the edit has ended, which has the same message."""
    planner = Planner()
    client = await serve(app_of(planner))
    session, first, _ = await open_approval(client, "edited")
    edited = await session.edit(first.message_id, "why?")
    assert await asyncio.wait_for(follow_turn(edited, as_json=False), 20) == 0
    assert capsys.readouterr().out == "why?\n"


async def test_a_message_that_gets_no_answer_after_another_one_names_what_it_waits_for(serve, status_when):
    """The answer to the message before has used up the tokens, so that this one waits for the approval."""
    planner = Planner()
    client = await serve(app_of(planner, max_tokens=22))
    session, _, _ = await open_approval(client, "no-tokens")
    planner.gate.clear()
    why = await session.send("why?")
    await status_when(session.run, lambda status: status.answering == why.message_id)
    last = asyncio.create_task(follow_turn(await session.send("and when?"), as_json=False))
    await status_when(session.run, lambda status: status.queued == 1)
    planner.gate.set()
    with pytest.raises(CommandError, match="it waits for"):
        await asyncio.wait_for(last, 20)
