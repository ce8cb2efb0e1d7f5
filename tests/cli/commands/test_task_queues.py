"""Task queues on the command line: `run` finds where an agent is served, and `doctor` says who shares a queue."""

import os
import sys
import uuid
from collections.abc import AsyncIterator

import pytest

from sojourn import Agent, App, Client, PlanResult, RunPolicy, Worker
from sojourn.testing.scripted import ScriptedPlanner
from tests.programs.terminal import Terminal


def app(name: str, *agents: str) -> App:
    planner = ScriptedPlanner([PlanResult.final(f"from {name}")])
    return App(name=name, agents=[Agent(agent, planner=planner) for agent in agents])


@pytest.fixture
async def mark(temporal_address) -> AsyncIterator[str]:
    """A mark in the names of two apps that serve one agent on queues of their own, and a third one alone."""
    mark = uuid.uuid4().hex[:6]
    client = await Client.connect(temporal_address)
    both, alone = f"both{mark}.desk", f"alone{mark}.desk"
    async with (
        Worker(app(f"east{mark}", both), client, task_queue=f"east{mark}"),
        Worker(app(f"west{mark}", both, alone), client, task_queue=f"west{mark}"),
    ):
        yield mark


@pytest.fixture
def env(temporal_address, monkeypatch) -> dict[str, str]:
    monkeypatch.delenv("SOJOURN_TASK_QUEUE", raising=False)
    return {"TEMPORAL_ADDRESS": temporal_address}


async def test_run_finds_the_queue_of_the_agent(command, mark, env):
    """Without a named queue the run starts where its agent is served; `--detach --json` says where."""
    done = await command("run", f"alone{mark}.desk", "go", env=env)
    assert (done.code, f"from west{mark}" in done.out) == (0, True), done.err
    done = await command("run", f"alone{mark}.desk", "go", "--detach", "--json", env=env)
    assert done.json["task_queue"] == f"west{mark}"


async def test_run_does_not_guess_between_two_queues(command, mark, env):
    """Without a terminal the error names both queues and the option; with the option the run starts."""
    done = await command("run", f"both{mark}.desk", "go", env=env)
    assert done.code == 2
    assert f"east{mark}, west{mark}; name one: --task-queue east{mark}" in done.err
    done = await command("run", f"both{mark}.desk", "go", "--task-queue", f"west{mark}", env=env)
    assert (done.code, f"from west{mark}" in done.out) == (0, True), done.err


@pytest.mark.usefixtures("processes")
async def test_run_asks_which_queue_is_meant(mark, env):
    """On a terminal `run` asks by number, again after a wrong answer."""
    words = (sys.executable, "-m", "sojourn", "run", f"both{mark}.desk", "go")
    terminal = await Terminal.run(*words, env={**os.environ, **env})
    await terminal.shows(rf"which is meant\?\n  1: east{mark}\n  2: west{mark}\n>")
    terminal.type("3\n")
    await terminal.shows("a number from 1 to 2\n>")
    terminal.type("2\n")
    assert f"from west{mark}" in await terminal.end()
    assert terminal.process.returncode == 0


async def test_run_names_close_agents(command, mark, env):
    """For a misspelt agent the error names the close one, without a word of the Python API."""
    done = await command("run", f"alone{mark}.dusk", "go", env=env)
    assert done.code == 1
    assert f"did you mean alone{mark}.desk" in done.err


async def test_doctor_names_agents_on_two_queues(command, mark, env):
    """An agent that is served on two task queues is told with both, and what to name."""
    done = await command("doctor", env=env)
    line = next(line for line in done.out.splitlines() if "agents on several task queues" in line)
    assert f"both{mark}.desk on east{mark} and west{mark}" in line
    assert f"alone{mark}.desk" not in line
    assert "--task-queue" in done.out


async def test_doctor_names_the_apps_on_one_queue(command, temporal_address, env):
    """Workers of two apps on one queue are wrong, and the line lists what each serves."""
    mark = uuid.uuid4().hex[:6]
    clients = [await Client.connect(temporal_address, task_queue=f"shared{mark}") for _ in range(2)]
    async with Worker(app("north", f"n{mark}.a"), clients[0]), Worker(app("south", f"s{mark}.a"), clients[1]):
        done = await command("doctor", "--task-queue", f"shared{mark}", env=env)
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if f"agents on shared{mark}" in line)
    assert line.startswith("✗")
    assert f"north serves n{mark}.a" in line
    assert f"south serves s{mark}.a" in line
    assert "--task-queue NAME, or App(name=...)" in done.out


async def test_an_app_that_was_renamed_under_a_run(command, temporal_address, env):
    """The run's old queue has no worker: at once `doctor`, the status and `answer` say so, with the command that serves it."""
    mark = uuid.uuid4().hex[:6]
    ask = ScriptedPlanner(
        [PlanResult.ask("which one?"), lambda turn: PlanResult.final(turn.messages[-1].text)]
    )
    client = await Client.connect(temporal_address)

    def named(name: str) -> App:
        return App(
            name=name, agents=[Agent(f"r{mark}.desk", planner=ask, policy=RunPolicy(interrupts_allowed=True))]
        )

    async with Worker(named(f"old{mark}"), client):
        run = await client.start(f"r{mark}.desk", "go", wait_for_worker=True)
        await run.until_waiting()
    async with Worker(named(f"new{mark}"), client):
        told = await command("doctor", env=env)
        sent = await command("answer", run.id, "this", env=env)
        assert (await run.status()).hints == [f"no worker polls task queue old{mark}"]
        assert (told.code, sent.code) == (1, 1)
        assert f"old{mark} (1 open)" in told.out
        for out in (told.out, sent.err):
            assert f"sojourn worker MODULE:APP --task-queue old{mark}" in out
        async with Worker(named(f"old{mark}"), client, task_queue=f"old{mark}"):
            told = await command("doctor", env=env)
            assert f"old{mark} (1 open)" not in told.out
            await run.answer(None, "this")
            assert (await run.result()).text == "this"


@pytest.mark.parametrize("line", ["run mark.a hello", "worker m:app", "doctor", "list", "dev m:app"])
async def test_a_name_that_is_none_for_a_task_queue_is_refused(command, env, line):
    """A command says which name it refuses, before it asks a server; so it does with the name from the environment."""
    refused = "task queue sojourn.workers is where workers say which agents they serve; choose another name"
    done = await command(*line.split(), "--task-queue", "sojourn.workers", env=env)
    assert (done.code, refused in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    "queue", ["a\nb", "/_sys/mine", "\udcff", "x" * 201], ids=["newline", "system", "bytes", "long"]
)
async def test_a_task_queue_of_the_environment_is_checked_too(command, env, queue):
    """A name that no server takes is refused with what a name is."""
    done = await command("run", "mark.a", "hello", env=env | {"SOJOURN_TASK_QUEUE": queue})
    assert (done.code, f"task queue {queue[:200]!a}: a name has 1 to 200 visible" in done.err) == (2, True), (
        done.err
    )
