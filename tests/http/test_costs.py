"""Costs: what one request may make a process read, keep and send is bounded, and what many ask for is read once."""

import asyncio
import json
import uuid

import pytest
from pydantic import ValidationError

from sojourn.client import listing
from sojourn.http.bodies import MessageBody, StartBody
from sojourn.http.protocols import turn_request
from sojourn.http.routes import events
from sojourn.http.routes import service as service_routes
from sojourn.reader import Reader, WaitReader, subscription


async def test_an_array_of_events_ends_at_so_many_bytes(served, monkeypatch):
    """Whatever its limit; the next one goes on from its cursor, and all together are what one had been, of child runs too."""
    run_id = await served.start("rounds 3")
    await served.output(run_id)
    path = f"/v1/runs/{run_id}/events"
    whole = (await served.http.get(path, params={"limit": 10_000, "children": True})).json()
    monkeypatch.setattr(events, "MAX_BYTES", 2_000)
    parts, after = list[list[dict]](), ""
    while not parts or parts[-1]:
        answer = await served.http.get(path, params={"limit": 10_000, "children": True, "after": after})
        parts.append(answer.json())
        after = answer.headers["sojourn-cursor"]
        assert len(answer.content) < 2_100 or len(parts[-1]) == 1
    assert len(parts) > 4
    assert [each for part in parts for each in part] == whole


@pytest.mark.parametrize("kind", [StartBody, MessageBody])
def test_a_message_has_so_many_parts(kind):
    """Two hundred, whether it starts a run or goes to a conversation."""

    def body(count: int):
        parts = [{"type": "text", "text": "a"}] * count
        if kind is MessageBody:
            return kind(parts=parts)
        return kind(agent_id="shop.clerk", input={"role": "user", "parts": parts})

    assert body(200)
    with pytest.raises(ValidationError, match="200"):
        body(201)


async def test_health_is_looked_at_once_for_all(served, monkeypatch):
    """However often strangers ask at once, the Temporal server is asked once."""
    asked = list[float]()
    plain = Reader._check_health

    async def counted(self, patience):
        asked.append(patience)
        return await plain(self, patience)

    monkeypatch.setattr(Reader, "_check_health", counted)
    monkeypatch.setattr(service_routes, "FRESH", 60.0)
    answers = await asyncio.gather(*(served.http.get("/health") for _ in range(20)))
    assert [each.status_code for each in answers] == [200] * 20
    assert len(asked) == 1


async def test_labels_are_read_once(served, monkeypatch, until):
    """However many list by labels, at once or later, each run's input is read once; the same id started anew is another run."""
    session, read = uuid.uuid4().hex[:8], list[str]()
    run_ids = [await served.start(f"hello {n}", session_id=session, labels={"n": str(n)}) for n in range(3)]
    plain = listing.labels_of_run

    async def counted(client, run_id):
        read.append(run_id)
        return await plain(client, run_id)

    monkeypatch.setattr(listing, "labels_of_run", counted)

    async def listed(n: int) -> list[str]:
        answer = await served.http.get("/v1/runs", params={"session_id": session, "label": f"n={n}"})
        return [run["run_id"] for run in answer.json()["runs"]]

    async def are_listed() -> bool:
        answer = await served.http.get("/v1/runs", params={"session_id": session})
        return len(answer.json()["runs"]) == 3

    await until(are_listed)
    found = await asyncio.gather(*(listed(n) for n in (0, 1, 2) * 4))
    assert found == [[run_id] for run_id in run_ids] * 4
    assert await listed(1) == [run_ids[1]]
    assert sorted(read) == sorted(run_ids)


async def test_the_inbox_compares_a_run_once_for_all_who_ask(served, monkeypatch, until):
    """Ten lists of waits at once, while a reading is under way, share the one of each waiting run that begins next."""
    session, read, asked = uuid.uuid4().hex[:8], list[str](), list[str]()
    for _ in range(2):
        await served.waiting("wipe", session_id=session)

    async def listed() -> int:
        answer = await served.http.get("/v1/waits", params={"session_id": session, "limit": 1})
        return len(answer.json()["waits"])

    async def both_are_listed() -> bool:
        answer = await served.http.get("/v1/waits", params={"session_id": session})
        return len(answer.json()["waits"]) == 2

    await until(both_are_listed)
    look, following = WaitReader._read, WaitReader._next

    async def counted(self, run_id, awaiting):
        read.append(run_id)
        await until(lambda: len(asked) == 20)
        return await look(self, run_id, awaiting)

    def noted(self, run_id, awaiting):
        asked.append(run_id)
        return following(self, run_id, awaiting)

    monkeypatch.setattr(WaitReader, "_read", counted)
    monkeypatch.setattr(WaitReader, "_next", noted)
    monkeypatch.setattr(served.web.state.service.reader.waits, "_gate", asyncio.Semaphore(1))
    assert await asyncio.gather(*(listed() for _ in range(10))) == [1] * 10
    assert len(read) <= 4


async def test_listening_ends_with_its_request(served, until):
    """A message by AG-UI leaves no subscription of live text behind once its answer is read, nor does one whose client leaves before."""
    thread = uuid.uuid4().hex[:8]
    for n in range(3):
        message = {"id": f"m-{n}", "role": "user", "content": "hello"}
        body = {"threadId": thread, "runId": f"r-{n}", "messages": [message]}
        assert (await served.post("/agui/shop.clerk", body)).status_code == 200
    await until(lambda: not [task for task in asyncio.all_tasks() if "early subscription" in task.get_name()])
    assert turn_request._listeners == {}


async def test_one_listens_for_all(served, until):
    """Requests that follow the same run share one subscription, which ends with the last of them."""
    run = served.client.get_run(f"r-{uuid.uuid4().hex[:8]}")
    ends = [asyncio.Event() for _ in range(3)]

    async def request(end: asyncio.Event) -> None:
        await turn_request.subscribe_early(served.client, run)
        await end.wait()

    requests = [asyncio.create_task(request(end)) for end in ends]
    await until(lambda: [each.requests for each in turn_request._listeners.values()] == [3])
    (listener,) = turn_request._listeners.values()
    ends[0].set()
    requests[1].cancel()
    await asyncio.gather(*requests[:2], return_exceptions=True)
    await until(lambda: listener.requests == 1)
    assert not listener.task.done()
    ends[2].set()
    await requests[2]
    await until(lambda: listener.task.done() and not turn_request._listeners)


@pytest.mark.parametrize("most", [1, 5_000])
async def test_a_batch_of_a_stream_is_bounded(served, monkeypatch, most):
    """A stream is written in batches of so many characters, one event at least; it has every event once."""
    monkeypatch.setattr(subscription, "BATCH_BYTES", most)
    run_id = await served.start("rounds 2")
    await served.output(run_id)
    whole = (await served.http.get(f"/v1/runs/{run_id}/events")).json()
    streamed = [frame.data for frame in await served.events(f"/v1/runs/{run_id}/events")]
    assert json.dumps(streamed) == json.dumps(whole)
