"""The development server: start, attach, restart, stop, and the files that it keeps."""

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from temporalio.client import Client, WorkflowExecutionStatus

import sojourn
from sojourn import Agent, App, AwaitClarification, PlanResult, RunPolicy, Worker
from sojourn.errors import ServerUnavailable
from sojourn.server import DYNAMIC_CONFIG, Server, TemporalCli, dev_server, is_serving, ports
from sojourn.server.dev_server import StartDev
from sojourn.server.files import ServerFiles
from sojourn.server.ports import find_ui
from sojourn.testing import ScriptedPlanner
from tests.programs import Program

pytestmark = pytest.mark.usefixtures("processes")

PATIENCE = timedelta(seconds=20)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true, at most until the test's time-out."""
    while not condition():
        await asyncio.sleep(0.01)


def own_server(**options: object) -> Server:
    """Return a server on free ports that does not attach to another one."""
    return Server(**{"port": 0, "ui": False, "attach": False, **options})


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    """The database file of `running`."""
    return tmp_path_factory.mktemp("running") / "temporal.db"


@pytest.fixture(scope="module")
async def running(database):
    """A server for all tests that do not stop it."""
    async with own_server(db_filename=database, ui=True) as server:
        yield server
        server.kill()


def modes(folder: Path) -> dict[str, str]:
    """Return the permissions of a folder and of all in it, in octal; files of the database's journal may vanish meanwhile."""
    found: dict[str, str] = {}
    for path in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            found[str(path.relative_to(folder))] = f"{path.stat().st_mode & 0o777:o}"
    return found


@pytest.mark.usefixtures("processes")
async def test_serves_until_stopped(tmp_path):
    """A started server is healthy, with its namespace, database and log; a stopped one leaves no process.

    Database, log and new folders are private, since they hold runs; an existing folder keeps its permissions. The next
    server may use the same files.
    """
    tmp_path.chmod(0o755)
    folder = tmp_path / "made" / "below"
    db, log = folder / "temporal.db", folder / "temporal.log"
    private = {"temporal.db", "temporal.db.lock", "temporal.log"}
    for _ in range(2):
        async with own_server(db_filename=db, log_filename=log, namespace="field") as server:
            assert await is_serving(server.address, namespace="field", within=PATIENCE)
            assert (server.attached, server.ui_url) == (False, None)
            assert server.cli is not None
            pid = server.pid
            assert pid is not None
            assert server.address.rpartition(":")[2] in log.read_text()
            assert server.log_tail() in log.read_text()
            found = modes(folder)
            assert found.pop(".") == "700"
            assert private <= set(found)
            assert found.pop("temporal.storage") == "700"
            assert set(found.values()) == {"600"}
        assert db.is_file()
        assert not psutil.pid_exists(pid)
        assert server.pid is None
        assert not await is_serving(server.address)
        for path in folder.iterdir():
            path.chmod(0o644)  # as an older version left it
    assert f"{folder.parent.stat().st_mode & 0o777:o}" == "700"
    assert f"{tmp_path.stat().st_mode & 0o777:o}" == "755"


@pytest.mark.usefixtures("processes")
async def test_ui(running):
    """The web UI answers at its URL."""
    with await asyncio.to_thread(urlopen, running.ui_url) as page:
        assert page.status == 200


@pytest.mark.usefixtures("processes")
async def test_the_ui_is_at_a_port_that_follows_from_the_frontend_s(running):
    """The UI is 1000 ports above its frontend, so that its address is the same at each start; that of another is none."""
    port = int(running.address.rpartition(":")[2])
    assert running.ui_url == f"http://127.0.0.1:{port + 1000}"
    assert await find_ui(running.address, port + 1000) == running.ui_url
    assert await find_ui(running.address, port) is None
    async with own_server() as other:
        assert await find_ui(other.address, port + 1000) is None


async def test_search_attributes(running):
    """Runs can be searched by agent, session and open waits."""
    client = await Client.connect(running.address)
    query = "SojournAgent = 'a' AND SojournSession = 's' AND SojournAwaiting = 'w'"
    assert [run async for run in client.list_workflows(query)] == []


async def test_own_session(running):
    """Ctrl-C in the terminal does not reach the server: it is in a session of its own."""
    assert os.getsid(running.pid) == running.pid != os.getsid(0)


