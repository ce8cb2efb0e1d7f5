"""`sojourn init`: a project that runs, passes its tests and its checkers, and is never written over files."""

import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from sojourn.testing.providers import ProviderServer, ToolCall, calls, says

FILES = [".gitignore", "README.md", "pyproject.toml", "tests/test_agent.py", "worker.py"]
REFUND = ToolCall(name="night_desk__orders__refund", arguments='{"number": "A-1", "amount": 30}')


def files_in(folder: Path) -> list[str]:
    """Return the paths of the files below a folder, without those of a repository."""
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return sorted(path.as_posix() for path in paths if path.parts[0] != ".git")


def checked(folder: Path, *command: str) -> str:
    """Run a tool of Python in a folder, as its user does, and return its output; it exits with 0."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("COV_", "PYTEST_", "SOJOURN_", "TEMPORAL_"))
    }
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(params=[(), ("--model",)], ids=["code", "model"])
def options(request) -> tuple[str, ...]:
    """Return the options for each kind of planner."""
    return request.param


@pytest.fixture
async def project(command, tmp_path, options) -> Path:
    """Make the project night-desk."""
    done = await command("init", "night-desk", *options)
    assert (done.code, done.err) == (0, "")
    return tmp_path / "night-desk"


async def test_the_project_passes_its_own_tests(project):
    """Pytest in the new folder finds the tests and their worker, and all pass without a warning."""
    printed = checked(project, "pytest", "-W", "error", "--color=no")
    assert re.search(r"tests/test_agent.py \.{3,}\s", printed)
    assert "warning" not in printed


async def test_the_project_satisfies_its_checkers(project):
    """Ruff as it comes and pyright find nothing in the project, and no file is named for the template."""
    assert files_in(project) == FILES
    checked(project, "ruff", "check", "--isolated")
    checked(project, "ruff", "format", "--check", "--isolated")
    checked(project, "pyright", "--pythonpath", sys.executable)
    texts = {path: (project / path).read_text() for path in FILES}
    assert [path for path, text in texts.items() if re.search("my.project", text)] == []
    assert len(texts["worker.py"].splitlines()) <= 70


@pytest.fixture
async def dev(project, start_command, temporal_address):
    """Serve the project by `sojourn dev` with these variables, until the test ends; return the process and its last line."""
    started = []

    async def start(**env: str):
        port = temporal_address.rpartition(":")[2]
        process = await start_command("dev", "worker:app", "--port", port, cwd=project, env=env)
        started.append(process)
        while not (line := (await process.stdout.readline()).decode()).startswith("next, "):
            assert line, "dev ended"
        return process, line

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_the_project_is_served_run_and_approved(project, options, dev, command, temporal_address):
    """`dev` serves the project, `catalog` and `doctor` accept it, and a refund is paid once it is approved."""
    queue = uuid.uuid4().hex
    async with ProviderServer([calls(REFUND), says("Paid back.")]) as provider:
        env = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": queue, **provider.environment}
        env["SOJOURN_MODEL"] = "openai:gpt-5-mini"
        here = {"cwd": project, "env": env}
        serving, line = await dev(**env)
        assert "sojourn run night_desk.assistant" in line
        catalog = await command("catalog", "worker:app", **here)
        assert "night_desk.orders.refund(number, amount)  destructive · asks a person" in catalog.out
        run_id = "refund-" + queue
        asked = await command("run", "night_desk.assistant", "Refund A-1", "--run-id", run_id, **here)
        assert (asked.code, "Pay 30 back for order A-1?" in asked.out) == (4, True), asked
        doctor = await command("doctor", "worker:app", **here)
        assert (doctor.code, "✗" in doctor.out) == (0, False), doctor.out
        (words,) = re.findall(r"sojourn (approve .*)", asked.out)
        assert (await command(*shlex.split(words), "--yes", **here)).code == 0
        answer = await command("result", run_id, **here)
        assert answer.out == (
            "Paid back.\n" if options else "Paid 30 back for order A-1: receipt R-A-1-30.\n"
        )
        serving.send_signal(signal.SIGINT)
        await serving.communicate()
        assert serving.returncode == 0


async def test_an_agent_of_code_answers_any_message(command, tmp_path, serve, monkeypatch):
    """The agent answers `hello`, which `dev` suggests, and an order that there is not."""
    from sojourn.cli.options import load_app

    await command("init", "shop-7")
    monkeypatch.chdir(tmp_path / "shop-7")
    monkeypatch.syspath_prepend(str(tmp_path / "shop-7"))
    monkeypatch.delitem(sys.modules, "worker", raising=False)
    client = await serve(load_app("worker:app"))
    sys.modules.pop("worker")
    hello = await client.execute("shop_7.assistant", "hello")
    assert hello.text == "Name an order, such as A-1."
    unknown = await client.execute("shop_7.assistant", "Where is A-9?")
    assert unknown.text == "That did not work: there is no order A-9; there are A-1, A-2."


async def test_the_next_commands_can_be_pasted(command):
    """The command prints what to type next: as written, each line is a command of a shell."""
    done = await command("init", "night_desk")
    _, _, rest = done.out.partition("\nnext:\n")
    here, other = rest.split("and in another terminal:\n")
    assert [line.strip() for line in here.splitlines()] == [
        "cd night_desk",
        "pip install --editable '.[test]'",
        "pytest",
        "sojourn dev worker:app",
    ]
    assert shlex.split(other) == ["sojourn", "run", "night_desk.assistant", "Refund A-1"]


async def test_json_for_machines(command):
    """`--json` prints the folder, the files and the commands that come next, as one object."""
    done = await command("init", "desk", "--json")
    assert done.json["folder"] == "desk"
    assert done.json["written"] == [f"desk/{name}" for name in FILES]
    assert done.json["next"][-1] == 'sojourn run desk.assistant "Refund A-1"'


async def test_a_model_needs_a_key(command):
    """`--model` prints where the key of the model goes, unless the environment has one."""
    without = await command("init", "one", "--model", env={"ANTHROPIC_API_KEY": "", "SOJOURN_MODEL": ""})
    given = await command("init", "two", "--model", env={"ANTHROPIC_API_KEY": "k"})
    assert ("export ANTHROPIC_API_KEY=" in without.out, "export" in given.out) == (True, False)


async def test_the_current_folder(command, tmp_path):
    """`.` makes the project in a folder that holds at most a repository and an environment, and takes its name."""
    folder = tmp_path / "help-desk"
    (folder / ".git").mkdir(parents=True)
    done = await command("init", ".", cwd=folder)
    assert (done.code, files_in(folder)) == (0, FILES)
    assert 'Agent(\n    "help_desk.assistant"' in (folder / "worker.py").read_text()
    assert "cd " not in done.out


@pytest.mark.usefixtures("processes")
def test_a_folder_that_was_deleted(tmp_path):
    """`.` in a folder that is gone is told in a sentence."""
    folder = tmp_path / "gone"
    folder.mkdir()
    line = f"cd {folder} && rmdir {folder} && exec {sys.executable} -m sojourn init ."
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "sojourn: the current folder was deleted; change to another one\n",
    )


async def test_files_are_not_written_over(command, tmp_path):
    """A folder with a file, and a file in its place, are left as they are, with a sentence."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loose").symlink_to("nowhere")
    for name, fault in {
        "taken": "the folder taken is not empty: it has notes.txt; ",
        "file": "file is a file; ",
        "loose": "cannot write loose",
    }.items():
        done = await command("init", name)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"sojourn: {fault}")
    assert files_in(tmp_path / "taken") == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Support Desk", "try: sojourn init support-desk\n"),
        ("2nd", "try: sojourn init nd\n"),
        ("../desk", "try: sojourn init desk\n"),
        ("a--b", "try: sojourn init a-b\n"),
        ("ö", "try: sojourn init support\n"),
        ("x" * 61, f"try: sojourn init {'x' * 60}\n"),
        ("sojourn", "choose another\n"),
        ("pydantic", "choose another\n"),
        ("typing_extensions", "choose another\n"),
    ],
)
async def test_a_name_that_cannot_be_is_refused(command, tmp_path, name, remedy):
    """A name that makes no distribution and no ids is bad usage, and the error has one that does."""
    done = await command("init", name)
    assert (done.code, files_in(tmp_path)) == (2, [])
    assert done.err.endswith(remedy)


@pytest.mark.usefixtures("processes")
def test_no_server_and_no_sdk_is_needed(tmp_path):
    """The command imports neither Temporal's SDK nor OpenTelemetry."""
    code = (
        "import sys; sys.argv = ['sojourn', 'init', 'desk']\n"
        "from sojourn.cli import command_line\n"
        "command_line._leave = lambda code: print('heavy:', sorted({'temporalio', 'opentelemetry'} & set(sys.modules)), code)\n"
        "command_line.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("heavy: [] 0\n")
