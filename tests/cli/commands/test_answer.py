"""`sojourn answer` and `sojourn provide` on real runs."""

import asyncio
import getpass
import json

import pytest

from sojourn import Principal
from sojourn.errors import RunCanceled


async def test_a_text_answers_the_one_question(served):
    """The only open question is answered without its id, and the answer is recorded with the user's name."""
    run = await served.waiting("ask")
    done = await served.sojourn("answer", run.id, "the left one")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"answered: question of {run.id}, by {getpass.getuser()}\n"
    assert (await run.result()).text == "the left one"


async def test_an_answer_is_read_from_standard_input(served):
    """`-` is the text of standard input, without what Windows adds; another encoding is refused."""
    run = await served.waiting("ask")
    refused = await served.sojourn("answer", run.id, "-", input="drüben".encode("latin-1"))
    assert (refused.code, "not text in UTF-8 (byte 0xfc in line 1)" in refused.err) == (2, True)
    done = await served.sojourn("answer", run.id, "-", input=b"\xef\xbb\xbfthe left\r\none\r\n")
    assert done.code == 0, done.err
    assert (await run.result()).text == "the left\none"


async def test_an_answer_by_field_is_typed_by_the_form(served):
    """The values of `--field` become numbers, booleans or text, by the types of the form."""
    run = await served.waiting("order")
    fields = ("--field", "disk=12", "--field", "count=3", "--field", "urgent=true")
    done = await served.sojourn("answer", run.id, *fields, "--by", "ana", "--json")
    assert done.code == 0, done.err
    assert done.json == {"run_id": run.id, "done": "answered", "by": "ana", "await_id": done.json["await_id"]}
    assert json.loads((await run.result()).text) == {"disk": "12", "count": 3, "urgent": True}


async def test_a_path_of_a_field_leads_into_objects_and_lists(served):
    """`a.b`, `a[b]`, `a[0]` and `a[]` are values of objects and lists, typed by the form; a wrong path sends nothing."""
    run = await served.waiting("ship")
    refused = await served.sojourn("answer", run.id, "--field", "tags[3]=x")
    assert (refused.code, "--field: 'tags[3]' skips" in refused.err) == (2, True), refused.err
    fields = ("to.city=12", "to[floor]=3", "tags[]=new", "tags[1]=paid")
    done = await served.sojourn("answer", run.id, *(word for each in fields for word in ("--field", each)))
    assert done.code == 0, done.err
    assert json.loads((await run.result()).text) == {
        "to": {"city": "12", "floor": 3},
        "tags": ["new", "paid"],
    }


async def test_as_answers_as_a_principal_of_the_runs_tenant(served):
    """`--as` records who answered, of the run's tenant; nobody without a name answers."""
    ana = Principal(subject="ana", tenant="acme", roles=["user"])
    run = await served.client.start("desk.clerk", "ask", principal=ana)
    await run.until_waiting()
    refused = await served.sojourn("answer", run.id, "the left one", "--as", "")
    assert (refused.code, "--as: principal.subject" in refused.err) == (2, True)
    done = await served.sojourn("answer", run.id, "the left one", "--as", "kim")
    assert (done.code, "by kim" in done.out) == (0, True), done.err
    await run.result()
    (event,) = [each async for each in run.events(follow=False) if each.type == "await_answered"]
    assert (event.by, event.principal) == ("kim", Principal(subject="kim", tenant="acme"))


async def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays(served):
    """The error names the wrong field, and values as JSON answer the question afterwards."""
    run = await served.waiting("order")
    done = await served.sojourn("answer", run.id, "--field", "disk=a", "--field", "count=many")
    assert done.code == 2
    assert "count" in done.err
    done = await served.sojourn("answer", run.id, "--json-values", '{"disk": "a", "count": 1}')
    assert done.code == 0
    assert json.loads((await run.result()).text) == {"disk": "a", "count": 1}


async def test_a_question_can_be_declined(served):
    """The planner receives that the question was declined, and the reason."""
    run = await served.waiting("ask")
    done = await served.sojourn("answer", run.id, "--decline", "--why", "not mine to say")
    assert done.code == 0
    assert "not mine to say" in (await run.result()).text


async def test_a_wrong_command_or_id_sends_nothing(served):
    """`answer` for an approval, and `approve` with an unknown id, exit with 1 and name the right command line."""
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
    """`answer` with the parent's id answers the child run's question."""
    run = await served.waiting("below")
    child = next(iter((await run.status()).child_awaits))
    done = await served.sojourn("answer", run.id, "the right one", "--json")
    assert done.code == 0, done.err
    assert done.json["run_id"] == child
    assert "the right one" in (await run.result()).text


async def test_without_an_open_wait_the_error_names_the_runs_state(served):
    """`answer`, `approve` and `provide` exit with 1 and say whether the run has ended or executes tools."""
    ended = await served.start("add")
    await ended.result()
    at_work = await served.start("hang")
    await served.status_when(at_work, lambda status: status.phase == "executing_tools")
    cases = [
        (state, served.sojourn(*arguments))
        for run, state in ((ended, "has ended (completed)"), (at_work, "its tools are running"))
        for arguments in (("answer", run.id, "x"), ("approve", run.id), ("provide", run.id))
    ]
    for state, done in zip(
        [state for state, _ in cases], await asyncio.gather(*(line for _, line in cases)), strict=True
    ):
        assert (done.code, state in done.err) == (1, True), done.err
    await at_work.cancel()
    with pytest.raises(RunCanceled):
        await at_work.result()