async def test_attaches(running, monkeypatch):
    """A second server attaches to the one at the usual port, and leaves it running when it is stopped."""
    monkeypatch.setattr(dev_server, "USUAL_PORT", int(running.address.rpartition(":")[2]))
    async with Server() as second:
        assert second.attached
        assert second.address == running.address
        assert (second.pid, second.cli, second.ui_url) == (None, None, running.ui_url)
        with pytest.raises(RuntimeError, match="has no server of its own"):
            second.kill()
    with pytest.raises(RuntimeError, match=r"was detached from: use .*start\(\)"):
        _ = second.address
    assert await is_serving(running.address, within=PATIENCE)


async def test_starts_beside(running, monkeypatch):
    """A server that needs another namespace starts on another port than the usual one, and only once."""
    monkeypatch.setattr(dev_server, "USUAL_PORT", int(running.address.rpartition(":")[2]))
    async with Server(ui=False, namespace="another") as second:
        assert not second.attached
        assert second.address != running.address
        with pytest.raises(RuntimeError, match="started already"):
            await second.start()
        second.kill()


async def test_asked_port_is_taken(running):
    """A given port that is in use is an error that names it, even if a Temporal server answers there."""
    port = int(running.address.rpartition(":")[2])
    with pytest.raises(ServerUnavailable, match=f"{port}.*address already in use"):
        await own_server(port=port).start()


async def test_lost_race_for_a_port(running, monkeypatch):
    """A server that may not attach takes another port; if that is taken before the server binds it, another one is tried."""
    usual = int(running.address.rpartition(":")[2])
    monkeypatch.setattr(dev_server, "USUAL_PORT", usual)
    taken = [usual]
    monkeypatch.setattr(dev_server, "pick", lambda *asked: taken.pop() if taken else ports.pick(*asked))
    async with Server(ui=False, attach=False) as server:
        assert not taken
        assert not server.attached
        assert server.address != running.address
        server.kill()


async def test_crash_loses_nothing(tmp_path):
    """`wait` returns that a server was killed, and `restart` keeps its address and workflows.

    A server that does not end after SIGTERM is killed after `grace`.
    """
    async with own_server(db_filename=tmp_path / "temporal.db") as server:
        address, first = server.address, server.pid
        client = await Client.connect(address)
        await client.start_workflow("Unserved", id="survivor", task_queue="nobody")
        os.kill(first, signal.SIGKILL)
        assert await server.wait() == -signal.SIGKILL
        assert server.pid is None
        assert not psutil.pid_exists(first)
        await server.restart()
        assert (server.address, server.pid == first) == (address, False)
        description = await (await Client.connect(address)).get_workflow_handle("survivor").describe()
        assert description.status is WorkflowExecutionStatus.RUNNING
        second = server.pid
        os.kill(second, signal.SIGSTOP)
        await server.stop(grace=timedelta(milliseconds=100))
        assert not psutil.pid_exists(second)


async def test_a_backup_goes_on_where_it_was_made(tmp_path):
    """A copy of the database, made while a run waits and the server runs, waits on another server, and ends once it is answered.

    What the run did after the copy never happened there: it is asked again.
    """
    planner = ScriptedPlanner(
        [PlanResult.ask(AwaitClarification(id="q", question="Go?")), PlanResult.final("gone")]
    )
    app = App(agents=[Agent("test.agent", planner=planner, policy=RunPolicy(interrupts_allowed=True))])
    database, copy = tmp_path / "temporal.db", tmp_path / "copy.db"
    async with own_server(db_filename=database) as server:
        client = await sojourn.Client.connect(server.address, task_queue="q")
        async with Worker(app, client):
            run = await client.start("test.agent", "go")
            while not (await run.status()).awaits:
                await asyncio.sleep(0.02)
            with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            await run.answer("q", "yes")
            assert (await run.result()).text == "gone"
        server.kill()
    async with own_server(db_filename=copy) as restored:
        client = await sojourn.Client.connect(restored.address, task_queue="q")
        async with Worker(app, client):
            run = client.get_run(run.id)
            assert [each.id for each in (await run.status()).awaits] == ["q"]
            await run.answer("q", "yes")
            assert (await run.result()).text == "gone"
        restored.kill()


async def test_failure_has_the_log(tmp_path):
    """The error of a server that cannot start has the end of its log, and its file is free again."""
    db = tmp_path / "temporal.db"
    db.write_text("these are my notes, not a database" * 100)
    server = own_server(db_filename=db)
    with pytest.raises(ServerUnavailable, match=r"it ended; its log:(?s:.*)file is not a database"):
        await server.start()
    ServerFiles(db_filename=db, log_filename=None).close()


async def test_one_server_per_file(running, database):
    """A second server on the same file is refused, with the address of the first."""
    with pytest.raises(ServerUnavailable, match=f"{running.address}.*uses {database}"):
        await own_server(db_filename=database).start()


