"""`sojourn provide` on real runs."""

import json


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
    done = await served.sojourn("provide", run.id, "--result", f"{first}=2.5")
    assert done.code == 0, done.err
    (tmp_path / "results.json").write_text(json.dumps([{"tool_call_id": second, "error": "scale is broken"}]))
    done = await served.sojourn("provide", run.id, "results.json", "--json")
    assert (done.code, done.json["tool_call_ids"]) == (0, [second])
    assert (await run.result()).text == "2.5 None"


async def test_results_come_from_standard_input_too(served):
    """`-` reads one JSON object a line from standard input."""
    run = await served.waiting("weigh")
    calls = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    lines = "\n".join(json.dumps({"tool_call_id": call, "result": 1}) for call in calls)
    assert (await served.sojourn("provide", run.id, "-", input=lines)).code == 0
    assert (await run.result()).text == "1.0 1.0"
