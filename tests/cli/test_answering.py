"""`answer`, `approve`, `deny`, `provide`, `pause`, `resume` and `cancel`, on real runs."""

import asyncio
import getpass
import json
import re

import pytest

from sojourn import RunCanceled


def unwrapped(text: str) -> str:
    """A screen less its tree, its spaces and the ends of its lines, since a tree is as wide as its terminal."""
    return re.sub(r"[\s│├└─]", "", text)


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


async def test_several_open_calls_are_listed_and_one_is_chosen(served):
    """Without an id nothing is decided: each is listed with the line that decides it."""
    run = await served.waiting("wipes", 2)
    done = await served.sojourn("approve", run.id)
    assert done.code == 2
    for disk in "ab":
        assert f'    disk = "{disk}"' in done.err
    ids = [wait.id for wait in (await run.status()).awaits]
    for await_id in ids:
        assert f"sojourn approve {run.id} {await_id}" in done.err
    assert len((await run.status()).awaits) == 2
    told = json.loads((await served.sojourn("deny", run.id, "--json")).err)
    assert [one["await_id"] for one in told["open"]] == ids
    assert told["exit_code"] == 2
    assert (await served.sojourn("approve", run.id, ids[0], "--yes")).code == 0
    assert (await served.sojourn("deny", run.id, ids[1], "--yes", "--why", "b is in use")).code == 0
    assert (await run.result()).text == "wiped a None"
    denied = (await run.status()).calls[1]
    assert (denied.state, "b is in use" in (denied.error or "")) == ("denied", True)


async def test_approving_for_the_run_lets_its_other_calls_go(served):
    """`--for-run` stops asking about the tool."""
    run = await served.waiting("wipes", 2)
    first = (await run.status()).awaits[0].id
    assert (await served.sojourn("approve", run.id, first, "--yes", "--for-run")).code == 0
    assert (await run.result()).text == "wiped a wiped b"


async def test_a_call_is_shown_before_it_is_decided_on(served):
    """Where nobody can be asked nothing is sent; `--yes` needs the id, and prints what it approves."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    for arguments, said in (
        (("approve", run.id), f"sojourn approve {run.id} {wait.id} --yes"),
        (("deny", run.id, wait.id), f"sojourn deny {run.id} {wait.id} --yes"),
        (("approve", run.id, "--yes"), "--yes goes with the id"),
        (("deny", run.id, "--digest", wait.payload_digest), "--digest goes with the id"),
    ):
        done = await served.sojourn(*arguments)
        assert (done.code, said in done.err) == (2, True), done.err
    other = await served.sojourn("approve", run.id, wait.id, "--digest", "0" * 64)
    assert (other.code, "other arguments" in other.err) == (2, True)
    assert (await run.status()).status == "waiting"
    done = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "ana")
    assert done.out == (
        "Wipe disk it's a?\n  desk.tools.wipe\n    disk = \"it's a\"\n"
        f"approved: {wait.id} of {run.id}, by ana\n"
    )
    assert (await run.result()).text == "wiped it's a"
    again = await served.sojourn("approve", run.id, wait.id, "--yes", "--by", "bo")
    assert (again.code, again.out) == (0, f"approved before: {wait.id} of {run.id}, by ana\n")
    otherwise = await served.sojourn("deny", run.id, wait.id, "--yes")
    assert (otherwise.code, f"{wait.id} was approved by ana before" in otherwise.err) == (1, True)


async def test_what_does_not_fit_on_a_screen_is_approved_when_it_was_shown(served):
    """Its last field and every hidden character are seen all the same; `--full` shows the rest, or the digest is named."""
    run, other = await asyncio.gather(served.waiting("store"), served.waiting("store"))
    (wait,) = (await run.status()).awaits
    cut = await served.sojourn("approve", run.id, wait.id, "--yes")
    assert (cut.code, f"sojourn approve {run.id} {wait.id} --full" in cut.err) == (2, True)
    shown, tree, full = await asyncio.gather(
        served.sojourn("approve", run.id, "--json"),
        served.sojourn("show", run.id),
        served.sojourn("show", run.id, "--full"),
    )
    told = json.loads(shown.err)
    assert (told["await_id"], told["payload_digest"]) == (wait.id, wait.payload_digest)
    for seen in map(unwrapped, (cut.out, "\n".join(told["shown"]), tree.out)):
        for said in (
            r"Store a\u200bb?",
            r'name = "a\u200bb"',
            "3,800 characters left out",
            r'path = "/srv/dаta\u202e"  (! Cyrillic and Latin in one word: d\u0430ta)',  # noqa: RUF001
            "not all of it is shown; --full shows it",
        ):
            assert unwrapped(said) in seen
        assert "x" * 1_000 not in seen
    assert "x" * 4_000 in unwrapped(full.out)
    whole = await served.sojourn("approve", run.id, wait.id, "--full", "--yes", "--json")
    assert (whole.err, "x" * 4_000 in "".join(whole.json["shown"])) == ("", True)
    assert whole.json["payload_digest"] == wait.payload_digest
    (seen_elsewhere,) = (await other.status()).awaits
    named = ("--digest", seen_elsewhere.payload_digest)
    done = await served.sojourn("approve", other.id, seen_elsewhere.id, *named)
    assert (done.code, done.out.startswith("approved: ")) == (0, True)
    for one in (run, other):
        assert (await one.result()).text == f"stored {'/srv/dаta' + chr(0x202E)!r}"  # noqa: RUF001


async def test_who_claimed_and_who_it_was_are_both_told(served):
    """A name that is claimed hides nobody: Temporal's identity of the sender stands beside it, on screens and in events."""
    run = await served.waiting("wipe")
    (wait,) = (await run.status()).awaits
    claimed = "ciso@corp (identity ciso@corp)"
    assert (await served.sojourn("approve", run.id, wait.id, "--yes", "--by", claimed)).code == 0
    await run.result()
    (answered,) = [event async for event in run.events() if event.type == "await_answered"]
    assert answered.by == claimed
    assert answered.identity
    for command in ("show", "watch"):
        out = (await served.sojourn(command, run.id)).out
        assert f'! approved by "{claimed}" (identity {answered.identity})' in out
    told = [
        one
        for one in (await served.sojourn("watch", run.id, "--json")).objects
        if one["type"] == "await_answered"
    ]
    assert [(one["by"], one["identity"]) for one in told] == [(claimed, answered.identity)]