async def test_a_hostile_question_is_printed_as_text(served):
    """Control characters, line breaks and markup of a question are printed as text."""
    run = await served.waiting("ask")
    done = await served.sojourn("approve", run.id)
    assert done.code == 1
    assert "[bold]bold[/bold]" in done.err
    assert all(char.isprintable() or char == "\n" for char in done.err)
    assert not any(line.startswith("sojourn: all is well") for line in done.err.splitlines())


async def test_results_from_outside_are_provided_in_parts(served, tmp_path):
    """One result is given by option, one by file, each with its call id; after a result that does not fit, another may be sent."""
    run = await served.waiting("weigh")
    first, second = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    asked = await served.sojourn("provide", run.id)
    assert asked.code == 2
    assert f"sojourn provide {run.id} --result '{second}=JSON'" in asked.err
    assert f"{(await run.status()).awaits[0].id}: results from outside\n" in asked.err
    wrong = await served.sojourn("provide", run.id, "--result", f'{first}="heavy"')
    assert wrong.code == 2
    assert first in wrong.err
    for _ in range(2):  # the same result again is no fault
        done = await served.sojourn("provide", run.id, "--result", f"{first}=2.5")
        assert done.code == 0, done.err
    assert "it has this answer already" in done.out
    other = await served.sojourn("provide", run.id, "--result", f"{first}=3.5", "--json")
    assert (other.code, json.loads(other.err)["code"]) == (1, "already_answered")
    (left,) = (await run.status()).awaits[0].items
    assert left.tool_call_id == second
    (tmp_path / "results.json").write_text(json.dumps([{"tool_call_id": second, "error": "scale is broken"}]))
    done = await served.sojourn("provide", run.id, "results.json", "--json")
    assert (done.code, done.json["tool_call_ids"]) == (0, [second])
    assert (await run.result()).text == "2.5 None"


async def test_results_come_from_standard_input_too(served):
    """`-` reads one JSON object a line from standard input."""
    run = await served.waiting("weigh")
    calls = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    lines = "\n".join(json.dumps({"tool_call_id": call, "result": 1}) for call in calls)
    refused = await served.sojourn("provide", run.id, "-", input=lines.encode("utf-16"))
    assert (refused.code, "it begins as UTF-16" in refused.err) == (2, True)
    assert (await served.sojourn("provide", run.id, "-", input=b"\xef\xbb\xbf" + lines.encode())).code == 0
    assert (await run.result()).text == "1.0 1.0"


async def test_an_answer_that_is_given_again_is_the_same_everywhere(served):
    """Open or ended, of each kind: the same answer again exits with 0 and says `already` with who gave it; another one exits with 1 and has who, what and when."""
    cases = (
        ("ask", "answer", ("left",), ("right",), "answered"),
        ("wipe", "approve", ("--yes",), (), "approved"),
        (
            "weigh",
            "provide",
            ("--result", "{0}=2.5", "--result", "{1}=4"),
            ("--result", "{0}=3.5"),
            "provided",
        ),
    )
    for text, command, same, other, outcome in cases:
        run = await served.waiting(text)
        wait = (await run.status()).awaits[0]
        calls = [item.tool_call_id for item in wait.items] if text == "weigh" else []
        given = [command, run.id, wait.id, *(each.format(*calls) for each in same)]
        first = await served.sojourn(*given, "--by", "ana", "--json")
        assert (first.code, first.json["done"], first.json.get("already")) == (0, outcome, None), first.err
        await run.result()
        again = await served.sojourn(*given, "--by", "bo", "--json")
        assert (again.code, again.json["done"], again.json["by"]) == (0, outcome, "ana"), again.err
        assert again.json["already"] is True
        line = ["deny", run.id, wait.id, "--yes"] if text == "wipe" else [command, run.id, wait.id, *other]
        refused = await served.sojourn(*(each.format(*calls) for each in line), "--json")
        told = json.loads(refused.err)
        assert (refused.code, told["code"], told["answered_by"], told["outcome"]) == (
            1,
            "already_answered",
            "ana",
            outcome,
        )
        assert (told["await_id"], bool(told["answered_at"])) == (wait.id, True)


async def test_a_refusal_has_its_code_and_the_wait(served):
    """With `--json` a refusal says by `code` that nothing is called so, that the run has ended, or that it asks first; the wait is in `open`."""
    run = await served.waiting("wipe")
    unknown = json.loads((await served.sojourn("answer", run.id, "never", "x", "--json")).err)
    (wait,) = (await run.status()).awaits
    assert (unknown["code"], [each["await_id"] for each in unknown["open"]]) == ("unknown_wait", [wait.id])
    unasked = json.loads((await served.sojourn("approve", run.id, wait.id, "--json")).err)
    assert (unasked["code"], unasked["open"][0]["await_id"], "await_id" in unasked) == (
        "usage",
        wait.id,
        False,
    )
    assert (await served.sojourn("deny", run.id, wait.id, "--yes")).code == 0
    await run.result()
    ended = json.loads((await served.sojourn("answer", run.id, "never", "x", "--json")).err)
    assert ended["code"] == "run_ended"
