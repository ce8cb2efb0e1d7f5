"""`sojourn run`, `watch` and `result` on real runs."""

import asyncio
import json
import os
import re
import shlex
import signal
import sys
import uuid

import pytest
from temporalio.common import Priority

from tests.programs.terminal import Terminal


@pytest.mark.essential
async def test_a_run_is_printed_and_exits_0(served):
    """With `-vv` the lines show the refused call with its hint, the repaired call and the answer."""
    done = await served.sojourn("run", "desk.clerk", "add", "-vv")
    assert done.code == 0, done.err
    assert "↻ missing_fields" in done.out
    assert "missing: b" in done.out
    assert done.out.rstrip().endswith("= None 3\n  2 calls")


async def test_a_call_and_its_result_have_a_line_each(served):
    """Without `-v` a call reads as a call, and its result or its error follows on one line; `-v` adds the payload."""
    brief, more = await asyncio.gather(
        *(served.sojourn("run", "desk.clerk", "add", *v) for v in ((), ("-v",)))
    )
    lines = brief.out.splitlines()
    assert len(lines) == 8
    assert {"→ desk.tools.add(a=1)", "→ desk.tools.add(a=1, b=2)"} < {*lines}
    assert any(line.startswith("← desk.tools.add (") and line.endswith("): 3") for line in lines)
    assert "↻" not in brief.out + more.out
    assert '  {"a": 1, "b": 2}\n' in more.out


async def test_a_run_has_the_priority_and_the_tenant_of_its_command(served):
    """`--priority` is a number from 1 to 5, and AGENT:TENANT gives the tenant's fairness key."""
    done = await served.sojourn("run", "desk.clerk:acme", "add", "--priority", "5", "--detach", "--json")
    assert done.code == 0, done.err
    described = await served.client.temporal.get_workflow_handle(done.json["run_id"]).describe()
    expected = Priority(priority_key=5, fairness_key="acme")
    assert described.raw_description.workflow_execution_info.priority == expected._to_proto()
    assert (await served.sojourn("run", "desk.clerk", "add", "--priority", "6")).code == 2


async def test_json_is_one_event_a_line(served):
    """`--json` prints the events of `Run.events()`, one a line."""
    done = await served.sojourn("run", "desk.clerk", "add", "--json")
    assert [done.objects[0]["type"], done.objects[-1]["type"]] == ["run_started", "run_stream_end"]
    assert done.code == 0


@pytest.mark.essential
async def test_a_run_that_waits_exits_4_and_says_how_to_answer(served):
    """Without a terminal the question is printed as text, with a command line that answers it."""
    run_id = f"waits-{uuid.uuid4().hex[:8]}"
    done = await served.sojourn("run", "desk.clerk", "ask", "--run-id", run_id)
    assert done.code == 4, done.err
    assert "Which?" in done.out
    assert "\x1b" not in done.out
    assert f"answer with: sojourn answer {run_id} question 'YOUR ANSWER'" in done.out


async def test_a_run_that_waits_for_approval_exits_4_and_decides_nothing(served):
    """Without a terminal each open call is printed with the command line that approves it, once `--yes` is added."""
    run_id = f"approves-{uuid.uuid4().hex[:8]}"
    done = await served.sojourn("run", "desk.clerk", "wipes", "--run-id", run_id)
    assert done.code == 4, done.err
    lines = [line for line in done.out.splitlines() if line.startswith("waiting; answer with: sojourn ")]
    assert len(lines) == 2
    run = served.client.get_run(run_id)
    assert (await run.status()).status == "waiting"
    for line in lines:
        words = shlex.split(line.removeprefix("waiting; answer with: sojourn "))
        assert (await served.sojourn(*words, "--yes")).code == 0
    assert (await run.result()).text == "wiped a wiped b"


async def test_every_open_call_is_shown_before_the_command_ends(served):
    """Without a terminal the command shows all open calls, then how to decide, and exits with 4."""
    text, as_json = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "wipes"), served.sojourn("run", "desk.clerk", "wipes", "--json")
    )
    assert (text.code, as_json.code) == (4, 4)
    assert text.out.count("Wipe disk a?") == text.out.count("Wipe disk b?") == 1
    assert text.out.index("Wipe disk b?") < text.out.index("answer with:")
    waits = [event for event in as_json.objects if event["type"] == "await_confirmation"]
    assert [event["wait"]["prompt"] for event in waits] == ["Wipe disk a?", "Wipe disk b?"]


