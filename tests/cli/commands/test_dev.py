"""`sojourn dev`: a server, and a worker that restarts when its files change."""

import asyncio
import json
import os
import signal
import sys
import uuid
from pathlib import Path

import httpx2
import psutil
import pytest

from sojourn import Client
from sojourn.cli import dev_processes
from sojourn.network import http_client
from sojourn.server import ports
from tests.programs import Command

ROOT = Path(__file__).parents[3]
APP = """
from sojourn import Agent, App, PlanResult

async def plan(turn):
    return PlanResult.final("{answer}")

app = App(agents=[Agent("dev.agent", planner=plan)])
"""


class Dev:
    """A running `sojourn dev --json`, and its output."""

    def __init__(self, process: Command) -> None:
        self.process = process

    async def printed(self, event: str) -> dict:
        """The fields of the next printed event, which has to be of this type."""
        fields = json.loads(await self.process.stdout.readline())
        assert fields.pop("event") == event, fields
        return fields

    async def stopped(self) -> tuple[int | None, str]:
        """Send Ctrl-C; return exit code and standard error."""
        self.process.send_signal(signal.SIGINT)
        _, err = await self.process.communicate()
        return self.process.returncode, err.decode()


def write_app(here: Path, text: str) -> None:
    """Replace the app's file in one step, since `dev` would also report a file that is emptied before it is written."""
    (here / "dev_app.new").write_text(text)
    (here / "dev_app.new").replace(here / "dev_app.py")


@pytest.fixture
def here(tmp_path) -> Path:
    (tmp_path / "dev_app.py").write_text(APP.format(answer="one"))
    return tmp_path


@pytest.fixture
async def client(temporal_address) -> Client:
    return await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")


@pytest.fixture
async def start_dev(start_command, client, temporal_address):
    """Start `sojourn dev` on the server of the session."""
    port, started = temporal_address.rpartition(":")[2], []

    async def start(*options: str) -> Dev:
        queue = ("--task-queue", client.task_queue)
        process = await start_command(
            "dev", "dev_app:app", "--json", "--no-http", "--port", port, *queue, *options
        )
        started.append(process)
        dev = Dev(process)
        assert (await dev.printed("server"))["address"] == temporal_address
        return dev

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def answer_of(client: Client) -> str:
    return (await client.execute("dev.agent", "go", wait_for_worker=True)).text


async def test_a_change_is_served_and_a_mistake_is_not(here, start_dev, client, until):
    """A broken file and a dead worker are reported, and the next good file is served; the last good worker runs until then."""
    write_app(here, "import no_such_module")
    dev = await start_dev()
    assert await dev.printed("not_loaded") == {"changed": [], "serving": False}
    write_app(here, APP.format(answer="mended"))
    first = (await dev.printed("reloaded"))["pid"]
    assert await answer_of(client) == "mended"
    write_app(here, "app = ][")
    assert await dev.printed("not_loaded") == {"changed": ["dev_app.py"], "serving": True}
    assert await answer_of(client) == "mended"
    write_app(here, APP.format(answer="two"))
    second = await dev.printed("reloaded")
    assert second["changed"] == ["dev_app.py"]
    await until(lambda: not psutil.pid_exists(first))
    assert await answer_of(client) == "two"
    os.kill(second["pid"], signal.SIGTERM)  # as somebody who does not mean it to go on
    assert await dev.printed("worker_ended") == {"status": 0}
    write_app(here, APP.format(answer="again"))
    last = (await dev.printed("reloaded"))["pid"]
    assert await answer_of(client) == "again"
    code, err = await dev.stopped()
    assert (code, "no_such_module" in err, "SyntaxError" in err, "Traceback" in err) == (0, True, True, False)
    assert not psutil.pid_exists(last)


async def test_a_killed_worker_is_replaced(here, start_dev, client):
    """Another one takes the runs over without a change, but for one that is killed at once: it would be killed again, such as for its memory."""
    dev = await start_dev()
    os.kill((await dev.printed("serving"))["pid"], signal.SIGKILL)
    assert await dev.printed("worker_ended") == {"status": -9}
    write_app(here, APP.format(answer="two"))
    changed = await dev.printed("reloaded")
    assert changed["changed"] == ["dev_app.py"]
    assert await answer_of(client) == "two"
    await asyncio.sleep(dev_processes.STABLE)
    os.kill(changed["pid"], signal.SIGKILL)
    assert await dev.printed("worker_ended") == {"status": -9}
    assert (await dev.printed("restarted"))["changed"] == []
    assert await answer_of(client) == "two"
    assert (await dev.stopped())[0] == 0


@pytest.mark.parametrize("option", ["--reload", "--no-reload"])
async def test_the_next_command_can_be_pasted(start_command, here, shell, option):
    """`dev` prints the command that runs the first agent from another terminal, and the command does so."""
    process = await start_command("dev", "dev_app:app", "--port", "0", "--task-queue", "a queue", option)
    while not (line := (await process.stdout.readline()).decode()).startswith("next, in another terminal: "):
        assert line, "dev ended"
    command = line.partition(": ")[2]
    before, words = command.split("sojourn ", 1)
    assert words == 'run dev.agent "hello"\n'
    code, printed = await shell(f"PYTHONPATH={ROOT} {before} {sys.executable} -m sojourn {words}")
    assert (code, "one" in printed) == (0, True), printed
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert (here / ".sojourn" / ".gitignore").read_text() == "*\n"


