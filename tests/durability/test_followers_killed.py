"""Clients that disconnect and come back, while the processes of the HTTP service, workers and the server are killed in turn.

`SOJOURN_CASES=1000 pytest -s tests/durability/test_followers_killed.py` disconnects as often, over a tenth as many runs, and prints the figures.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import httpx2
import pytest

from sojourn.network import http_client
from sojourn.server import Server
from sojourn.server.ports import pick

from .follower import Follower
from .stage import Stage
from .until import until

pytestmark = pytest.mark.timeout(3600)

APP = "follow_app:app"

CASES = int(os.environ.get("SOJOURN_CASES", "100"))
"""Disconnects to come to, as far as the runs last: on a quiet machine the few runs of the suite end before."""

RUNS = max(12, CASES // 10)
"""Number of runs; every fourth is followed by two clients."""

FEWEST = CASES if CASES >= 1_000 else RUNS
"""Fewest disconnects."""

AT_ONCE = 25
"""Number of runs under way at a time."""

EVENTS = 160
"""Number of events of a run and its child runs, about."""

KILLS = max(4, CASES * 3 // 100)
"""Processes that are killed, each after an equal share of the events: one of the service, a worker, the server, and so on."""

LIMIT = 600.0
"""Most seconds of one run: where a question was lost, nobody answers it."""

SERVICES = WORKERS = 2


@pytest.fixture
async def server(tmp_path):
    """A server that is killed."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


