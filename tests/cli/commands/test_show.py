"""`sojourn show`, on real runs."""


async def test_a_shown_run_tells_its_safeguards(served):
    """What matched, and whether retrying was stopped, without an option."""
    run = await served.start("add")
    await run.result()
    shown = await served.sojourn("show", run.id)
    assert "safeguards:\n  class of the last error: contract_error\n  similar errors in a row: " in shown.out
    assert "  - desk.tools.add: invalid arguments for desk.tools.add: " in shown.out
    assert " (contract_error, by 'missing_fields')" in shown.out


async def test_what_an_open_child_run_asks_is_shown_on_its_parent(served):
    """The question stands above the line that answers it."""
    run = await served.waiting("below")
    shown = await served.sojourn("show", run.id)
    question, answer = shown.out.index("? Below: which one?"), shown.out.index("answer with: sojourn answer ")
    assert question < answer