async def test_a_shown_run_tells_its_safeguards(served):
    """What matched, and whether retrying was stopped, without an option."""
    run = await served.start("add")
    await run.result()
    shown = await served.sojourn("show", run.id)
    assert "safeguards:\n  class of the last error: contract_error\n  similar errors in a row: " in shown.out
    assert "  - desk.tools.add: invalid arguments for desk.tools.add: " in shown.out
    assert " (contract_error, by 'missing_fields')" in shown.out


async def test_every_open_call_is_shown_before_anybody_is_told_to_decide(served):
    """Without a terminal a command ends where a run waits, and has shown all that it waits for."""
    told, lines = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "wipes"), served.sojourn("run", "desk.clerk", "wipes", "--json")
    )
    assert (told.code, lines.code) == (4, 4)
    assert told.out.count("Wipe disk a?") == told.out.count("Wipe disk b?") == 1
    assert told.out.index("Wipe disk b?") < told.out.index("answer with:")
    asked = [one["confirmation"]["prompt"] for one in lines.objects if one["type"] == "await_confirmation"]
    assert asked == ["Wipe disk a?", "Wipe disk b?"]


async def test_what_an_open_child_run_asks_is_shown_on_its_parent(served):
    """The question stands above the line that answers it."""
    run = await served.waiting("below")
    shown = await served.sojourn("show", run.id)
    question, answer = shown.out.index("? Below: which one?"), shown.out.index("answer with: sojourn answer ")
    assert question < answer


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
        for run, said in ((ended, "has ended (completed)"), (at_work, "its tools are at work"))
        for arguments in (("answer", run.id, "x"), ("approve", run.id), ("provide", run.id))
    ]
    for said, done in zip(
        [said for said, _ in cases], await asyncio.gather(*(one for _, one in cases)), strict=True
    ):
        assert (done.code, said in done.err) == (1, True), done.err
    await at_work.cancel()
    with pytest.raises(RunCanceled):
        await at_work.result()


async def test_results_from_outside_are_provided_in_parts(served, tmp_path):
    """One by option, one from a file, each found by its call; what does not fit can be sent again."""
    run = await served.waiting("weigh")
    first, second = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    asked = await served.sojourn("provide", run.id)
    assert asked.code == 2
    assert f"sojourn provide {run.id} --result {second}=JSON" in asked.err
    wrong = await served.sojourn("provide", run.id, "--result", f'{first}="heavy"')
    assert wrong.code == 2
    assert first in wrong.err
    done = await served.sojourn("provide", run.id, "--result", f"{first}=2.5")
    assert done.code == 0, done.err
    (tmp_path / "results.json").write_text(json.dumps([{"tool_call_id": second, "error": "scale is broken"}]))
    done = await served.sojourn("provide", run.id, "results.json", "--json")
    assert (done.code, done.json["tool_call_ids"]) == (0, [second])
    assert (await run.result()).text == "2.5 None"


async def test_results_come_from_standard_input_too(served):
    """`-` reads one object a line."""
    run = await served.waiting("weigh")
    calls = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    lines = "\n".join(json.dumps({"tool_call_id": call, "result": 1}) for call in calls)
    assert (await served.sojourn("provide", run.id, "-", input=lines)).code == 0
    assert (await run.result()).text == "1.0 1.0"


async def test_a_run_is_paused_and_resumed_with_a_message(served):
    """The reason and the name are recorded; a message begins a new turn."""
    run = await served.waiting("ask")
    assert (await served.sojourn("pause", run.id, "let me look", "--by", "ana")).code == 0
    assert (await run.status()).paused == "let me look"
    assert (await served.sojourn("resume", run.id, "--message", "never mind")).code == 0
    assert (await run.status()).paused is None
    again = await served.sojourn("resume", run.id)
    assert (again.code, "not paused" in again.err) == (1, True)
    await run.cancel()


async def test_a_cancelled_run_says_why_and_by_whom(served):
    """The reason and the name are in the run's end; a second cancel finds nothing to cancel."""
    run = await served.start("hang")
    await served.status_when(run, lambda status: status.phase == "executing_tools")
    done = await served.sojourn("cancel", run.id, "no longer needed", "--by", "ana", "--json")
    assert done.json == {"run_id": run.id, "done": "cancel_requested", "by": "ana"}
    with pytest.raises(RunCanceled, match=r"no longer needed \(by ana\)"):
        await run.result()
    again = await served.sojourn("cancel", run.id)
    assert (again.code, "has ended (canceled)" in again.err) == (1, True)


async def test_what_a_run_says_reaches_the_terminal_as_text(served):
    """A hostile question and its listing hold no control character, line of their own or markup that is obeyed."""
    run = await served.waiting("ask")
    done = await served.sojourn("approve", run.id)
    assert done.code == 1
    assert "[bold]bold[/bold]" in done.err
    assert all(char.isprintable() or char == "\n" for char in done.err)
    assert not any(line.startswith("sojourn: all is well") for line in done.err.splitlines())