class Campaign:
    """The runs, their followers, the processes that are killed, and the figures of what became of them."""

    def __init__(self, stage: Stage, server: Server, http: httpx2.AsyncClient) -> None:
        self.followers: list[Follower] = []
        self.figures: Counter[str] = Counter()
        self._stage, self._server, self._http = stage, server, http
        self._ports = [pick(0, 0) for _ in range(SERVICES)]
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks = asyncio.TaskGroup()
        self._dice = random.Random(1)
        self._is_over = False

    async def perform(self) -> None:
        """Follow every run to its end while processes are killed."""
        workers = [await self._stage.worker(APP) for _ in range(WORKERS)]
        services = {port: await self._stage.service(APP, port) for port in self._ports}
        async with self._tasks:
            self._tasks.create_task(self._kill(workers, services))
            await asyncio.gather(*map(self._run, range(RUNS)))
            self._is_over = True
        for port in self._ports:
            await until(f"no stream is left at port {port}", lambda port=port: self._is_idle(port))

    async def _kill(self, workers, services) -> None:
        """Kill a process of each kind in turn, and start it again after a moment."""
        for number, kind in zip(range(1, KILLS + 1), cycle(["services", "workers", "servers"]), strict=False):
            while sum(len(each.had) for each in self.followers) < EVENTS * RUNS * number // (KILLS + 1):
                if self._is_over:
                    return
                await asyncio.sleep(0.02)
            await asyncio.sleep(self._dice.uniform(0, 0.5))
            if kind == "services":
                port = self._dice.choice(self._ports)
                services[port].kill()
                await asyncio.sleep(self._dice.uniform(0, 2))
                services[port] = await self._stage.service(APP, port)
            elif kind == "workers":
                workers.pop(0).kill()
                workers.append(await self._stage.worker(APP))
            else:
                self._server.kill()
                await asyncio.sleep(self._dice.uniform(0, 2))
                await self._server.restart()
            self.figures[f"{kind} killed"] += 1

    async def _run(self, number: int) -> None:
        """Start a run, and have it followed to its end."""
        async with self._room:
            run_id, dice = f"run-{number}", random.Random(number)
            body = {"agent_id": "follow.agent", "input": str(number)}
            started = await self._post("/v1/runs", body, {"Idempotency-Key": run_id})
            assert started.status_code in (200, 201), started.text
            followers = [
                Follower(run_id, self._ports, dice, self.figures, self._see)
                for _ in range(2 if number % 4 == 0 else 1)
            ]
            self.followers += followers
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LIMIT):
                    await asyncio.gather(*(follower.follow() for follower in followers))

    def _see(self, event: dict[str, Any]) -> None:
        """Answer what an event asks."""
        if event["type"] == "await_clarification":
            path, body = "answers", {"await_id": event["wait"]["await_id"], "answer": "this"}
        elif event["type"] == "await_confirmation":
            asked = event["wait"]
            path = "approvals"
            body = {"await_id": asked["await_id"], "approved": True, "digest": asked["digest"]}
        else:
            return
        self._tasks.create_task(self._answer(f"/v1/runs/{event['run_id']}/{path}", body))

    async def _answer(self, path: str, body: dict[str, Any]) -> None:
        """Answer a wait; of two followers of a run, and of an answer that is sent again, the first one counts."""
        await asyncio.sleep(self._dice.uniform(0, 2))
        answer = await self._post(path, body)
        assert answer.status_code == 200 or answer.json()["code"] == "already_answered", answer.text

    async def _post(
        self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Send a request to any process, again and again until one could carry it out."""
        while True:
            port = self._dice.choice(self._ports)
            with contextlib.suppress(httpx2.TransportError):
                answer = await self._http.post(f"http://127.0.0.1:{port}{path}", json=body, headers=headers)
                if answer.status_code != 503:
                    return answer
            await asyncio.sleep(0.2)

    async def _is_idle(self, port: int) -> bool:
        text = (await self._http.get(f"http://127.0.0.1:{port}/metrics")).text
        return "sojourn_http_streams 0\n" in text and "sojourn_http_waiting_requests 0\n" in text


async def test_each_client_has_the_history(stages, server, capsys):
    """Wherever a client disconnects, and whichever process dies: it has every event of the run and its child runs once, in order."""
    began = time.monotonic()
    stage = await stages(server.address)
    async with http_client(timeout=60) as http:
        campaign = Campaign(stage, server, http)
        await campaign.perform()
    figures, histories, faults = campaign.figures, {}, []
    for follower in campaign.followers:
        if (run_id := follower.run_id) not in histories:
            run = stage.client.get_run(run_id)
            events = [event async for event in run.events(children=True, follow=False)]
            figures["runs completed"] += events[-2].type == "run_completed"
            histories[run_id] = by_run((event.run_id, event.event_id) for event in events)
            figures["continuations"] += sum(event.type == "run_continued" for event in events)
            figures["answers"] += sum(event.type == "await_answered" for event in events)
        faults += judge(follower, histories[run_id], figures)
    figures["child runs"] = sum(len(runs) - 1 for runs in histories.values())
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert faults == []
    assert figures["runs completed"] == RUNS
    assert figures["disconnects"] >= FEWEST
    assert figures["continuations"] >= RUNS
    assert figures["answers"] == RUNS
    assert all(figures[f"{kind} killed"] for kind in ("services", "workers", "servers"))
    assert not [name for name in figures if name.startswith("refused") and "server_unavailable" not in name]
    assert not [name for name in figures if name.startswith("ended") and "server_unavailable" not in name]


def by_run(events: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """By run, the ids of its events, in their order."""
    found = defaultdict(list)
    for run_id, event_id in events:
        found[run_id].append(event_id)
    return dict(found)


def judge(follower: Follower, history: dict[str, list[str]], figures: Counter[str]) -> list[str]:
    """Compare what a follower has had with the history; return what differs, and count it."""
    had = by_run((event["run_id"], event["event_id"]) for event in follower.had)
    figures["events"] += len(follower.had)
    faults = [f"{event['run_id']} {event['event_id']}: out of its call" for event in strays(follower)]
    for run_id in {*had, *history}:
        mine, theirs = had.get(run_id, []), history.get(run_id, [])
        figures["lost"] += len({*theirs} - {*mine})
        figures["doubled"] += len(mine) - len({*mine})
        if mine != theirs:
            faults.append(f"{run_id}: {mine}, not {theirs}")
    return faults


def strays(follower: Follower) -> list[dict[str, Any]]:
    """The events of child runs that came before the start, or after the end, of the call that the child run answers."""
    children: dict[tuple[str, str], str] = {}
    present, found = {follower.run_id}, []
    for event in follower.had:
        if event["run_id"] not in present:
            found.append(event)
        if event["type"] == "agent_run_started":
            child = event["run_link"]["run_id"]
            children[event["run_id"], event["call"]["tool_call_id"]] = child
            present.add(child)
        elif event["type"] == "tool_end":
            present.discard(children.get((event["run_id"], event["result"]["tool_call_id"]), ""))
    return found
