"""docs/commands.md: its command lines work, and print the fields of the tables in docs/reference/json.md."""

import asyncio
import json
import re
import shlex
import uuid
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from sojourn import Client, RunFailed
from sojourn.answers import WaitView
from sojourn.cli import app
from sojourn.worker import Worker
from tests.cli.conftest import command, desk, served, start_command

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "commands.md").read_text()
JSON_PAGE = (HERE.parents[1] / "docs" / "reference" / "json.md").read_text()


__all__ = ["command", "desk", "served", "start_command"]  # fixtures

SERVING = ("worker", "dev", "serve", "server")


@pytest.fixture
def here(tmp_path) -> Path:
    """The commands' folder, with the module of the app that the page names."""
    (tmp_path / "desk_app.py").write_text((HERE.parent / "cli" / "desk_app.py").read_text())
    return tmp_path


def lines_of(section: str) -> list[list[str]]:
    """The command lines of a section, each as the words after `sojourn`."""
    part = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    assert all(words.pop(0) == "sojourn" for words in lines)
    return lines


def fields_of(rows, section: str) -> list[str]:
    """The fields of the table of a section of the reference."""
    return [field.strip("`") for field, _ in rows("reference/json.md", f"## {section}\n")]


async def all_well(served, lines: list[list[str]]) -> list:
    """Run all lines at once; each exits with 0 and prints no error."""
    done = await asyncio.gather(*(served.sojourn(*line) for line in lines))
    for line, one in zip(lines, done, strict=True):
        warned = one.err.startswith("warning: ") and "--arguments" in line
        assert one.code == 0, (line, one)
        assert warned or not one.err, (line, one)
    return done


async def test_every_command_and_exit_code_is_in_a_table():
    """Each command is in the first table, and each exit code in the second."""
    named = {
        command.name or command.callback.__name__.replace("_", "-") for command in app.registered_commands
    }
    listed = set(re.findall(r"`([\w-]+)(?: [^`]*)?`", PAGE.split("## What all commands")[0]))
    assert named <= listed
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == ["0", "1", "2", "3", "4", "5", "130"]


def test_every_option_is_on_the_page():
    """Each option of each command is named on the page."""
    import typer

    group = typer.main.get_command(app)
    nested = {
        f"{name} {inner}": command
        for name, each in group.commands.items()
        for inner, command in getattr(each, "commands", {}).items()
    }
    assert "schedule create" in nested
    options = {
        (name, option)
        for name, command in (group.commands | nested).items()
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }
    assert {each for each in options if each[1] not in PAGE} == set()


async def test_begin(command, tmp_path):
    """Each line makes a project, with the files and the agent's id that the page names."""
    (tmp_path / "shop").mkdir()
    for words in lines_of("Begin"):
        folder = tmp_path / "shop" if words[1] == "." else tmp_path
        done = await command(*words, cwd=folder)
        assert done.code == 0, done.err
        files = [path for path in (folder / words[1]).rglob("*") if path.is_file()]
        assert all(f"`{path.relative_to(folder / words[1])}`" in PAGE for path in files)
        assert len(files) == 5
    assert '"support_desk.assistant"' in (tmp_path / "support-desk" / "worker.py").read_text()


async def test_start_and_follow(served, here):
    """The lines start, follow and show a run."""
    first, second, limited, detached, *others = lines_of("Start and follow")
    (here / "limits.json").write_text('{"max_tool_calls": 5, "time_budget": "PT10M"}')
    assert detached[-2:] == ["<", "message.txt"]
    done = await all_well(served, [first, second, limited])
    assert json.loads(done[1].out.splitlines()[0])["run_id"] == "clerk-1"
    started = await served.sojourn(*detached[:-2], input="add\n")
    assert (await served.client.get_run(started.out.strip()).result()).text == "None 3"
    run = await served.start("add")
    await run.result()
    await all_well(served, [[run.id if word == "RUN" else word for word in words] for words in others])


async def test_talk(served, status_when):
    """The lines send messages to one conversation; each is answered."""
    session_id = uuid.uuid4().hex
    lines = [[word.replace("desk-1", session_id) for word in words] for words in lines_of("Talk")]
    waited, named, steered = await all_well(served, lines[:3])
    assert waited.out.strip()
    assert json.loads(named.out) == {"run_id": f"desk.clerk@{session_id}", "message_id": "m-1"}
    assert json.loads(steered.out)["run_id"] == f"desk.clerk@{session_id}"
    run = served.client.session("desk.clerk", session_id).run
    status = await status_when(run, lambda status: status.status == "idle" and not status.queued)
    assert status.turns in (2, 3)
    for line in lines[3:5]:
        await all_well(served, [line])
    assert (await served.client.session("desk.clerk", session_id).timeline()).branches == 2
    interrupted = await served.sojourn(*lines[5])
    assert (interrupted.code, "is idle; there is no turn" in interrupted.err) == (1, True)
    await all_well(served, lines[6:])
    assert (await run.result()).reason == "closed"