async def test_a_long_run_is_watched_from_its_last_events(served):
    """`--last` begins with so many events of the run, as JSON and as lines; with `--after` it is bad usage."""
    run = await served.client.start("desk.clerk", "hello")
    await run.result()
    ids = [event.event_id async for event in run.events(follow=False)]
    two, all_of_them, text, both = await asyncio.gather(
        served.sojourn("watch", run.id, "--last", "2", "--json"),
        served.sojourn("watch", run.id, "--last", "1000", "--json"),
        served.sojourn("watch", run.id, "--last", "1"),
        served.sojourn("watch", run.id, "--last", "2", "--after", ids[0]),
    )
    assert [event["event_id"] for event in two.objects] == ids[-2:]
    assert [event["event_id"] for event in all_of_them.objects] == ids
    assert (text.code, "> hello" in text.out) == (0, False)
    assert (both.code, "give only one of --after and --last" in both.err) == (2, True)


async def test_a_patient_command_shows_a_call_made_outside_and_waits_for_it(served, start_command):
    """With `--patient` a wait for results from outside does not end the command, which follows the run to its answer."""
    run_id = f"outside-{uuid.uuid4().hex[:8]}"
    following = await start_command(
        "run", "desk.clerk", "weigh", "--run-id", run_id, "--patient", env=served.env
    )
    lines = [(await following.stdout.readline()).decode() for _ in range(7)]
    assert lines[6] == f"waiting; answer with: sojourn provide {run_id} FILE\n"
    run = served.client.get_run(run_id)
    calls = [item.tool_call_id for item in (await run.status()).awaits[0].items]
    for line, call_id, disk in zip((2, 4), calls, "ab", strict=True):
        assert lines[line] == f"? outside: desk.outside.weigh as {call_id}\n"
        assert lines[line + 1] == f'    disk = "{disk}"\n'
    await run.provide_tool_results(None, [{"tool_call_id": call, "result": 2.5} for call in calls])
    rest, _ = await following.communicate()
    assert following.returncode == 0
    assert "= 2.5 2.5" in rest.decode()


async def test_a_person_is_needed_although_a_result_from_outside_is_the_last_wait(served):
    """A command that nobody can answer ends when every wait was shown, whichever wait comes last."""
    printed, lines = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "both"), served.sojourn("run", "desk.clerk", "both", "--json")
    )
    assert (printed.code, lines.code) == (4, 4)
    assert printed.out.index("desk.outside.weigh") < printed.out.index("answer with: sojourn approve")
    assert {"await_confirmation", "await_external_tools"} <= {one["type"] for one in lines.objects}


async def test_json_ends_at_every_kind_of_wait(served):
    """With `--json` the last line is the event of the wait, the error has what is open, and the exit code is 4."""
    asked = (
        ("ask", "await_clarification", "answer"),
        ("wipe", "await_confirmation", "approve"),
        ("weigh", "await_external_tools", "provide"),
    )
    for text, kind, name in asked:
        done = await served.sojourn("run", "desk.clerk", text, "--json")
        assert (done.objects[-1]["type"], done.code) == (kind, 4)
        [wait] = json.loads(done.err)["open"]
        assert wait["command"].startswith(f"sojourn {name} {done.objects[-1]['run_id']} ")


async def test_every_command_that_waits_ends_at_a_wait_for_results(served):
    """`run`, `watch` and `result` exit with 4 and the command that gives the results."""
    run = await served.waiting("weigh")
    line = f"sojourn provide {run.id} FILE"
    started, watched, result = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "weigh"),
        served.sojourn("watch", run.id),
        served.sojourn("result", run.id),
    )
    assert (started.code, watched.code, result.code) == (4, 4, 4)
    assert "answer with: sojourn provide " in started.out
    assert f"waiting; answer with: {line}" in watched.out
    assert line in result.err


async def test_a_failed_run_exits_1(served):
    """A planner that returns no plan fails the run; `run`, `watch`, `show` and `result` print the reason, its code and how to retry."""
    done = await served.sojourn("run", "desk.clerk", "fail", "--run-id", f"fail-{uuid.uuid4().hex[:8]}")
    assert (done.code, "PlanResult" in done.out) == (1, True)
    run_id = re.findall(r"sojourn retry (\S+)", done.out)[-1]
    watched, shown, result, told = [
        await served.sojourn(*words, run_id)
        for words in (["watch"], ["show"], ["result"], ["result", "--json"])
    ]
    for each in (done, watched, shown):
        assert re.search(r"^ +code: \w+", each.out, re.MULTILINE), each.out
        assert each.out.count(f"take it up again with: sojourn retry {run_id}") == 1
    assert f"\ntake it up again with: sojourn retry {run_id}" in result.err
    assert json.loads(told.err)["code"] in shown.out


async def test_a_taken_run_id_exits_1_with_the_next_step(served):
    """The error names an option and a command, without a traceback."""
    run = await served.start("add")
    done = await served.sojourn("run", "desk.clerk", "add", "--run-id", run.id)
    assert (done.code, done.err) == (
        1,
        (
            f"sojourn: run id '{run.id}' was used before; choose another --run-id, or follow that run with "
            f"`sojourn watch {run.id}`\n"
        ),
    )


