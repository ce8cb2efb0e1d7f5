"""What hostile requests are sent to: a service of two tenants, of which one has runs that nobody else may see or change."""

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

import httpx2

from sojourn import Client, Worker
from sojourn.asgi import create_app
from sojourn.http import ApiKeys, FirstOf, Oidc, SecuritySettings
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import say
from tests.http.security.test_oidc import Issuer

PATIENCE = 60.0
"""Seconds for one answer."""

SETTINGS = SecuritySettings(max_body_bytes=100_000, body_seconds=0.5, requests=10_000, burst=100_000)
"""Small enough that every bound is met by a short test, but those of requests, which many rows would meet by chance."""

ROLES = ["user", "approver", "operator"]


@dataclass(frozen=True)
class Answer:
    """What came back, read to its end."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def media(self) -> str:
        """The media type."""
        return self.headers.get("content-type", "").partition(";")[0]

    @property
    def value(self) -> Any:
        """The JSON of the body, or of the last event of a stream; None where it is none."""
        lines = [line[6:] for line in self.text.splitlines() if line.startswith("data: ")]
        try:
            return json.loads(lines[-1] if lines else self.text)
        except ValueError:
            return None

    @property
    def code(self) -> str:
        """The code of an error, in whichever shape the path has; empty where there is none."""
        if self.media == "text/html":
            told = re.search(r'<p class="faint"><code>(\w+)</code>', self.text)
            return told[1] if told else ""
        value = self.value if isinstance(self.value, dict) else {}
        error = value.get("error")
        if isinstance(error, dict) and "jsonrpc" not in value:
            return str(error.get("code", ""))
        if isinstance(error, dict):
            data = error.get("data") or {}
            told = data[0]["metadata"] if isinstance(data, list) else data  # A2A's is a list of ErrorInfo
            return str(told.get("code") or error["code"])
        result = value.get("result")
        if isinstance(result, dict):
            return str((result.get("_meta") or {}).get("code", ""))
        return str(value.get("code", ""))


@dataclass
class World:
    """The service, and what a row may name of it."""

    url: str
    web: Any
    http: httpx2.AsyncClient
    client: Client
    issuer: Issuer
    keys: dict[str, str]
    """By name, the key: bo is of the other tenant; ana and eve send hostile requests, eve without a tenant; col, app, late and op are colleagues of bo."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """What `$name` stands for in a request."""
    secrets: list[str] = field(default_factory=list[str])
    """What no answer to another tenant may hold."""
    victims: list[str] = field(default_factory=list[str])
    """The runs of the other tenant."""
    lengths: list[int] = field(default_factory=list[int])
    """The lengths of their histories."""

    def filled(self, value: Any) -> Any:
        """A value with its names replaced."""
        if isinstance(value, str):
            return Template(value).safe_substitute(self.names)
        if isinstance(value, dict):
            return {self.filled(name): self.filled(each) for name, each in value.items()}
        return [self.filled(each) for each in value] if isinstance(value, list) else value

    async def send(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        body: Any = None,
        who: str = "ana",
        headers: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request with a value as JSON, or with a body as it is."""
        if value is not None:
            body = json.dumps(self.filled(value)).encode()
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if who:
            sent["Authorization"] = f"Bearer {self.keys[who]}"
        sent |= {name: self.filled(each) for name, each in (headers or {}).items()}
        async with asyncio.timeout(PATIENCE):
            answer = await self.http.request(
                method, self.filled(path), content=body, headers=sent, params=self.filled(query)
            )
        return Answer(answer.status_code, dict(answer.headers), answer.text)

    async def say(
        self, name: str, text: str, *, session_id: str, message_id: str = "", who: str = "ana"
    ) -> Answer:
        """Send a message by a protocol."""
        method, path, headers, body = say(name, text, session_id=session_id, message_id=message_id)
        return await self.send(method, path, body, who=who, headers=headers)

    def unnamed(self, text: str) -> str:
        """An answer without the runs and sessions that the request has named."""
        for name in ("talking", "run", "asking", "outside", "ended", "talk"):
            text = text.replace(self.names[name], f"${name}")
        return text

    async def raw(self, data: bytes) -> Answer:
        """Send bytes as they are, and read one answer."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(data)
                with contextlib.suppress(ConnectionError):
                    await writer.drain()
                return await _read(reader)
        finally:
            writer.close()

    async def start(self, text: str, *, who: str = "ana", **fields: Any) -> str:
        """Start a run of the clerk; return its id."""
        body = {"agent_id": "shop.clerk", "input": text, **fields}
        return (await self.send("POST", "/v1/runs", body, who=who)).value["run_id"]

    async def waiting(self, text: str, *, who: str = "ana", **fields: Any) -> tuple[str, Any]:
        """Start a run, and wait until it waits; return its id and the wait."""
        run_id = await self.start(text, who=who, **fields)
        return run_id, await self.wait_of(run_id, who=who)

    async def wait_of(self, run_id: str, *, who: str = "ana") -> Any:
        """The first open wait of a run, once it has one."""
        async with asyncio.timeout(PATIENCE):
            while not (awaits := (await self.send("GET", f"/v1/runs/{run_id}", who=who)).value["awaits"]):
                await asyncio.sleep(0.05)
        return awaits[0]

    async def ended(self, run_id: str) -> None:
        """Wait until a run has ended: until then the same answer again changes nothing, and is accepted."""
        await self.client.get_run(run_id).result()

    async def events_of(self, run_id: str) -> list[Any]:
        """The recorded events of a run."""
        return [event async for event in self.client.get_run(run_id).events(follow=False)]

    async def present_lengths(self) -> list[int]:
        """The lengths of the histories of the other tenant's runs."""
        handles = [self.client.temporal.get_workflow_handle(run_id) for run_id in self.victims]
        return [each.history_length for each in await asyncio.gather(*(one.describe() for one in handles))]


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    length = int(headers.get("content-length", 0))
    body = await (reader.readexactly(length) if length else reader.read())
    return Answer(int(head[0].split()[1]), headers, body.decode())


