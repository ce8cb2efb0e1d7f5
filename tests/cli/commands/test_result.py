"""`sojourn result`: the answer alone, and exit codes as those of `run`."""

import asyncio
import json
import signal


async def test_the_text_of_the_answer_is_all_that_is_printed(served):
    """It waits for the answer and prints its text, or with `--json` the whole output."""
    run = await served.start("add")
    text, output = await asyncio.gather(
        served.sojourn("result", run.id), served.sojourn("result", run.id, "--json")
    )
    assert (text.code, text.out, text.err) == (0, "None 3\n", "")
    assert output.json == (await run.result()).model_dump(mode="json")


async def test_a_hostile_answer_is_escaped(served):
    """Control characters of the answer are printed as escapes."""
    run = await served.start("shout")
    done = await served.sojourn("result", run.id)
    assert (done.code, "\x1b" in done.out, r"\u001b[31mred" in done.out) == (0, False, True)


async def test_the_exit_codes_are_those_of_run(served):
    """1 for a run that failed or does not exist, 4 for one that waits for a person, 5 for a canceled one; with the reason."""
    failing, asking, hanging = [await served.start(word) for word in ("fail", "ask", "hang")]
    await served.status_when(hanging, lambda status: status.phase == "executing_tools")
    await hanging.cancel("enough")
    failed, waits, canceled, unknown = await asyncio.gather(
        *(served.sojourn("result", id, "--json") for id in (failing.id, asking.id, hanging.id, "nobody-1"))
    )
    assert (failed.code, json.loads(failed.err)["error"]) == (1, "RunFailed")
    assert (waits.code, json.loads(waits.err)["open"][0]["run_id"]) == (4, asking.id)
    assert (canceled.code, "enough" in canceled.err) == (5, True)
    assert (unknown.code, json.loads(unknown.err)["error"]) == (1, "RunNotFound")
    assert {one.out for one in (failed, waits, canceled, unknown)} == {""}


async def test_a_patient_one_waits_for_a_person_too(served, start_command):
    """With `--patient` the command goes on waiting while somebody has to answer."""
    run = await served.waiting("ask")
    process = await start_command("result", run.id, "--patient", env=served.env)
    await run.answer(None, "the left one")
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (0, b"the left one\n", b"")


async def test_ctrl_c_prints_one_message(served, start_command):
    """Ctrl-C ends `watch` with 130 and one sentence, which has the command line to go on."""
    run = await served.start("sleep")
    watching = await start_command("watch", run.id, env=served.env)
    await watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, err = await watching.communicate()
    line = f"sojourn watch {run.id}"
    assert (watching.returncode, err.decode()) == (
        130,
        f"sojourn: interrupted; the run continues; follow it with: {line}\n",
    )
