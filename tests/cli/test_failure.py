"""Every failure of every command: the exit code and one sentence, never a traceback, never a hang."""

import asyncio
import json
import signal
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from sojourn import Client
from sojourn.cli.failure import failure_of, wants_json
from sojourn.cli.options import load_app
from sojourn.errors import DefinitionError, InvalidInput, RunCanceled, RunNotFound, ServerUnavailable
from tests.cli.proxy import Proxy

RUN = "{run}"


@dataclass(frozen=True)
class Case:
    """A command line that needs a server."""

    line: str
    takes_run: bool = True
    needs_worker: bool = True
    """Whether the command fails if no worker serves the run."""
    follows: bool = False
    """Whether the command continues until the run ends, and outlasts a server's restart of up to a minute."""
    input: str = ""
    """What the command reads from standard input."""

    def arguments(self, run_id: str) -> list[str]:
        """The words of the command line, for a run."""
        return [word.replace(RUN, run_id) for word in self.line.split()]


CASES = [
    Case("run desk.clerk sleep", takes_run=False, follows=True),
    Case("watch {run}", needs_worker=False, follows=True),
    Case("result {run}", needs_worker=False, follows=True),
    Case("show {run}", needs_worker=False),
    Case("send desk.clerk@{run} add", takes_run=False),
    Case("chat desk.clerk --session {run}", takes_run=False, input="sleep\n"),
    Case("withdraw desk.clerk@{run} m-1", takes_run=False, needs_worker=False),
    Case("interrupt desk.clerk@{run}", takes_run=False, needs_worker=False),
    Case("close desk.clerk@{run}", takes_run=False, needs_worker=False),
    Case("answer {run} yes"),
    Case("answer {run} --decline"),
    Case("approve {run}"),
    Case("deny {run} --why no"),
    Case("decide --list", takes_run=False, needs_worker=False),
    Case("provide {run} --result c=1"),
    Case("pause {run}"),
    Case("resume {run}"),
    Case("cancel {run}", needs_worker=False),
    Case("set-aside {run} 0"),
    Case("bulk cancel - --dry-run", takes_run=False, needs_worker=False, input="r\n"),
    Case("fork {run}"),
    Case("retry {run}", needs_worker=False),
    Case("export {run}", needs_worker=False),
    Case("list", takes_run=False, needs_worker=False),
    Case("schedule create desk.clerk add --every 1d --id {run}", takes_run=False),
    Case("schedule list", takes_run=False, needs_worker=False),
    Case("schedule show {run}", takes_run=False, needs_worker=False),
    Case("schedule pause {run}", takes_run=False, needs_worker=False),
    Case("schedule resume {run}", takes_run=False, needs_worker=False),
    Case("schedule trigger {run}", takes_run=False, needs_worker=False),
    Case("schedule delete {run}", takes_run=False, needs_worker=False),
    Case("sessions", takes_run=False, needs_worker=False),
    Case("cost", takes_run=False, needs_worker=False),
    Case("list --stuck", takes_run=False, needs_worker=False),
    Case("doctor", takes_run=False, needs_worker=False),
]


async def all_of(cases: Iterable, outcome) -> None:
    """Run all cases at once, and fail with every fault."""
    faults = [fault for fault in await asyncio.gather(*map(outcome, cases)) if fault]
    assert not faults, "\n".join(faults)


def fault_of(case: Case, done, code: int, expected: str = "", *, as_json: bool = False) -> str | None:
    """The faults of a command's end, as text; None if there is none."""
    output = done.out + done.err if case.line == "doctor" else done.err
    sentences = [line for line in done.err.splitlines() if line.startswith("sojourn: ")]
    wrong = {
        f"exit code {done.code}, not {code}": done.code != code,
        f"nothing about {expected!r}": expected not in output,
        "a traceback": "Traceback" in done.out + done.err,
        "no sentence": code and not as_json and case.line != "doctor" and len(sentences) != 1,
        "an abort": "Abort" in done.err or done.code < 0,
    }
    if as_json and case.line != "doctor":
        error = json.loads(done.err.splitlines()[-1])
        wrong["another object"] = error["exit_code"] != code or expected not in error["message"]
    return (
        "; ".join([case.line, *faults, done.err])
        if (faults := [name for name, is_so in wrong.items() if is_so])
        else None
    )