Send = Callable[[World], Awaitable[Answer]]


@dataclass(frozen=True)
class Row:
    """A hostile request, and the answer that it has to get."""

    name: str
    send: Send
    status: int
    code: str = ""
    """The code of the error; empty where the request is answered as any other, or the server refuses what is no HTTP."""
    about: str = ""
    """The route, or the method of a protocol, by which a row crosses tenants."""


def row(
    name: str, method: str, path: str, status: int, code: str = "", value: Any = None, **options: Any
) -> Row:
    """A row with one request."""

    async def send(world: World) -> Answer:
        return await world.send(method, path, value, **options)

    return Row(name, send, status, code)


@contextlib.asynccontextmanager
async def world_of(
    app: Any, temporal_address: str, folder: Path, bo: Sequence[str] = ROLES
) -> AsyncIterator[World]:
    """A service with a worker, and with what the other tenant has, of which bo has these roles."""
    mark = uuid.uuid4().hex[:8]
    client = await Client.connect(temporal_address, task_queue=f"q-{mark}")
    path, keys = folder / "keys.json", dict[str, str]()
    for name, tenant, roles in (
        ("ana", f"acme-{mark}", ROLES),
        ("eve", "", ROLES),
        ("bo", f"globex-{mark}", bo),
        ("vi", f"acme-{mark}", ["viewer"]),
        ("una", f"acme-{mark}", ["user"]),
        ("col", f"globex-{mark}", ["user"]),
        ("app", f"globex-{mark}", ["approver"]),
        ("late", f"globex-{mark}", ["approver"]),
        ("op", f"globex-{mark}", ["operator"]),
    ):
        _, keys[name] = create_key(path, f"{name}-{mark}", tenant=tenant, roles=roles)
    issuer = Issuer()
    auth = FirstOf(ApiKeys(path), Oidc(issuer.url, "sojourn", tenant="org"))
    web = create_app(app, client=client, auth=auth, security=SETTINGS)
    try:
        async with (
            Worker(app, client),
            listening(web) as url,
            http_client(base_url=url, timeout=PATIENCE) as http,
        ):
            world = World(url, web, http, client, issuer, keys, {"mark": mark})
            await _settle_in(world, mark)
            yield world
    finally:
        issuer.close()