async def test_a_change_of_the_task_queue_is_told(here, start_command, temporal_address):
    """When a change gives the app another task queue, `dev` says where the open runs of the old one are left."""
    named = APP.replace("App(", "App(name={name!r}, ")
    write_app(here, named.format(answer="one", name="before"))
    dev = await start_command("dev", "dev_app:app", "--port", temporal_address.rpartition(":")[2])
    while not (line := (await dev.stdout.readline()).decode()).startswith("next"):
        assert line, "dev ended"
    write_app(here, named.format(answer="one", name="after"))
    line = (await dev.stdout.readline()).decode()
    assert line == (
        "reloaded dev_app:app (dev_app.py) on task queue after; open runs on before wait for a worker there\n"
    )
    dev.send_signal(signal.SIGINT)
    await dev.communicate()


async def test_the_app_is_served_over_http(start_command, here, temporal_address, client):
    """`dev` prints where its HTTP service is, which offers the agents of the newest version and refuses nobody while it changes."""
    port = temporal_address.rpartition(":")[2]
    process = await start_command(
        "dev", "dev_app:app", "--json", "--port", port, "--task-queue", client.task_queue
    )
    dev = Dev(process)
    await dev.printed("server")
    address = (await dev.printed("http"))["address"]
    await dev.printed("serving")
    async with http_client(base_url=address, timeout=60) as http:

        async def agents() -> list[str]:
            try:
                answer = await http.get("/v1/agents")
            except (
                httpx2.RemoteProtocolError
            ):  # the process that ends closed the kept connection (RFC 9112 §9.3.1)
                answer = await http.get("/v1/agents")
            return [agent["agent_id"] for agent in answer.json()["agents"]]

        assert await agents() == ["dev.agent"]
        answer = await http.post("/v1/runs", json={"agent_id": "dev.agent", "input": "go"})
        outcome = await http.get(f"/v1/runs/{answer.json()['run_id']}/output", params={"wait": 30})
        assert outcome.json()["output"]["text"] == "one"
        write_app(here, APP.format(answer="two").replace("dev.agent", "dev.other"))
        await dev.printed("reloaded")
        while await agents() != ["dev.other"]:
            await asyncio.sleep(0.05)
    code, err = await dev.stopped()
    assert (code, "Traceback" in err) == (0, False), err


async def test_a_server_that_was_already_running_is_named(here, start_command, temporal_address):
    """The first line says that the data is elsewhere, and `attached` says so to machines."""
    port = temporal_address.rpartition(":")[2]
    dev = await start_command("dev", "dev_app:app", "--port", port)
    first = (await dev.stdout.readline()).decode()
    dev.kill()
    await dev.communicate()
    assert f"Temporal server {temporal_address}, which was running already: it may have other runs" in first


async def test_a_server_of_this_folder_is_told(here, start_command):
    """The first line of a second `dev` in the folder says that the server's data is there."""
    server = await start_command("server", "--port", "0", "--headless", "--json")
    address = json.loads(await server.stdout.readline())["address"]
    dev = await start_command("dev", "dev_app:app", "--no-http", "--port", address.rpartition(":")[2])
    first = (await dev.stdout.readline()).decode()
    for process in (dev, server):
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert f"{address}, which was running already: its data is in this folder   its UI is elsewhere" in first


async def test_two_run_side_by_side_at_ports_of_their_own(here, start_command, tmp_path):
    """`--port`, `--ui-port` and `--http-port` are taken as given; without them each takes ports that are free."""
    other = tmp_path / "other"
    other.mkdir()
    write_app(other, APP.format(answer="other"))
    chosen = [str(ports.pick(0, 0)) for _ in range(3)]
    options = [
        word for pair in zip(("--port", "--ui-port", "--http-port"), chosen, strict=True) for word in pair
    ]
    first = Dev(await start_command("dev", "dev_app:app", "--json", *options))
    server, http = await first.printed("server"), await first.printed("http")
    assert [
        url.rpartition(":")[2] for url in (server["address"], server["ui_url"], http["address"])
    ] == chosen
    second = Dev(await start_command("dev", "dev_app:app", "--json", "--port", "0", cwd=other))
    beside, http_beside = await second.printed("server"), await second.printed("http")
    assert not beside["attached"]
    taken = {server["address"], server["ui_url"], http["address"]}
    assert not taken & {beside["address"], beside["ui_url"], http_beside["address"]}
    for option, number in (("--http-port", chosen[2]), ("--ui-port", chosen[1]), ("--port", chosen[2])):
        words = [option, number, *(("--port", "0") if option != "--port" else ())]
        third = tmp_path / option
        third.mkdir()
        write_app(third, APP.format(answer="third"))
        refused = await start_command("dev", "dev_app:app", "--json", *words, cwd=third)
        out, err = await refused.communicate()
        assert (refused.returncode, out) != (0, b"")
        assert all(text in err for text in (b"in use", b"choose another", number.encode())), err
        assert b"Traceback" not in err
    for each in (first, second):
        assert (await each.stopped())[0] == 0