async def test_no_server(command):
    """Each command names the address in one sentence, and with `--json` prints one object that says how to start a server."""

    async def outcome(turn):
        case, as_json = turn
        options = ["--json"] if as_json else []
        done = await command(
            *case.arguments("r"), *options, input=case.input, env={"TEMPORAL_ADDRESS": "127.0.0.1:1"}
        )
        return fault_of(case, done, 3, "127.0.0.1:1" if not as_json else "sojourn server", as_json=as_json)

    await all_of([(case, index % 2 == 1) for index, case in enumerate(CASES)], outcome)


@pytest.fixture
async def unserved(temporal_address):
    """A run on a task queue without a worker, and the environment variables with which commands find the run."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    run = await client.start("desk.clerk", "add", wait_for_worker=True)
    return run, {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}


async def test_the_server_dies_midway(unserved, temporal_address, command):
    """The server dies at a command's first request, or its second: each command exits with 3, after its retries."""
    run, env = unserved

    async def outcome(turn):
        case, last = turn
        async with Proxy(temporal_address, last=last) as proxy:
            done = await command(
                *case.arguments(run.id), input=case.input, env={**env, "TEMPORAL_ADDRESS": proxy.address}
            )
            if not proxy.ended.is_set():  # the command sends no second request
                return fault_of(case, done, 0) if case.line == "list" else None
            return fault_of(case, done, 3, "does not answer")

    await all_of([(case, last) for case in CASES if not case.follows for last in (2, 3)], outcome)


async def test_the_server_dies_while_a_run_is_followed(served, temporal_address, command):
    """A command that follows a run waits a minute for the server (here two seconds), then exits with 3."""
    run = await served.start("sleep")
    briefly = "import sojourn.connection.rpc_errors\nsojourn.connection.rpc_errors.LONGEST_OUTAGE = 2"

    async def outcome(case):
        async with Proxy(temporal_address, last=4) as proxy:
            env = {**served.env, "TEMPORAL_ADDRESS": proxy.address}
            done = await command(*case.arguments(run.id), input=case.input, env=env, before=briefly)
            return fault_of(case, done, 3, "does not answer")

    await all_of([case for case in CASES if case.follows], outcome)


async def test_an_unknown_run(served):
    """Each command that takes a run exits with 1 and names the unknown run."""

    async def outcome(case):
        done = await served.sojourn(*case.arguments("no-such-run"), "--json", input=case.input)
        return fault_of(case, done, 1, "no-such-run", as_json=True)

    await all_of([case for case in CASES if case.takes_run], outcome)


async def test_a_run_id_that_no_run_has(temporal_address, command):
    """Each command that takes a run refuses an empty id, and one of two lines, in one line."""

    async def outcome(turn):
        case, run_id = turn
        done = await command(
            *case.arguments(run_id), input=case.input, env={"TEMPORAL_ADDRESS": temporal_address}
        )
        return fault_of(case, done, 2, f"run id {run_id!a}: an id has 1 to 1000 visible characters")

    await all_of(
        [(case, ["", "a\nb"][turn % 2]) for turn, case in enumerate(CASES) if case.takes_run], outcome
    )


async def test_a_namespace_that_the_server_lacks(temporal_address, command):
    """Commands name the namespace that is missing, not a run."""
    for line in ("list", "show r", "run desk.clerk add"):
        done = await command(
            *line.split(), "--namespace", "nowhere", env={"TEMPORAL_ADDRESS": temporal_address}
        )
        assert done.code != 0
        assert "Namespace nowhere is not found; name another with TEMPORAL_NAMESPACE" in done.err


async def test_an_environment_that_is_not_utf_8(temporal_address, command):
    """A variable of another program harms no command."""
    done = await command("list", env={"TEMPORAL_ADDRESS": temporal_address, "LS_SOMETHING": "\udcff"})
    assert done.code == 0, done.err


async def test_no_worker(unserved, command):
    """Each command that needs a worker exits with 1 and says why, without a wait of half a minute."""
    run, env = unserved

    async def outcome(case):
        done = await command(*case.arguments(run.id), input=case.input, env=env)
        expected = "is not paused" if case.line.startswith("resume") else "no worker polls task queue"
        return fault_of(case, done, 1, expected)

    await all_of([case for case in CASES if case.needs_worker], outcome)


