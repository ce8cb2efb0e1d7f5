"""Live text of `sojourn dev`: it reaches other terminals without a setting."""

import asyncio
import json
import os
import pty
import signal
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

APP = """
import asyncio
from pathlib import Path
from sojourn import Agent, App, PlanResult
from sojourn.live import current_deltas

async def plan(turn):
    await current_deltas().text("{said} ")
    while Path("hold").exists():
        await asyncio.sleep(0.01)
    if {fails}:
        raise ConnectionError("the model hung up")
    return PlanResult.final("{said} is the answer")

app = App(agents=[Agent("dev.talker", planner=plan)])
"""


class Place:
    """A folder with an app, and the commands that are started there."""

    def __init__(self, folder: Path, start: Callable, runtime: str) -> None:
        self.folder = folder
        self.hold = folder / "hold"
        self.environment = {"XDG_RUNTIME_DIR": runtime}
        self.queue = f"q-{uuid.uuid4().hex[:8]}"
        self.worker = 0
        self._start = start
        folder.mkdir(exist_ok=True)
        self.hold.touch()

    def write(self, said: str, *, fails: bool = False) -> None:
        """Write the app in one step; it says a word, and answers or fails once it is no longer held."""
        new = self.folder / "talk.new"
        new.write_text(APP.format(said=said, fails=fails))
        new.replace(self.folder / "talk.py")

    async def command(self, *arguments: str, **more):
        """Start a command in the app's folder, on its own task queue."""
        environment = {**self.environment, "SOJOURN_TASK_QUEUE": self.queue}
        return await self._start(*arguments, cwd=self.folder, env=environment, **more)

    async def dev(self, port: str = "0", *options: str):
        """Start `sojourn dev`, wait until it serves, and return it; the commands now use its server."""
        dev = await self.command("dev", "talk:app", "--json", "--port", port, *options)
        self.environment["TEMPORAL_ADDRESS"] = json.loads(await dev.stdout.readline())["address"]
        if "--no-reload" not in options:
            while "pid" not in (line := json.loads(await dev.stdout.readline())):
                pass  # the line of the HTTP service
            self.worker = line["pid"]
        return dev


async def texts(follower, wanted: str) -> list[dict]:
    """Read the events of a follower up to the text that is wanted."""
    events = []
    async with asyncio.timeout(60):
        while True:
            line = await follower.stdout.readline()
            assert line, (events, (await follower.stderr.read()).decode())
            events.append(json.loads(line))
            if events[-1].get("text") == wanted:
                return events


async def rest(follower) -> list[dict]:
    """Read the events of a follower to its end."""
    out, err = await follower.communicate()
    assert follower.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
async def place(tmp_path, start_command):
    """Make places by name; what was started there is killed at the end."""
    started = []

    async def start(*arguments, **more):
        started.append(await start_command(*arguments, **more))
        return started[-1]

    with tempfile.TemporaryDirectory() as runtime:
        yield lambda name: Place(tmp_path / name, start, runtime)
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.communicate()


@pytest.mark.parametrize("option", ["--reload", "--no-reload"])
async def test_text_comes_before_the_answer(place, tmp_path, option):
    """`run --json --deltas` of another folder, which knows only the address, prints text that the planner still writes."""
    here = place("here")
    here.write("one")
    await here.dev("0", option)
    other = place("other")
    other.environment, other.queue = here.environment, here.queue
    follower = await other.command("run", "dev.talker", "go", "--json", "--deltas")
    assert "assistant_message" not in [event["type"] for event in await texts(follower, "one ")]
    late = await other.command("watch", (await _run_id(other)), "--json", "--deltas")
    await texts(late, "one ")
    here.hold.unlink()
    for each in (follower, late):
        assert [event["type"] for event in await rest(each)][-1] == "run_stream_end"


async def _run_id(place: Place) -> str:
    listing = await place.command("list", "--json")
    out, _ = await listing.communicate()
    return json.loads(out.splitlines()[0])["run_id"]


