import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import sojourn

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(sojourn.__file__).parents[1]


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with no pytest plugins but those that are named."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_fixtures(tmp_path):
    """`temporal_server` serves at `temporal_address`, once for all tests, may be restarted, and ends with them."""
    (tmp_path / "test_it.py").write_text(
        "import asyncio, pathlib\n"
        "from sojourn.server import is_serving\n"
        "def test_server(temporal_server, temporal_address):\n"
        "    assert temporal_server.address == temporal_address\n"
        "    assert asyncio.run(is_serving(temporal_address))\n"
        "    pathlib.Path('first').write_text(str(temporal_server.pid))\n"
        "def test_restart(temporal_server):\n"
        "    temporal_server.kill()\n"
        "    asyncio.run(temporal_server.restart())\n"
        "    assert asyncio.run(is_serving(temporal_server.address))\n"
        "    pathlib.Path('second').write_text(str(temporal_server.pid))\n"
    )
    done = run_python(tmp_path, "-m", "pytest", "-q", "-p", "sojourn.testing.pytest_plugin", "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    pids = [int((tmp_path / name).read_text()) for name in ("first", "second")]
    assert pids[0] != pids[1]
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_serve(tmp_path):
    """`serve` starts a worker on a queue of its own for each call, and ends them with the test."""
    (tmp_path / "test_it.py").write_text(
        "from sojourn import Agent, App, PlanResult\n"
        "from sojourn.testing import ScriptedPlanner\n"
        "def app(text):\n"
        "    return App(agents=[Agent('it.agent', planner=ScriptedPlanner([PlanResult.final(text)]))])\n"
        "gone = []\n"
        "async def test_two(serve):\n"
        "    one, two = await serve(app('one')), await serve(app('two'))\n"
        "    assert (await one.execute('it.agent', 'hi')).text == 'one'\n"
        "    assert (await two.execute('it.agent', 'hi')).text == 'two'\n"
        "    gone.append(one.task_queue)\n"
        "async def test_next(serve):\n"
        "    client = await serve(app('three'))\n"
        "    assert client.task_queue not in gone\n"
        "    assert (await client.execute('it.agent', 'hi')).text == 'three'\n"
    )
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    plugins = ("-p", "sojourn.testing.pytest_plugin", "-p", "pytest_asyncio.plugin")
    done = run_python(tmp_path, "-m", "pytest", "-q", *plugins, "-W", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_plugin_costs_nothing(tmp_path):
    """Loading the plugin imports neither Temporal's SDK nor pydantic nor asyncio: every pytest run of a user does it."""
    script = (
        "import sys, pytest; before = set(sys.modules); import sojourn.testing.pytest_plugin\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "sys.exit(', '.join(sorted(new & {'temporalio', 'pydantic', 'asyncio', 'structlog'})) or 0)"
    )
    done = run_python(tmp_path, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_name():
    """A name that `sojourn.testing` does not have is an ordinary AttributeError."""
    import pytest

    import sojourn.testing

    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = sojourn.testing.Nothing