async def test_sessions(served, status_when):
    """The lines list conversations; the last one has the columns of the page's table."""
    session = served.client.session("desk.clerk", uuid.uuid4().hex)
    await session.send("add")
    await status_when(session.run, lambda status: status.status == "idle")
    *_, listed = await all_well(served, lines_of("Sessions"))
    assert listed.out.split("\n")[0].split() == PAGE.split("no worker:\n\n```\n")[1].split("\n")[0].split()


async def test_keys(command, tmp_path):
    """The lines make, rotate, list and revoke keys, and print the fields that the page names."""
    done = [await command(*words, cwd=tmp_path) for words in lines_of("Keys")]
    assert [(each.code, each.err) for each in done] == [(0, "")] * 8
    ana, ci, rotated, table, listed, older, revoked, ids = done
    assert re.fullmatch(r"sojourn_[0-9a-f]{12}_[\w-]{43}", ana.out.splitlines()[-1])
    (fields,) = re.findall(r"^\| `keys list` \| (.*) \|$", JSON_PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", fields) == list(listed.objects[0])
    assert {key["name"]: key["roles"] for key in listed.objects} == {
        "ana": ["user", "approver"],
        "ci": ["user"],
    }
    assert "ana" in table.out
    assert ci.json["key_id"] in ids.json["revoked"]
    assert listed.objects[0]["key_id"] in older.out
    assert listed.objects[2]["key_id"] in revoked.out
    assert listed.objects[2]["key_id"] in rotated.out


async def test_keyring(command, tmp_path):
    """The lines make, list, rotate and erase keys."""
    done = [await command(*words, cwd=tmp_path) for words in lines_of("Keyring")]
    assert [(each.code, each.err) for each in done] == [(0, "")] * len(done)
    assert [each.out.count("\n") for each in done[:6]] == [1, 1, 2, 2, 1, 2]
    assert done[6].out.count("erased key_") == 2


async def test_schedules(served):
    """The lines create schedules, look at them, let one act, and delete them."""
    tag = uuid.uuid4().hex[:8]
    lines = [
        [re.sub(r"^(nightly|morning)$", rf"\1-{tag}", word) for word in words]
        for words in lines_of("Schedules")
    ]
    assert {words[1] for words in lines} == {
        *("create", "list", "show", "pause", "resume", "trigger", "delete")
    }
    created, named = [(await all_well(served, [line]))[0] for line in lines[:2]]
    assert created.out == f"nightly-{tag}\n"
    assert named.json == {"schedule_id": f"morning-{tag}"}
    done = [(await all_well(served, [line]))[0] for line in lines[2:]]
    shown, paused, triggered = done[2], done[3], done[5]
    assert "every 1 day" in shown.out
    assert "note: for the morning" in shown.out
    assert paused.out == f"paused: nightly-{tag}\n"
    assert triggered.json == {"schedule_id": f"nightly-{tag}", "done": "triggered"}
    gone = await served.sojourn("schedule", "show", f"nightly-{tag}")
    assert (gone.code, "there is no schedule" in gone.err) == (1, True)


async def test_list(served, until, rows):
    """The lines list runs, and the printed fields are those of the table."""
    lines = lines_of("List")
    run = await served.waiting("ask")

    async def is_listed() -> bool:
        done = await served.sojourn("list", "--json")
        return run.id in [one["run_id"] for one in done.objects]

    await until(is_listed)
    done = await all_well(served, lines)
    assert [*done[-1].objects[0], "stuck"] == fields_of(rows, "Lists")


async def test_cost(served, rows):
    """The lines print the fields of the table."""
    *_, done = await all_well(served, lines_of("Cost"))
    assert list(done.json) == fields_of(rows, "Cost")


async def test_answers(served, here, rows):
    """Each line answers a waiting run; with `resume --message` they print the fields of the table."""
    texts = {"answer": "ask", "approve": "wipe", "deny": "wipe", "provide": "weigh"}
    printed: dict = {}
    for words in lines_of("Answer"):
        text = "order" if {"--field", "--json-values"} & set(words) else texts[words[0]]
        run = await served.waiting(text)
        call = getattr((await run.status()).awaits[0], "items", None)
        call_id = call[0].tool_call_id if call else ""
        (here / "results.json").write_text(json.dumps({"tool_call_id": call_id, "result": 1}))
        (wait,) = (await run.status()).awaits
        known = {"RUN": run.id, "AWAIT_ID": wait.id, "DIGEST": getattr(wait, "payload_digest", "")}
        filled = [known.get(word, word.replace("CALL=", f"{call_id}=")) for word in words]
        if "<" in filled:
            done = await served.sojourn(*filled[: filled.index("<")], "--json", input="the left one\n")
            assert (done.code, done.err) == (0, "")
        else:
            (done,) = await all_well(served, [[*filled, "--json"]])
        printed |= done.json
        if "--digest" in words:
            (again,) = await all_well(served, [[*filled, "--json"]])
            assert again.json["already"]
            printed |= again.json
    run = await served.waiting("ask")
    _, (resumed,), (aside,) = [
        await all_well(served, [words])
        for words in (
            ["pause", run.id],
            ["resume", run.id, "--message", "never mind", "--json"],
            ["set-aside", run.id, "0", "--json"],
        )
    ]
    assert set(printed | resumed.json | aside.json) == set(fields_of(rows, "Answers and steering"))


async def test_steering(served):
    """The lines set a message of one run aside, pause, resume and cancel it."""
    run = await served.waiting("ask")
    known = {"RUN": run.id, "12": "0"}
    pause, resume, resume_saying, cancel, set_aside = [
        [known.get(word, word) for word in words] for words in lines_of("Steer")
    ]
    for words in (set_aside, pause, resume, pause, resume_saying, cancel):
        await all_well(served, [words])


async def test_try_again(served, here, rows, until):
    """The lines fork and retry runs, and print the fields of the table."""
    *lines, listing = lines_of("Try again")
    wipe, ask, fail = await served.waiting("wipe"), await served.waiting("ask"), await served.start("fail")
    await wipe.approve()
    await wipe.result()
    with pytest.raises(RunFailed):
        await fail.result()
    ends = [event.event_id async for event in wipe.events() if event.type == "tool_end"]
    for words in lines:
        run = ask if "--answer" in words else fail if words[0] == "retry" else wipe
        if "--history" in words:
            await served.sojourn("export", run.id, "--history", words[words.index("--history") + 1])
        known = {"RUN": run.id, "EVENT": ends[-1]}
        options = {"--detach": None, "--json": None}  # each once
        line = [*(known.get(word, word) for word in words if word not in options), *options]
        done = (await all_well(served, [line]))[0]
        assert list(done.json) == fields_of(rows, "Forks and retries")
        assert done.json["forked_from"] == run.id

    async def are_listed() -> bool:
        (done,) = await all_well(
            served, [[*(wipe.id if word == "RUN" else word for word in listing), "--json"]]
        )
        return [run["forked_from"]["run_id"] for run in done.objects] == [wipe.id] * 6

    await until(are_listed)


async def test_several_runs(served, here, until):
    """The lines list failed runs, count them, retry them once, and leave them alone otherwise."""
    listing, dry, retry, cancel, piped = lines_of("Several runs")
    fail = await served.start("fail")
    with pytest.raises(RunFailed):
        await fail.result()
    assert listing[-2:] == [">", "runs.jsonl"]

    async def listed() -> list[str]:
        lines = (await served.sojourn(*listing[:-2])).out.splitlines()
        return [line for line in lines if json.loads(line)["run_id"] == fail.id]

    (here / "runs.jsonl").write_text("\n".join(await until(listed)))
    (counted,) = await all_well(served, [dry])
    assert counted.out.endswith("retry: 1 of 1 run\n")
    (retried,) = await all_well(served, [[*retry, "--yes", "--json"]])
    assert list(retried.json) == ["run_id", "done", "by", "new_run_id"]
    assert (await served.sojourn(*cancel)).code == 1
    begin = piped.index("|") + 2
    asks = await served.waiting("ask")
    now = await served.sojourn(*piped[begin:], input=asks.id)
    assert now.out.startswith(f"retried now: {asks.id}, by ")


async def test_export(served, here):
    """The lines write the files of the table."""
    run = await served.start("below")
    await served.status_when(run, lambda status: status.child_awaits)
    *folders, history = [
        [run.id if word == "RUN" else word for word in words] for words in lines_of("Export")
    ]
    for words in folders:
        (done,) = await all_well(served, [[*words, "--json"]])
    files = re.findall(r"^\| `([\w.]+)` \| ", PAGE.split("## Export")[1].split("## Serve")[0], re.MULTILINE)
    assert sorted(files) == sorted(path.name for path in (here / run.id).iterdir())
    assert set(done.json) == set(
        re.findall(r"`(\w+)`", JSON_PAGE.split("`export` prints `run_id`, ")[1].split("each the same")[0])
    ) | {"run_id"}
    (written,) = await all_well(served, [[*history, "--json"]])
    assert written.json["history"] == history[-1]
    assert (here / history[-1]).is_file()
    assert set(written.json) == {"run_id", "history", "events"}


async def test_replay(served, here):
    """The lines replay histories and runs, with the fields of the reference."""
    run = await served.start("add")
    await run.result()
    exported = await served.sojourn("export", run.id, "--history", "histories/run.json")
    assert exported.code == 0, exported.err
    lines = [[run.id if word == "RUN" else word for word in words] for words in lines_of("Replay")]
    *_, listed = await all_well(served, lines)
    known = set(re.findall(r"`(\w+)`", JSON_PAGE.split("## Replays")[1].split("## Development")[0]))
    assert {name for each in listed.objects for name in each} <= known
    assert listed.objects[-1]["runs"] == 1


async def test_deployments(served, desk, temporal_address, monkeypatch):
    """The lines ramp, promote and roll back a version, with the fields of the reference."""
    name = f"desk-{uuid.uuid4().hex[:8]}"
    monkeypatch.setenv("SOJOURN_DEPLOYMENT", name)
    client = await Client.connect(temporal_address, task_queue=name)
    async with AsyncExitStack() as stack:
        for version in ("v1", "v2"):
            monkeypatch.setenv("SOJOURN_BUILD_ID", version)
            await stack.enter_async_context(Worker(desk.app, client, drain=timedelta(0)))
            if version == "v1":
                (first,) = await all_well(served, [["deployment", "promote", version]])
                assert first.out == f"v1 of {name} is current\n"
        status, *changes = lines_of("Deployments")
        for line in changes:
            (done,) = await all_well(served, [line])
        assert done.json == {"deployment": name, "build_id": "v1", "state": "current"}
        listed, printed = await all_well(served, [[*status, "--json"], status])
        assert [each["build_id"] for each in listed.objects] == ["v2", "v1"]
        assert printed.out.splitlines()[1].startswith("v1: current, 0 open, first seen ")
        known = re.findall(r"`(\w+)`", JSON_PAGE.split("## Deployments")[1].split("## Catalogs")[0])
        assert set(listed.objects[0]) <= set(known)


async def test_catalog_and_doctor(served, here):
    """The lines print the tree, the fields and the files that the page names."""
    tree, listed, written = await all_well(served, lines_of("Catalog"))
    assert "desk.tools.add" in tree.out
    assert set(listed.json[0]) <= set(
        re.findall(r"`(\w+)`", JSON_PAGE.split("Each entry of `catalog` has")[1].split("With `--json`")[0])
    )
    assert written.out.splitlines()[0] == "schemas/tool_schemas.json"
    await served.end_left_open()
    *_, checked = await all_well(served, lines_of("Doctor"))
    assert list(checked.json) == ["ok", "exit_code", "checks"]
    assert {key for check in checked.json["checks"] for key in check} <= {"check", "ok", "found", "mend"}


def test_the_options_of_serving_commands_exist():
    """The lines of the section Serve parse as command lines."""
    import typer

    group = typer.main.get_command(app)
    for words in lines_of("Serve"):
        assert words[0] in SERVING
        group.commands[words[0]].make_context(words[0], words[1:])


async def test_errors_have_the_fields_of_the_table(served, rows):
    """An error about open waits has all fields of the table, and its entries those of a wait and those that the page names."""
    run = await served.waiting("wipes", 2)
    done = await served.sojourn("approve", run.id, "--json")
    error = json.loads(done.err)
    assert list(error) == [
        field.strip("`") for field, _ in rows("reference/json.md", "one object on standard error:")
    ]
    entry = re.search(r"Each entry of `open` has (.*?)\n", JSON_PAGE)
    assert entry
    others = set(error["open"][0]) - set(WaitView.model_fields)
    assert others <= set(re.findall(r"`(\w+)`", entry[1]))