async def test_a_queue_without_a_worker_exits_1_with_the_next_step(served):
    """The error shows how to start a worker there, and `--json` has the type of the error and the run's id."""
    line = ("run", "desk.clerk", "add", "--task-queue", "no one", "--run-id", "r")
    text, as_json = await asyncio.gather(served.sojourn(*line), served.sojourn(*line, "--json"))
    assert "no run was started" in text.err
    assert "`sojourn worker MODULE:APP --task-queue 'no one'`" in text.err
    error = json.loads(as_json.err)
    assert (text.code, error["error"], error["run_id"]) == (1, "NoWorker", "r")


async def test_an_agent_id_is_checked_only_on_the_server(command):
    """With a malformed agent id and no server, the exit code is that of the missing server."""
    done = await command("run", "no-dot", "x", "--json", env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (done.code, json.loads(done.err)["exit_code"]) == (3, 3)


async def test_a_detached_run_is_started_and_not_followed(served):
    """`--detach` prints the run's id only, or with `--json` an object; labels and limits are those given."""
    limits = '{"max_tool_calls": 1}'
    plain, as_json = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "ask", "--detach"),
        served.sojourn(
            *("run", "desk.clerk", "add", "--detach", "--json", "--label", "team=ops", "--policy", "-"),
            input=limits,
        ),
    )
    assert (plain.code, plain.err) == (0, "")
    assert (await served.client.get_run(plain.out.removesuffix("\n")).status()).agent_id == "desk.clerk"
    assert list(as_json.json) == ["run_id", "agent_id", "session_id", "task_queue"]
    run = served.client.get_run(as_json.json["run_id"])
    assert (await run.result()).tool_calls == 1
    async for event in served.client.temporal.get_workflow_handle(run.id).fetch_history_events():
        sent = json.loads(event.workflow_execution_started_event_attributes.input.payloads[0].data)
        assert sent["labels"] == {"team": "ops"}
        assert sent["policy"] == json.loads(limits)
        break


async def test_the_message_is_read_from_standard_input(served):
    """`-` is the text of standard input; with `--policy -` too, there is nothing to tell them apart by."""
    done, both = await asyncio.gather(
        served.sojourn("run", "desk.clerk", "-", "--detach", input=b"\xef\xbb\xbfhello\r\nthere\r\n"),
        served.sojourn("run", "desk.clerk", "-", "--policy", "-"),
    )
    assert (await served.client.get_run(done.out.strip()).result()).text == "hello\nthere"
    assert (both.code, "not both" in both.err) == (2, True)


async def test_a_prompt_notices_that_somebody_else_answered(served):
    """A run that is answered elsewhere goes on at the terminal that asks, without a key."""
    run = await served.waiting("order")
    words = (sys.executable, "-m", "sojourn", "watch", run.id)
    terminal = await Terminal.run(*words, env={**os.environ, **served.env})
    await terminal.shows(r"boolean, optional\)(.|\n)*\n>")
    (wait,) = await run.until_waiting()
    await run.decline(wait.id)
    await terminal.shows("another person answered first")
    await terminal.end()
    assert terminal.process.returncode == 0


async def test_the_end_of_input_at_a_prompt_says_how_to_go_on(served):
    """Ctrl-D leaves the run as it is, and prints the command that follows it; the exit code is that of a run that waits."""
    run = await served.waiting("order")
    words = (sys.executable, "-m", "sojourn", "watch", run.id)
    terminal = await Terminal.run(*words, env={**os.environ, **served.env})
    await terminal.shows(r"\n>")
    terminal.type("\x04")
    assert f"the run waits for an answer; follow it with: sojourn watch {run.id}" in await terminal.end()
    assert terminal.process.returncode == 4
    assert (await run.status()).status == "waiting"


async def test_a_run_of_a_tenant_is_the_tenants(served):
    """`AGENT:TENANT` starts the run for the tenant, as `send` and `chat` do; without a tenant it is nobody's."""
    acme, none = await asyncio.gather(
        *(served.sojourn("run", name, "add", "--detach") for name in ("desk.clerk:acme", "desk.clerk"))
    )
    assert (acme.code, none.code) == (0, 0), acme.err
    whose = [(await served.client.get_run(each.out.strip()).status()).principal for each in (acme, none)]
    assert (whose[0].tenant, bool(whose[0].subject), whose[1]) == ("acme", True, None)
    wrong = await served.sojourn("run", "desk.clerk:", "add")
    assert (wrong.code, "AGENT:TENANT" in wrong.err) == (2, True)


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