async def test_ctrl_c_while_the_server_is_silent(unserved, temporal_address, start_command):
    """Ctrl-C ends each command with 130 and one sentence."""
    run, env = unserved

    async def outcome(case):
        async with Proxy(temporal_address, last=2, end="falls silent") as proxy:
            process = await start_command(
                *case.arguments(run.id), input=case.input, env={**env, "TEMPORAL_ADDRESS": proxy.address}
            )
            await proxy.ended.wait()
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        ended = type("Done", (), {"code": process.returncode, "out": out.decode(), "err": err.decode()})
        return fault_of(case, ended, 130, "interrupted")

    await all_of(CASES, outcome)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("answer", "r", "--json-values", "{"), "--json-values is not JSON"),
        (("answer", "r", "--json-values", "[1]"), "an object"),
        (("answer", "r", "--json-values", "[" * 100_000), "--json-values is not JSON"),
        (("answer", "r", "--field", "count"), "NAME=VALUE"),
        (("answer", "r", "x", "--field", "a=1", "--decline"), "one of TEXT"),
        (("answer", "r", "id", "x", "--decline"), "give either TEXT"),
        (("answer", "r", "--why", "x", "y"), "--why needs --decline"),
        (("answer", "r"), "give the answer"),
        (("answer", "r", "two", "words", "more"), "more"),
        (("answer",), "RUN"),
        (("provide", "r", "--result", "c=nope"), "nope is not JSON"),
        (("provide", "r", "--result", "c=nope"), "--result 'c=\"nope\"'"),
        (("lst",), "'list'? See `sojourn --help`"),
        (("worker", "json:nope"), "'nope' is not in module 'json'; it has no App"),
        (("bulk", "kill", "-"), "Invalid value for 'ACTION': 'kill' is not one of 'cancel', 'retry'"),
        (("worker", "json:loads"), "'loads' is of type function, not an App"),
        (("provide", "r", "--result", "nope"), "CALL=VALUE"),
        (("provide", "r", "no-such-file"), "no-such-file"),
        (("provide", "r", "-"), "tool_call_id"),
        (("list", "--limit", "many"), "--limit"),
        (("approve", "r", "--for-ever"), "--for-ever"),
        (("export", "r", "--app", "nowhere:app"), "no module 'nowhere'"),
        (("catalog", "nowhere:app"), "no module 'nowhere'"),
        (("replay", "nowhere:app", "--open"), "no module 'nowhere'"),
        (("dev", "nowhere:app"), "no module 'nowhere'"),
        (("dev", "nowhere"), "MODULE:APP"),
        (("worker", "nowhere:app"), "no module 'nowhere'"),
        (("worker", "json"), "MODULE:APP"),
        (("run", "cli.agent"), "Missing argument"),
        (("nonsense",), "nonsense"),
        (("run", "cli.agent", "\udcff"), "the argument '\\udcff' is not UTF-8 text"),
        (("list", "--agent", "\udcff"), "the argument '\\udcff' is not UTF-8 text"),
        (("server", "--port", "99999"), "port 99999: a port is 0 to 65535"),
        (("server", "--ui-port", "-5"), "ui_port -5: a port is 0 to 65535"),
        (("dev", "sojourn.testing.desk:app", "--port", "99999"), "port 99999: a port is 0 to 65535"),
    ],
)
async def test_bad_usage_is_refused_before_any_request(command, arguments, expected):
    """Bad usage exits with 2 and one sentence, also without a server."""
    done = await command(*arguments, input='["x"]', env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert (done.code, expected in done.err) == (2, True), done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1


async def test_a_wrong_declaration_is_one_readable_line(command, tmp_path):
    """A DefinitionError is printed as one line that names the tool and the parameter."""
    (tmp_path / "wrong_app.py").write_text(
        "from sojourn import Toolset\ntools = Toolset('cli.tools')\n@tools.tool\ndef add(a, b: int): ...\n"
    )
    done = await command("worker", "wrong_app:app")
    assert done.code == 2
    assert "cli.tools.add: parameter 'a' has no type annotation" in done.err
    assert len(done.err.strip().splitlines()) == 1


async def test_settings_that_cannot_be_read_exit_with_2(command):
    """A wrong profile, certificate or address exits with 2, and the error names the setting."""
    settings = [
        ({"TEMPORAL_PROFILE": "none"}, "TEMPORAL_PROFILE"),
        ({"TEMPORAL_TLS": "true", "TEMPORAL_TLS_CLIENT_CERT_PATH": "/no/such"}, "TEMPORAL_TLS_*"),
        ({"TEMPORAL_ADDRESS": "no address"}, "host:port"),
        ({"TEMPORAL_ADDRESS": "localhost:99999"}, "host:port"),
    ]

    async def outcome(setting):
        env, expected = setting
        return fault_of(Case("list"), await command("list", env=env), 2, expected)

    await all_of(settings, outcome)


async def test_every_command_is_in_the_table():
    """`CASES` holds every command but those that serve, need no server, or need an app with quotas."""
    from sojourn.cli import app

    named = {command.name or command.callback.__name__ for command in app.registered_commands}
    serving = {"worker", "serve", "server", "dev", "catalog", "init", "replay", "tenant"}
    assert named - serving == {case.line.split()[0] for case in CASES} - {"schedule"}
    groups = {group.typer_instance.info.name: group.typer_instance for group in app.registered_groups}
    assert set(groups) == {"schedule", "keys", "keyring", "deployment"}, "keys and keyring need no server"
    nested = {command.name or command.callback.__name__ for command in groups["schedule"].registered_commands}
    assert nested == {case.line.split()[1] for case in CASES if case.line.startswith("schedule")}


def wrapped(cause: BaseException) -> Exception:
    error = RuntimeError("cannot go on")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (RunNotFound("no run r"), 1, "no run r"),
        (RunCanceled("canceled by ana"), 5, "canceled by ana"),
        (ServerUnavailable("nobody\x1b[31m\nthere"), 3, "nobody"),
        (ExceptionGroup("all", [RunNotFound("no run r")]), 1, "no run r"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied: /x"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (wrapped(KeyboardInterrupt()), 130, "interrupted"),
        (RuntimeError("Error building 'literal' serializer: KeyboardInterrupt: "), 130, "interrupted"),
        (SystemExit(2), 2, ""),
        (BrokenPipeError(), 1, ""),
        (ZeroDivisionError("by zero"), 1, "this should not happen: ZeroDivisionError: by zero"),
    ],
)
def test_each_error_has_its_exit_code_and_sentence(error, code, expected, capsys):
    """Every error has its exit code and sentence, and only printable text reaches the terminal."""
    failure = failure_of(error)
    failure.tell(as_json=False)
    err = capsys.readouterr().err
    assert (failure.exit_code, expected in err) == (code, True)
    assert all(char.isprintable() or char == "\n" for char in err)