@pytest.mark.parametrize("kind", ["http", "ui"])
async def test_a_port_of_what_is_left_out_is_bad_usage(here, start_command, kind):
    """A port and the option that leaves its server out exclude each other."""
    process = await start_command("dev", "dev_app:app", f"--no-{kind}", f"--{kind}-port", "20001")
    _, err = await process.communicate()
    assert (process.returncode, f"give either --{kind}-port or --no-{kind}" in err.decode()) == (2, True)


async def test_the_port_is_that_of_a_local_address(start_command, here, temporal_address):
    """`dev` uses the server at a local `TEMPORAL_ADDRESS`, as the commands in other terminals do."""
    process = await start_command("dev", "dev_app:app", "--json", env={"TEMPORAL_ADDRESS": temporal_address})
    assert json.loads(await process.stdout.readline())["address"] == temporal_address
    process.send_signal(signal.SIGINT)
    await process.communicate()


async def test_the_worker_ends_with_its_parent(here, start_dev, until):
    """The worker ends, even if its parent is killed with SIGKILL."""
    dev = await start_dev()
    worker = (await dev.printed("serving"))["pid"]
    dev.process.kill()
    await until(lambda: not psutil.pid_exists(worker))


async def test_ctrl_c_while_an_app_loads(here, start_dev):
    """Ctrl-C ends the command during an import that does not end, without a word about the app."""
    write_app(here, "open('loading', 'w').close()\nimport time\ntime.sleep(600)")
    dev = await start_dev()
    while not (here / "loading").exists():
        await asyncio.sleep(0.01)
    dev.process.send_signal(signal.SIGINT)
    out, err = await dev.process.communicate()
    assert (dev.process.returncode, out, err) == (0, b"", b"")


@pytest.mark.parametrize("option", ["--reload", "--no-reload"])
async def test_a_server_of_its_own_that_dies_ends_it(here, start_command, option):
    """If the server that `dev` started dies, `dev` exits with 3 and names the server's exit status."""
    process = await start_command("dev", "dev_app:app", "--json", "--no-http", "--port", "0", option)
    dev = Dev(process)
    address = (await dev.printed("server"))["address"]
    if option == "--reload":
        await dev.printed("serving")
    (server,) = [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if address.rpartition(":")[2] in child.cmdline()
    ]
    server.kill()
    _, err = await process.communicate()
    assert process.returncode == 3
    assert b"the Temporal server ended with status -9" in err
    assert b"Traceback" not in err


async def test_the_console_links_to_the_ui_of_the_server(here, start_command):
    """The page of a run links to its execution in the UI of the server that `dev` has started."""
    process = await start_command("dev", "dev_app:app", "--json", "--port", "0", "--no-reload")
    dev = Dev(process)
    ui = (await dev.printed("server"))["ui_url"]
    address = (await dev.printed("http"))["address"]
    async with http_client(base_url=address, timeout=60) as http:
        started = await http.post("/v1/runs", json={"agent_id": "dev.agent", "input": "hello"})
        run_id = started.json()["run_id"]
        page = await http.get(f"/runs/{run_id}")
    assert ui.startswith("http://127.0.0.1:")
    assert f'href="{ui}/namespaces/default/workflows/{run_id}/' in page.text
    code, err = await dev.stopped()
    assert (code, "Traceback" in err) == (0, False), err


MODEL = """
from sojourn import Agent, App, ModelPlanner
app = App(agents=[Agent("dev.agent", planner=ModelPlanner("openai:gpt-5-mini"))])
"""


async def test_a_missing_key_is_named_at_the_start(start_command, temporal_address, here, monkeypatch):
    """`dev` says which variable a model lacks before the first run fails for it, and serves all the same."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (here / "dev_app.py").write_text(MODEL)
    env = {"TEMPORAL_ADDRESS": temporal_address}
    for words in (("dev", "--no-reload", "--port", temporal_address.rsplit(":", 1)[1]), ("worker",)):
        serving = await start_command(words[0], "dev_app:app", *words[1:], "--task-queue", "no-key", env=env)
        line = ""
        while "OPENAI_API_KEY" not in line:
            line = (await serving.stderr.readline()).decode()
            assert line
        assert line.startswith("sojourn: dev.agent by openai:gpt-5-mini cannot run yet: ")
        serving.kill()
        await serving.communicate()


async def test_no_ui(here, start_command):
    """With --no-ui the server starts without Temporal's UI, which answers whoever reaches it."""
    process = await start_command("dev", "dev_app:app", "--json", "--no-http", "--no-ui", "--port", "0")
    dev = Dev(process)
    assert (await dev.printed("server"))["ui_url"] is None
    await dev.stopped()
