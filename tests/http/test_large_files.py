"""A photo of 12 MB and a PDF of 20 MB from every door to a tool and an approver, and to a model, in programs whose memory is bounded."""

import asyncio
import hashlib
import json
import re
import uuid
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from temporalio.client import Client

from sojourn import Client as SojournClient
from sojourn.network import http_client
from sojourn.testing.providers import ProviderServer, Request, ToolCall, calls, says
from tests.cli.conftest import command, start_command
from tests.http.every_protocol import PROTOCOLS, File, say

__all__ = ["command", "start_command"]

APP = Path(__file__).with_name("files_app.py")

PHOTO = File("photo.jpg", "image/jpeg", b"\xff\xd8\xff" + hashlib.sha256(b"photo").digest() * 375_000)
SCAN = File("scan.pdf", "application/pdf", b"%PDF-1.7" + hashlib.sha256(b"scan").digest() * 625_000)

TOLD = ", ".join(
    f"{each.name} {each.media_type} {len(each.content)} {hashlib.sha256(each.content).hexdigest()[:8]}"
    for each in (PHOTO, SCAN)
)

SERVICE_GROWTH = 80_000_000
"""Most bytes that the service's memory grows by: less than the 43 MB of a request's base64 held twice."""

WORKER_GROWTH = 400_000_000
"""The same of the worker, which sends the PDF to its model: a request of 27 MB, which its SDK holds several times."""

DOORS = ["form", "reference", "console", "--file", *(name for name in PROTOCOLS if "stream" not in name)]
DOORS.remove("message")

WITH_MODEL, WITHOUT_MODEL = "files.clerk", "files.porter"
"""Agents of the app. To send a PDF to a model takes longer than all the rest, and is the same whatever its door was."""


class Model:
    """Answers as a model that calls the tool with the files that it reads of, and then repeats what it says."""

    def __init__(self) -> None:
        self.seen: list[bool] = []
        """For each request whether it had the PDF."""

    def __call__(self, request: Request) -> Any:
        body, request.body = json.dumps(request.body), {}
        self.seen.append("JVBERi0xLj" in body)
        if "photo.jpg image/jpeg 12" in body:
            return says(TOLD)
        ids = {name: id for id, name in re.findall(r"\[Attachment (att_[0-9a-f]+): '([a-z.]+)'", body)}
        if len(ids) < 2:
            return says("I see one file.")
        tool = request.tools[0].name
        return calls(ToolCall(name=tool, arguments={"photo": ids["photo.jpg"], "scan": ids["scan.pdf"]}))