def test_every_fault_of_an_answer_is_printed(capsys):
    """The message names the first one; with several, each has a line, and a program reads them as before."""
    faults = [{"field": "/to/city", "message": "is required"}, {"field": "/tags", "message": "is required"}]
    failure = failure_of(InvalidInput("r-1: to/city is required", faults=faults))
    failure.tell(as_json=False)
    told = "sojourn: r-1: to/city is required\n  to/city is required\n  tags is required\n"
    assert capsys.readouterr().err == told
    failure.tell(as_json=True)
    report = json.loads(capsys.readouterr().err)
    assert (report["message"], report["faults"]) == ("r-1: to/city is required", faults)
    failure_of(InvalidInput("r-1: to/city is required", faults=faults[:1])).tell(as_json=False)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_misspelt_app_is_told_with_the_apps_of_its_module():
    """The refusal names them as the command takes them."""
    with pytest.raises(
        DefinitionError,
        match=r"'ap' is not in module 'tests\.cli\.desk_app'; it has tests\.cli\.desk_app:app$",
    ):
        load_app("tests.cli.desk_app:ap")


def test_json_is_wanted_only_by_an_option():
    """`--json` after `--` is text."""
    assert wants_json(["list", "--json"])
    assert not wants_json(["answer", "r", "--", "--json"])
