"""`sojourn show` on real runs."""

import re


async def test_show_prints_the_safeguards(served):
    """`show` prints the class of the last error, the similar errors in a row, and each error with its match."""
    run = await served.start("add")
    await run.result()
    shown = await served.sojourn("show", run.id)
    assert "safeguards:\n  class of the last error: contract_error\n  similar errors in a row: " in shown.out
    assert "  - desk.tools.add: invalid arguments for desk.tools.add: " in shown.out
    assert " (contract_error, by 'missing_fields')" in shown.out


async def test_a_child_runs_question_is_shown_on_its_parent(served):
    """`show` of the parent prints the question above the command line that answers it."""
    run = await served.waiting("below")
    shown = await served.sojourn("show", run.id)
    question, answer = shown.out.index("? Below: which one?"), shown.out.index("answer with: sojourn answer ")
    assert question < answer


async def test_json_has_the_output_of_a_run_that_has_answered(served):
    """`show --json` has what the run answered under `output`; null while it is open, and after a failure."""
    ended, failed, asking = [await served.start(word) for word in ("add", "fail", "ask")]
    output = await ended.result()
    await served.status_when(failed, lambda status: status.status == "failed")
    shown = [await served.sojourn("show", run.id, "--json") for run in (ended, failed, asking)]
    assert [done.json["output"] for done in shown] == [output.model_dump(mode="json"), None, None]


async def test_a_long_run_is_shown_from_its_end(served):
    """`--last N` draws or prints the last N, and a run of many calls is drawn from its last ones with the number left out."""
    run = await served.start("add")
    await run.result()
    whole = await served.sojourn("show", run.id)
    assert "left out" not in whole.out
    short = await served.sojourn("show", run.id, "--last", "1")
    assert re.search(r"^\d+ calls? above (is|are) left out; --last N draws more$", short.out, re.MULTILINE)
    for option in ("--events", "--transcript"):
        lines = (await served.sojourn("show", run.id, option, "--json")).out.splitlines()
        last = (await served.sojourn("show", run.id, option, "--json", "--last", "2")).out.splitlines()
        assert len(lines) > 2
        assert last == lines[-2:]
