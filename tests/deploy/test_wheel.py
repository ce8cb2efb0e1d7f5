"""The wheel alone serves an app: built, installed into a clean environment, started as a user would."""

import json
import re
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.walk.installation import bare_environment, install

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
TEMPLATE = {
    path.relative_to(ROOT).as_posix()
    for folder in ("code", "model")
    for path in (ROOT / "sojourn" / "cli" / "template" / folder).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
QUEUE = "wheel"

APP = '''
"""An app of somebody who has only installed Sojourn."""

from sojourn import Agent, App, PlanResult, Toolset

numbers = Toolset("ops.numbers", description="Arithmetic")


@numbers.tool(title="Add", read_only=True)
async def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


async def plan(turn):
    """Ask for one sum, then answer with it."""
    if not turn.tool_results:
        return PlanResult.calls(add.call(left=40, right=2))
    return PlanResult.final(f"The sum is {add.result_of(turn.tool_results[0])}")


app = App(agents=[Agent("ops.assistant", planner=plan, uses=[numbers])])
'''

CLIENT = '''
"""Starts a run and prints its answer."""

import asyncio
import sys

from sojourn import Client


async def main():
    client = await Client.connect(task_queue=sys.argv[1])
    run = await client.start("ops.assistant", "What is 40 and 2?")
    print((await asyncio.wait_for(run.result(), 60)).text)


asyncio.run(main())
'''


@pytest.fixture(scope="module")
def wheel(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the tree, by `make wheel`."""
    folder = tmp_path_factory.mktemp("dist")
    settings = {name: value for name, value in bare_environment().items() if not name.startswith("MAKE")}
    make = ["make", "wheel", f"ARGS=--outdir {folder}"]
    done = subprocess.run(make, cwd=ROOT, env=settings, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Return the paths in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and what it needs, at the pinned versions, and return the environment's bin."""
    return install(wheel, tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder with a package that holds an app, and a client."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").write_text(textwrap.dedent(APP))
    (folder / "client.py").write_text(textwrap.dedent(CLIENT))
    return folder


@pytest.fixture(scope="module")
def environment(temporal_address: str) -> dict[str, str]:
    """Return an environment that leads to the session's Temporal server and to nothing of this tree."""
    return bare_environment() | {"TEMPORAL_ADDRESS": temporal_address}


@pytest.fixture
def worker(installed: Path, project: Path, environment: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    """Run `sojourn worker my_package:app`, and yield it when it says that it is ready."""
    command = [installed / "sojourn", "worker", "my_package:app", "--task-queue", QUEUE]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=project, env=environment, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if "worker_ready" in line:
                    break
            else:
                pytest.fail("the worker ended:\n" + "".join(lines))
            yield process
        finally:
            process.kill()


@pytest.mark.usefixtures("processes")
def test_the_only_package_is_sojourn(names: set[str]) -> None:
    """A name such as `workflows` would clash with another distribution's."""
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"sojourn"}


def test_the_wheel_has_the_workflow_and_the_activities(names: set[str]) -> None:
    """Every module of workflows/ and activities/ is in the wheel, under `sojourn.service`."""
    shell = {
        f"sojourn/service/{path.relative_to(ROOT).as_posix()}"
        for folder in ("workflows", "activities")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert shell <= names
    assert "sojourn/service/workflows/agent_run.py" in shell


def test_the_wheel_is_typed_and_licensed(names: set[str]) -> None:
    """The wheel has `py.typed` for type checkers, and its licence."""
    assert "sojourn/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_wheel_has_no_caches_tests_or_secrets(names: set[str]) -> None:
    """The wheel has no cache, secret or database, and only the tests of the template."""
    assert [name for name in names if re.search(r"__pycache__|\.pyc$|\.env|\.db$", name)] == []
    assert {name for name in names if re.search(r"/tests?/", name)} <= TEMPLATE


def test_the_wheel_has_the_template(names: set[str]) -> None:
    """Every file that `sojourn init` writes is in the wheel, its `.gitignore` too."""
    assert names >= TEMPLATE
    assert "sojourn/cli/template/code/.gitignore" in TEMPLATE


def test_the_wheel_has_the_templates_and_files_of_the_console(wheel: Path) -> None:
    """The console's files are in the wheel as they are in the tree."""
    with zipfile.ZipFile(wheel) as archive:
        held = {
            name: archive.read(name) for name in archive.namelist() if name.startswith("sojourn/console/")
        }
    wanted = [
        file for kind in ("templates", "static") for file in (ROOT / "sojourn" / "console" / kind).iterdir()
    ]
    assert len(wanted) > 25
    for file in wanted:
        assert held[file.relative_to(ROOT).as_posix()] == file.read_bytes()


@pytest.mark.usefixtures("processes")
def test_the_wheel_serves_an_app_from_end_to_end(
    installed: Path, project: Path, environment: dict[str, str], worker: subprocess.Popen[str]
) -> None:
    """A run started by a client is planned, calls its tool and is answered; then SIGTERM ends the worker well."""
    client = [installed / "python", "client.py", QUEUE]
    done = subprocess.run(
        client, cwd=project, env=environment, check=False, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "The sum is 42\n", done.stderr
    worker.send_signal(signal.SIGTERM)
    log, _ = worker.communicate(timeout=60)
    assert worker.returncode == 0, log


@pytest.mark.usefixtures("processes")
def test_the_health_check_of_the_image_tells_a_server_from_none(
    installed: Path, project: Path, environment: dict[str, str]
) -> None:
    """The command in the Dockerfile exits with 0 when the Temporal service answers, and otherwise not."""
    (check,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)
    command = [installed / "python", *json.loads(check)[1:]]
    assert json.loads(check)[0] == "python"
    for address, healthy in ((environment["TEMPORAL_ADDRESS"], True), ("127.0.0.1:1", False)):
        asked = subprocess.run(
            command,
            cwd=project,
            env=environment | {"TEMPORAL_ADDRESS": address},
            check=False,
            capture_output=True,
        )
        assert (asked.returncode == 0) is healthy, asked.stderr.decode()


def test_the_wheel_installs_no_development_tools(installed: Path) -> None:
    """A user's environment gets what the library needs, and nothing that only its developers need."""
    packages = {
        distribution.name.split("-")[0].lower()
        for distribution in installed.parent.glob("lib/*/site-packages/*.dist-info")
    }
    assert "temporalio" in packages
    assert packages.isdisjoint({"pytest", "ruff", "mypy", "pyright", "hatchling", "hypothesis", "uv"})


@pytest.mark.usefixtures("processes")
def test_an_extra_is_added_to_what_is_installed(installed: Path, wheel: Path, tmp_path: Path) -> None:
    """`pip install 'sojourn[redis]'`, as error messages advise, installs the extra and leaves Sojourn as it is."""
    pip = [sys.executable, "-m", "pip", "--python", installed / "python", "install", "--no-compile"]
    command = [*pip, "--constraint", installed.parents[1] / "pins.txt", "sojourn[redis]"]
    here = {"cwd": tmp_path, "env": bare_environment(), "text": True}
    done = subprocess.run(command, check=False, capture_output=True, **here)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Requirement already satisfied: sojourn[redis] in " in done.stdout
    told = (
        "import importlib.metadata as m, redis; print(m.distribution('sojourn').read_text('direct_url.json'))"
    )
    origin = subprocess.run([installed / "python", "-c", told], check=True, capture_output=True, **here)
    assert wheel.name in origin.stdout