class Memory:
    """The highest memory of a program, above what it had at first."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.begin()

    def begin(self) -> None:
        self._first, self.growth = self._process.memory_info().rss, 0

    def look(self) -> None:
        self.growth = max(self.growth, self._process.memory_info().rss - self._first)


class Desk:
    """The programs, the model, and an approver who uses the API."""

    def __init__(self, http: httpx2.AsyncClient, run: Any, folder: Path, memories: list[Memory]) -> None:
        self.http = http
        self.memories = memories
        self._run = run
        self._folder = folder

    async def begin(self) -> None:
        """Have the programs import all that they need, and measure from then on."""
        for name in PROTOCOLS:
            method, path, headers, body = say(name, "hello", agent_id=WITH_MODEL)
            await self.http.request(method, path, headers=headers, json=body)
        for memory in self.memories:
            memory.begin()

    async def send(self, door: str, agent: str, session: str) -> None:
        """Send the two files to an agent by a door. A protocol answers once the call waits for approval."""
        form = {"text": "inspect them"}
        sent = [("file", (each.name, each.content, each.media_type)) for each in (PHOTO, SCAN)]
        path = f"/v1/sessions/{agent}/{session}/messages"
        if door == "form":
            answer = await self.http.post(path, data=form, files=sent)
        elif door == "reference":
            stored = (await self.http.post("/v1/attachments", files=sent)).json()["attachments"]
            names = [each["reference"] for each in stored]
            answer = await self.http.post(path, json={**form, "attachments": names})
        elif door == "console":
            answer = await self.http.post(
                "/talk/new",
                data={**form, "agent": agent, "session": session},
                files=sent,
                headers={"Origin": str(self.http.base_url).rstrip("/")},
            )
        elif door == "--file":
            given = [word for each in (PHOTO, SCAN) for word in ("--file", str(self._folder / each.name))]
            done = await self._run("send", f"{agent}@{session}", form["text"], *given)
            assert done.code == 0, done.err
            return
        else:
            method, path, headers, body = say(
                door, form["text"], agent_id=agent, session_id=session, files=[PHOTO, SCAN]
            )
            answer = await self.http.request(method, path, headers=headers, json=body)
        assert answer.status_code < 400, (door, answer.text[:2_000])

    async def approve(self, agent: str, session: str) -> str:
        """Look at the files of the call that waits, load one, approve the call, and return the answer."""
        run_id = f"{agent}@{session}"
        (wait,) = await self._until(f"/v1/sessions/{agent}/{session}", lambda found: found["awaits"])
        assert [(each["name"], each["size"]) for each in wait["attachments"]] == [
            (each.name, len(each.content)) for each in (PHOTO, SCAN)
        ]
        digest = hashlib.sha256()
        async with self.http.stream("GET", wait["attachments"][0]["path"]) as content:
            async for chunk in content.aiter_bytes():
                digest.update(chunk)
        assert digest.hexdigest() == hashlib.sha256(PHOTO.content).hexdigest()
        decision = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
        await self.http.post(f"/v1/runs/{run_id}/approvals", json=decision)
        path = f"/v1/runs/{run_id}/transcript"
        return await self._until(path, lambda found: found[-1]["parts"][0].get("text"))

    async def _until(self, path: str, find: Any) -> Any:
        async with asyncio.timeout(60):
            while True:
                answer = await self.http.get(path)
                for memory in self.memories:
                    memory.look()
                if answer.status_code == 200 and (found := find(answer.json())):
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def model():
    async with ProviderServer() as provider:
        provider.script = Model()
        yield provider


@pytest.fixture
async def desk(start_command, command, temporal_address, tmp_path, model, until):
    """The app's worker and service, in programs of their own, and files for a command."""
    for each in (PHOTO, SCAN):
        (tmp_path / each.name).write_bytes(each.content)
    queue = f"files-{uuid.uuid4().hex[:8]}"
    env = {
        **model.environment,
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": queue,
        "FILES_STORAGE": str(tmp_path / "storage"),
        "PYTHONPATH": str(APP.parent),
    }
    worker = await start_command("worker", "files_app:app", cwd=APP.parent, env=env)
    service = await start_command("serve", "files_app:app", "--json", cwd=APP.parent, env=env)
    try:
        address = json.loads(await service.stdout.readline())["address"]

        async def run(*arguments: str) -> Any:
            return await command(*arguments, "--app", "files_app:app", env=env, cwd=APP.parent)

        async with SojournClient.connect(temporal_address) as client:
            await until(lambda: client.has_worker(queue))
        memories = [Memory(service.pid), Memory(worker.pid)]
        async with http_client(base_url=address, timeout=120) as http:
            yield Desk(http, run, tmp_path, memories)
    finally:
        for program in (worker, service):
            program.kill()
            await program.communicate()


async def test_files_from_every_door_reach_tool_model_and_approver(desk, model, temporal_address):
    """Each byte arrives, a model gets the PDF, and the history of each run has less than 10 kB for the files."""
    temporal_client = await Client.connect(temporal_address)
    await desk.begin()
    model.script.seen.clear()
    for door in DOORS:
        agent = WITH_MODEL if door == "form" else WITHOUT_MODEL
        session = f"s-{uuid.uuid4().hex[:8]}"
        sending = asyncio.create_task(desk.send(door, agent, session))
        assert await desk.approve(agent, session) == TOLD, door
        await sending
        handle = temporal_client.get_workflow_handle(f"{agent}@{session}")
        history = await handle.fetch_history()
        assert max(event.ByteSize() for event in history.events) < 10_000, door
        assert sum(event.ByteSize() for event in history.events) < 60_000, door
    assert len(model.script.seen) >= 2
    assert all(model.script.seen)
    service, worker = desk.memories
    print(f"service grew by {service.growth / 1e6:.0f} MB, worker by {worker.growth / 1e6:.0f} MB")
    assert service.growth < SERVICE_GROWTH
    assert worker.growth < WORKER_GROWTH


async def test_four_bodies_at_once_take_little_memory(desk):
    """Four requests of AG-UI with the PDF at the same time: the service holds none of them, not even once."""
    await desk.begin()
    service, _ = desk.memories

    async def send(number: int) -> None:
        method, path, headers, body = say(
            "agui", "inspect it", agent_id=WITHOUT_MODEL, session_id=f"at-once-{number}", files=[SCAN]
        )
        async with desk.http.stream(method, path, headers=headers, json=body) as answer:
            assert answer.status_code == 200

    sending = asyncio.gather(*map(send, range(4)))
    while not sending.done():
        service.look()
        await asyncio.sleep(0.01)
    await sending
    print(f"service grew by {service.growth / 1e6:.0f} MB")
    assert service.growth < SERVICE_GROWTH