async def test_the_tree_grows_before_the_answer(place):
    """`sojourn run` on a terminal shows the first word before the planner returns."""
    here = place("here")
    here.write("one")
    await here.dev()
    shown, terminal = pty.openpty()
    follower = await here.command(
        *("run", "dev.talker", "go"),
        stdin=terminal,
        before="import os; os.environ['TERM'] = 'xterm'; os.dup2(0, 1); os.dup2(0, 2)",
    )
    os.close(terminal)
    screen = b""
    async with asyncio.timeout(60):
        while b"one" not in screen:
            screen += await asyncio.to_thread(os.read, shown, 4096)
        here.hold.unlink()
        with suppress(OSError):  # the other end is closed
            while new := await asyncio.to_thread(os.read, shown, 4096):
                screen += new
        assert await follower.wait() == 0
    os.close(shown)
    assert b"one is the answer" in screen


async def test_a_follower_stays_through_a_reload(place):
    """A follower gets the text of the worker before the reload, and then that of the worker after it."""
    here = place("here")
    here.write("one", fails=True)
    dev = await here.dev()
    follower = await here.command("run", "dev.talker", "go", "--json", "--deltas")
    await texts(follower, "one ")
    here.write("two")
    assert json.loads(await dev.stdout.readline())["event"] == "reloaded"
    here.hold.unlink()
    again = await texts(follower, "two ")
    assert [event["attempt"] for event in again if event["type"] == "stream_restarted"] == [2]
    assert "assistant_message" in [event["type"] for event in await rest(follower)]


async def test_a_follower_stays_through_a_new_dev(place, temporal_address, until):
    """When `dev` is killed, beside a server that stays, and started again, a follower gets the text of the new one."""
    here = place("here")
    here.write("one", fails=True)
    port = temporal_address.rpartition(":")[2]
    dev = await here.dev(port)
    follower = await here.command("run", "dev.talker", "go", "--json", "--deltas")
    await texts(follower, "one ")
    dev.kill()
    here.hold.unlink()
    await until(lambda: not psutil.pid_exists(here.worker))
    here.hold.touch()
    here.write("two")
    await here.dev(port)
    await texts(follower, "two ")
    here.hold.unlink()
    assert "assistant_message" in [event["type"] for event in await rest(follower)]


async def test_two_servers_of_a_machine_do_not_mix(place):
    """Two servers with runs of the same id have a socket each, and each follower gets the text of its own."""
    north, south = place("north"), place("south")
    followers = []
    for each in (north, south):
        each.write(each.folder.name)
        await each.dev()
    for each in (north, south):
        run = ("run", "dev.talker", "go", "--run-id", "same", "--json", "--deltas")
        followers.append(await each.command(*run))
    for each, follower in zip((north, south), followers, strict=True):
        await texts(follower, f"{each.folder.name} ")
    for each, follower in zip((north, south), followers, strict=True):
        each.hold.unlink()
        said = {event["text"] for event in await rest(follower) if event["type"] == "text_delta"}
        assert said <= {f"{each.folder.name} "}
    folder = Path(north.environment["XDG_RUNTIME_DIR"]) / "sojourn"
    ports = {each.environment["TEMPORAL_ADDRESS"].rpartition(":")[2] for each in (north, south)}
    assert {path.name for path in folder.glob("*.sock")} == {f"live-{port}.sock" for port in ports}


async def test_without_a_folder_for_the_socket_it_serves_all_the_same(place):
    """If the socket cannot be made, `dev` says so in one line, and runs are answered."""
    here = place("here")
    here.write("one")
    here.hold.unlink()
    (Path(here.environment["XDG_RUNTIME_DIR"]) / "sojourn").touch()
    (here.folder / "talk.py").write_text(
        (here.folder / "talk.py").read_text().replace('await current_deltas().text("one ")', "pass")
    )
    dev = await here.dev()
    follower = await here.command("run", "dev.talker", "go", "--json", "--deltas")
    assert "assistant_message" in [event["type"] for event in await rest(follower)]
    dev.send_signal(signal.SIGINT)
    _, err = await dev.communicate()
    assert b"other terminals get no text" in err.splitlines()[0]