async def test_too_slow(tmp_path):
    """A server that does not serve in time is killed, and the error has its log."""
    script = tmp_path / "temporal"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho warming up\nexec /bin/sleep 600\n")
    script.chmod(0o755)
    slow = TemporalCli(script, "0.0.0", "PATH")
    with pytest.raises(ServerUnavailable, match=r"did not serve within(?s:.*)warming up"):
        await own_server(cli=slow, start_timeout=timedelta(seconds=3)).start()
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


async def test_canceled_start():
    """A start that is cancelled leaves no process."""
    server = own_server()
    start = asyncio.create_task(server.start())
    await until(lambda: server.pid is not None)
    pid = server.pid
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not psutil.pid_exists(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child to its parent")
async def test_dies_with_its_parent(tmp_path):
    """A server ends when the process that started it is killed."""
    script = (
        "import asyncio\n"
        "from sojourn.server import Server\n"
        "async def main():\n"
        "    async with Server(port=0, ui=False, attach=False) as server:\n"
        "        print(server.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    output = tmp_path / "output"
    parent = Program("-c", script, cwd=tmp_path, env=os.environ, out=output, err=output)
    await until(lambda: output.read_text().endswith("\n") or parent.poll() is not None)
    pid = int(output.read_text())
    assert psutil.pid_exists(pid)
    parent.kill()
    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


async def test_not_started():
    """Before the start there is no address, and nothing to restart."""
    server = own_server()
    with pytest.raises(RuntimeError, match="never started"):
        _ = server.address
    with pytest.raises(RuntimeError, match="has no server of its own"):
        await server.restart()


async def test_not_serving():
    """A port where something else listens, and never answers, is not a Temporal server."""
    with socket.create_server((ports.HOST, 0)) as silent:
        port = silent.getsockname()[1]
        assert not await is_serving(f"{ports.HOST}:{port}", within=timedelta(milliseconds=200))


def test_command_line():
    """The command line has every tuned setting as JSON, and those for tests; an untuned one has none."""
    start = StartDev(
        binary=Path("/bin/temporal"), port=1, ui_port=2, db_filename=Path("x.db"), namespace="n", tuned=True
    )
    assert "--dynamic-config-value=system.enableActivityEagerExecution=true" in start.command
    assert sum(word.startswith("--dynamic-config-value") for word in start.command) == len(DYNAMIC_CONFIG) + 3
    untuned = StartDev(
        binary=Path("/bin/temporal"), port=1, ui_port=None, db_filename=None, namespace="n", tuned=False
    )
    assert not any("dynamic-config" in word or "--db-filename" in word for word in untuned.command)
    assert "--headless" in untuned.command


def test_garbage_collection_of_the_server(monkeypatch):
    """A tuned server collects garbage less often, unless the environment sets how often; an untuned one as Go does."""
    settings = {
        "binary": Path("/bin/temporal"),
        "port": 1,
        "ui_port": None,
        "db_filename": None,
        "namespace": "n",
    }
    monkeypatch.delenv("GOGC", raising=False)
    assert StartDev(**settings, tuned=True).environment["GOGC"] == "400"
    assert "GOGC" not in StartDev(**settings, tuned=False).environment
    monkeypatch.setenv("GOGC", "50")
    assert StartDev(**settings, tuned=True).environment["GOGC"] == "50"


@pytest.mark.parametrize("asked", [None, 0])
def test_free_ports_are_not_ephemeral(running, asked):
    """A free port, and the one of its web UI, are below the range that outgoing connections use."""
    taken = int(running.address.rpartition(":")[2])
    assert all(20_000 <= ports.pick(asked, taken) < 31_768 for _ in range(500))


def test_the_web_ui_of_a_free_port_has_a_free_port(monkeypatch):
    """No port is chosen whose web UI would get another port than 1000 above."""
    monkeypatch.setattr(ports, "is_free", lambda port: port < 22_000)
    assert all(ports.pick(0, 7233) < 21_000 for _ in range(5))


def test_the_web_ui_leaves_the_port_of_the_http_service_free():
    """The UI of a server at 7460 is not at 8460, where the HTTP service is usually."""
    assert [ports.ui_port_of(port) for port in (7233, 7459, 7460, 65_000)] == [8233, 8459, 8461, 64_000]


def test_a_port_that_is_asked_for_is_taken_unchanged(running):
    """A port that the caller chose is not replaced, free or not."""
    taken = int(running.address.rpartition(":")[2])
    assert ports.pick(taken, 7233) == taken