def absent_of(world: World) -> World:
    """The world of a hostile client that guesses: what it names is not there."""
    runs = {name: f"{world.names[name]}-none" for name in ("talking", "run", "asking", "outside", "ended")}
    task = ReplyToken(runs["talking"], world.names["after"], "m-1").text
    made = {
        "talk": f"{world.names['talk']}-none",
        "artifact": world.names["artifact"].replace(world.names["ended"], runs["ended"]),
        "task": task,
        "response": f"resp_{task}",
        "once": ReplyToken(runs["run"]).text,
    }
    return replace(world, names={**world.names, **runs, **made})


async def _settle_in(world: World, mark: str) -> None:
    """Let the other tenant have a run for everything that a request can be about."""
    secret = f"secret-{uuid.uuid4().hex}"
    names, bo = world.names, {"who": "bo"}
    names["key"] = f"order-{mark}"
    names["labels"] = f"label-{secret}"
    labels = {"labels": {"desk": names["labels"]}, "session_id": f"desk-{mark}"}
    names["run"], approval = await world.waiting(f"wipe {secret}", run_id=names["key"], **labels, **bo)
    names |= {"approval": approval["await_id"], "digest": approval["digest"], "session": f"desk-{mark}"}
    names["asking"], question = await world.waiting(f"ask {secret}", **bo)
    names["question"] = question["await_id"]
    names["outside"], external = await world.waiting(f"weigh {secret}", **bo)
    names |= {"external": external["await_id"], "external_call": external["calls"][0]["tool_call_id"]}
    names["ended"] = await world.start(f"measure {secret}", **bo)
    ended = await world.send("GET", f"/v1/runs/{names['ended']}/output", query={"wait": "20"}, **bo)
    ref = ended.value["output"]["artifacts"][0]["ref"]
    names |= {"artifact": ref.replace("#", "%23"), "measured": ref.partition("#")[2].partition("/")[0]}
    thread = {"text": f"wipe {secret}", "message_id": "m-1"}
    names["chat"] = f"chat-{mark}"
    chat = await world.send("POST", f"/v1/sessions/shop.clerk/{names['chat']}", thread, **bo)
    names["chatting"] = chat.value["run_id"]
    await world.wait_of(names["chatting"], **bo)
    for who in ("ana", "eve"):  # have a conversation of the same name
        path = f"/v1/sessions/shop.clerk/{names['chat']}"
        await world.send("POST", path, {"text": "hello"}, who=who, query={"wait": "20"})
    sent = await world.send("POST", f"/v1/sessions/shop.clerk/talk-{mark}", thread, **bo)
    names |= {"talk": f"talk-{mark}", "talking": sent.value["run_id"], "after": sent.value["after"]}
    interrupt = await world.wait_of(names["talking"], **bo)
    names["interrupt"] = f"{interrupt['await_id']}#{interrupt['digest']}"
    task = ReplyToken(names["talking"], names["after"], "m-1").text
    names |= {"task": task, "response": f"resp_{task}", "once": ReplyToken(names["run"]).text}
    names["own"], _ = await world.waiting("wipe")
    world.victims += [names[each] for each in ("run", "asking", "outside", "ended", "talking", "chatting")]
    world.secrets += [secret, f"bo-{mark}"]
    world.lengths = await world.present_lengths()
