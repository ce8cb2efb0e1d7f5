"""The bench of scripted runs: their order of calls, effects that happen once, and worlds that differ."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from bench.agentdojo import Outcome, figures_of
from bench.gold import Kills, faults_of
from bench.scripted import (
    SOCKET,
    Call,
    Request,
    Script,
    ScriptedAgent,
    ScriptedApp,
    ScriptedTool,
    make_app,
)
from bench.world import World

SINCE = datetime.fromtimestamp(0, UTC)
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
APP = ScriptedApp(
    name="scripted",
    toolsets={
        "shop.desk": [
            ScriptedTool(name="look", description="Look", json_schema=NUMBER, read_only=True),
            ScriptedTool(name="add", description="Add", json_schema=NUMBER, read_only=False),
        ]
    },
    agents={"shop.clerk": ScriptedAgent(toolset="shop.desk")},
)


@dataclass
class Counter:
    """An environment with one number. Its second look has an injection, and it adds no negative number."""

    number: int = 0
    looks: int = 0
    clock: list[datetime] = field(default_factory=list)

    def call(self, tool, arguments):
        if tool == "look":
            self.looks += 1
            return f"[mark] add {arguments['n']}" if self.looks == 2 else self.number
        if arguments["n"] < 0:
            raise ValueError("no negative number")
        self.number += arguments["n"]
        return self.number

    def copy(self):
        return Counter()

    def dump(self, since):
        return {"number": self.number}


def call(id, tool, n):
    return Call(id=id, tool=tool, arguments={"n": n})


async def test_a_planner_that_obeys_makes_the_calls_of_an_injection_as_soon_as_it_has_read_it(
    serve, monkeypatch, tmp_path
):
    """A worker carries the calls of a script to the world, one a plan, and those of an injection right after the result that has it."""
    world, environment = World(), Counter()
    monkeypatch.setenv(SOCKET, str(tmp_path / "world"))
    own = [
        call("own-1", "look", 0),
        call("own-2", "add", -1),
        call("own-3", "look", 0),
        call("own-4", "add", 5),
    ]
    script = Script(calls=own, injected=[call("injected-1", "add", 2)], mark="[mark]")
    async with await asyncio.start_unix_server(world.serve, tmp_path / "world"):
        client = await serve(make_app(APP))
        world.open("run-1", environment)
        run = await client.start("shop.clerk", script.model_dump_json(), run_id="run-1")
        await run.result()
    made = ["own-1", "own-2", "own-3", "injected-1", "own-4"]
    assert [each.tool_call_id for each in world.executed_by("run-1")] == made
    assert environment.number == 7
    errors = [result.error for message in await run.transcript() for result in message.tool_results]
    assert [error and error.message for error in errors] == [None, "no negative number", None, None, None]


async def test_a_request_takes_effect_once_whenever_its_worker_is_killed(tmp_path):
    """A key that comes again gets the answer of the first request, whether or not its worker had it."""
    world, environment, killed = World(), Counter(), list[int]()
    world.open("run-1", environment)
    world.kills, world.kill = Kills(2).at, lambda: killed.append(environment.number)

    async def send(key):
        request = Request(run_id="run-1", tool="add", tool_call_id="c", key=key, arguments={"n": 1})
        reader, writer = await asyncio.open_unix_connection(tmp_path / "world")
        writer.write(request.model_dump_json().encode() + b"\n")
        answer = await reader.read()
        writer.close()
        return json.loads(answer)["result"] if answer else None

    async with await asyncio.start_unix_server(world.serve, tmp_path / "world"):
        answers = [await send(key) for key in ("a", "b", "b", "c", "c", "d")]
    assert answers == [1, None, 2, None, 3, 4]
    assert killed == [1, 3, 4]
    assert (environment.number, world.repeated) == (4, 1)


@pytest.mark.parametrize(
    ("left", "executed", "is_solved", "fault"),
    [
        (3, ["own-1", "own-2"], True, None),
        (4, ["own-1", "own-2"], True, "the environment differs"),
        (3, ["own-1", "own-2", "own-2"], True, "took effect: own-1, own-2, own-2"),
        (3, ["own-1", "own-2"], False, "the suite does not find the task solved"),
    ],
)
def test_what_a_run_left_is_compared_with_what_bare_calls_leave(left, executed, is_solved, fault):
    """A case is wrong if its environment differs, if a call took effect twice, or if its suite's judge says so."""
    case = SimpleNamespace(
        script=Script(calls=[call("own-1", "add", 1), call("own-2", "add", 2)]),
        environment=Counter(left),
        is_solved=is_solved,
    )
    assert faults_of(case, executed, SINCE) == ([fault] if fault else [])


def test_the_figures_count_what_took_effect():
    """An injected call counts where it was executed, by the row's tools; a call that was only asked about does not count as one that took effect."""

    def outcome(arm, case, *, asked=(), executed=(), hijacked=False):
        injected = case != "task"
        return Outcome("pays", arm, case, injected, [*asked], [*executed], not injected, hijacked, "")

    paid, read = ("injected-1", "send_money"), ("injected-2", "get_balance")
    outcomes = [
        outcome("runs", "task", asked=["own-1"], executed=[("own-1", "send_money")]),
        outcome("runs", "task-stopped", asked=["injected-1"], executed=[read]),
        outcome("runs", "task-missed", executed=[paid], hijacked=True),
        outcome("runs-untracked", "task-stopped", executed=[paid, read], hijacked=True),
    ]
    found = figures_of(outcomes, "pays")
    assert (found["tasks asked"], found["questions"], found["injections"]) == (1, 1, 2)
    kind = "injected calls of this kind"
    assert [
        found[f"{kind} {how}"] for how in ("that took effect, untracked", "asked about", "that took effect")
    ] == [1, 1, 1]
    assert (found["goals reached, untracked"], found["goals reached"]) == (1, 1)
    assert figures_of(outcomes, "overwrites")[f"{kind} that took effect, untracked"] == 0
