"""Streams of events: resumed at any process without loss or repetition, by one follower a run."""

import asyncio
import contextlib
import random
import socket
from collections import defaultdict

import httpx2
import pytest

from sojourn.asgi import create_app
from sojourn.console import live
from sojourn.contracts.ids import place_of
from sojourn.events import Cursor
from sojourn.http import event_streams
from sojourn.http.metrics import Metrics
from sojourn.http.problems import redact
from sojourn.http.protocols import reply
from sojourn.http.protocols.a2a import endpoint as a2a_endpoint
from sojourn.http.protocols.mcp import endpoint
from sojourn.live.transport import topic_of
from sojourn.network import http_client
from sojourn.reader import Feeds, SlowSubscriber
from tests.http.conftest import Frame, Shop, listening
from workflows import history_budget

LIVE_ONLY = {
    "tool_retry",
    "tool_update",
    "text_delta",
    "thinking_delta",
    "tool_call_delta",
    "stream_restarted",
}


def recorded(frames: list[Frame]) -> dict[str, list[str]]:
    """By run, the ids of the recorded events of a stream, in its order."""
    found = defaultdict(list)
    for frame in frames:
        if frame.data["type"] not in LIVE_ONLY:
            assert frame.id
            found[frame.data["run_id"]].append(frame.data["event_id"])
    return dict(found)


async def history_of(served: Shop, run_id: str) -> dict[str, list[str]]:
    """By run, the ids of the events in the histories of a run and its child runs."""
    found = defaultdict(list)
    async for event in served.client.get_run(run_id).events(follow=False, children=True):
        found[event.run_id].append(event.event_id)
    return dict(found)


async def test_a_stream_is_the_history(served):
    """A stream has every event of the run and its child runs, in order, each with a cursor, and ends with the run."""
    run_id = await served.start("tree 2")
    frames = await served.events(f"/v1/runs/{run_id}/events", children="true")
    assert recorded(frames) == await history_of(served, run_id)
    assert frames[-1].data["type"] == "run_stream_end"
    own = await served.events(f"/v1/runs/{run_id}/events")
    assert {frame.data["run_id"] for frame in own} == {run_id}
    assert await served.events(f"/v1/runs/{run_id}/events", after=frames[-1].id) == []


async def test_a_stream_that_is_cut_anywhere_loses_and_doubles_nothing(serve, served, shop):
    """Cut at random events and taken up at one of two processes, while the run goes on: together the parts are the history."""
    dice = random.Random(17)
    async with (
        listening(create_app(shop.app, client=served.client)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):
        other = Shop(None, url, http, served.client, served.status_when)

        async def one(text: str) -> int:
            run_id, after, cuts = await served.start(text), "", 0
            found = list[Frame]()
            while (
                not found or found[-1].data["type"] != "run_stream_end" or found[-1].data["run_id"] != run_id
            ):
                at = dice.choice([served, other])
                path = f"/v1/runs/{run_id}/events"
                part = await at.events(path, after=after, children="true", most=dice.randint(1, 9))
                assert part, "a run that has not ended has further events"
                found += part
                after, cuts = next((f.id for f in reversed(part) if f.id), after), cuts + 1
            assert recorded(found) == await history_of(served, run_id)
            return cuts

        cuts = await asyncio.gather(*(one(text) for text in ("tree 2", "rounds 6", "tree 1")))
        assert sum(cuts) > 20


def reading(run_id: str) -> int:
    """How often this process reads the events of a run."""
    return sum(task.get_name() == f"events of {run_id}" for task in asyncio.all_tasks())


async def test_one_follower_serves_all_subscribers(served, until):
    """Fifty subscribers of one run have one follower; each gets every event, and late ones those before too."""
    run_id, wait = await served.waiting("ask")
    path = f"/v1/runs/{run_id}/events"
    feeds = served.web.state.service.feeds
    early = [asyncio.create_task(served.events(path)) for _ in range(25)]
    await until(lambda: sum(feeds._subscribers.values()) == 25)
    late = [asyncio.create_task(served.events(path)) for _ in range(25)]
    await until(lambda: sum(feeds._subscribers.values()) == 50)
    metrics = (await served.http.get("/metrics")).text
    assert "sojourn_http_streams 50\n" in metrics
    assert "sojourn_http_followed_runs 1\n" in metrics
    assert len(feeds._feeds) == 1
    await until(lambda: reading(run_id))
    assert reading(run_id) == 1
    await served.post(f"/v1/runs/{run_id}/answers", {"await_id": wait.id, "answer": "this"})
    every = await asyncio.gather(*early, *late)  # to the end of the run
    whole = await history_of(served, run_id)
    assert [recorded(frames) for frames in every] == [whole] * 50


async def test_an_array_is_read_by_parts(served):
    """Arrays of at most `limit` events, each from the cursor of the one before: together they are the history."""
    run_id = await served.start("tree 2")
    await served.output(run_id)
    url, found = f"/v1/runs/{run_id}/events?children=true&limit=5", []
    while True:
        answer = await served.http.get(url)
        if not (part := answer.json()):
            break
        assert len(part) <= 5
        found += part
        url = answer.headers["link"].partition(">")[0].lstrip("<")
        assert httpx2.URL(url).params["after"] == answer.headers["sojourn-cursor"]
    by_run = defaultdict(list)
    for event in found:
        by_run[event["run_id"]].append(event["event_id"])
    assert by_run == await history_of(served, run_id)


async def test_an_event_id_is_a_place_too(served):
    """After an event_id come the later events of the run, and all those of child runs whose call had not ended."""
    run_id = await served.start("tree 2")
    whole = await served.events(f"/v1/runs/{run_id}/events", children="true")
    started = [frame for frame in whole if frame.data["type"] == "agent_run_started"]
    after = started[-1].data["event_id"]
    frames = await served.events(f"/v1/runs/{run_id}/events", children="true", after=after)
    history = await history_of(served, run_id)
    own = history.pop(run_id)
    assert recorded(frames) == {run_id: own[own.index(after) + 1 :], **history}


def test_every_stream_has_a_comment_before_a_proxy_closes_it():
    """All faces take one constant, well below the 15 s of common proxies; a page looks twice in that time."""
    faces = (event_streams, live, endpoint, a2a_endpoint, reply)
    assert {face.HEARTBEAT for face in faces} == {10.0}
    assert live.SLOW == event_streams.HEARTBEAT / 2


async def test_silence_is_filled_with_comments(served, monkeypatch):
    """While nothing happens a comment is sent each interval."""
    monkeypatch.setattr(event_streams, "HEARTBEAT", 0.1)
    run_id, _ = await served.waiting("ask")
    comments = 0
    async with served.stream(f"/v1/runs/{run_id}/events") as stream:
        async for frame in stream:
            comments += frame.comment == "heartbeat"
            if comments == 3:
                break


async def test_a_process_that_stops_ends_its_streams_so_that_they_resume(served, shop):
    """A stream ends with a problem, and another process goes on after its last id."""
    run_id, wait = await served.waiting("ask")
    found, ended = list[Frame](), None
    web = create_app(shop.app, client=served.client)
    async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
        other = Shop(web, url, http, served.client, served.status_when)
        async with other.stream(f"/v1/runs/{run_id}/events") as stream:
            async for frame in stream:
                if frame.name:
                    ended = frame
                elif frame.data:
                    found.append(frame)
                    if frame.data["type"] == "await_clarification":
                        await web.state.service.close()
    assert ended
    assert (ended.name, ended.data["code"]) == ("problem", "service_stops")
    await served.post(f"/v1/runs/{run_id}/answers", {"await_id": wait.id, "answer": "this"})
    found += await served.events(f"/v1/runs/{run_id}/events", after=found[-1].id)
    assert recorded(found) == await history_of(served, run_id)


# Slow subscribers, and feeds that keep little.


async def read(subscription, most: int = 100_000) -> list:
    """Deliveries to the end of the run, or the first `most`."""
    found = []
    async with contextlib.aclosing(subscription.batches(15)) as batches:
        async for batch in batches:
            found += batch
            if len(found) >= most:
                break
    return found


@pytest.fixture
async def small_feeds(served):
    """Feeds that keep ten events of a run."""
    feeds = Feeds(served.client, Metrics(), redact, max_events=10, linger=0.1)
    yield feeds
    await feeds.close()


async def test_a_late_subscriber_reads_what_is_no_longer_kept(served, small_feeds):
    """Whatever the follower has forgotten comes from the history, and what follows from the follower, each once."""
    run_id = await served.start("tree 2")
    await served.output(run_id)
    with small_feeds.subscribe(run_id, Cursor(run_id), children=True) as first:
        whole = await read(first)
        for after in ("", *(delivery.cursor for delivery in whole[::7] if delivery.cursor)):
            with small_feeds.subscribe(run_id, Cursor(run_id, after), children=True) as late:
                rest = await read(late)
            have = [d.event.event_id for d in whole if d.cursor]
            begin = [d.cursor for d in whole].index(after) + 1 if after else 0
            seen = {(d.event.run_id, d.event.event_id) for d in whole[:begin] if d.cursor}
            got = [(d.event.run_id, d.event.event_id) for d in rest if d.cursor]
            assert len(got) == len(set(got)) == len(have) - len(seen)
            assert not seen & set(got)


async def test_a_follower_begins_where_its_first_subscriber_is(served, monkeypatch):
    """Of a run of many executions only the present one is read for who has read the others; who has not misses nothing all the same."""
    monkeypatch.setattr(history_budget, "CONTINUE_EVENTS", 60)
    run_id = await served.start("rounds 30")
    await served.output(run_id)
    whole = (await history_of(served, run_id))[run_id]
    feeds = Feeds(served.client, Metrics(), redact)
    with feeds.subscribe(run_id, Cursor(run_id, whole[-4])) as first:
        assert [d.event.event_id for d in await read(first) if d.cursor] == whole[-3:]
        kept = feeds._feeds[run_id].since(0, 1)
        assert kept[0].place[0] == place_of(whole[-1])[0] >= 2
        for begin in (0, len(whole) // 2, len(whole) - 2):
            after = whole[begin - 1] if begin else ""
            with feeds.subscribe(run_id, Cursor(run_id, after)) as late:
                assert [d.event.event_id for d in await read(late) if d.cursor] == whole[begin:]
    await feeds.close()


async def test_a_subscriber_that_is_too_slow_is_dropped_and_resumes(served):
    """One that needs what is no longer kept, again and again, is dropped with its cursor, after which it misses nothing; others get all."""
    feeds = Feeds(served.client, Metrics(), redact, readings=0)
    run_id, wait = await served.waiting("ask")
    with feeds.subscribe(run_id, Cursor(run_id)) as slow, feeds.subscribe(run_id, Cursor(run_id)) as quick:
        batches, found = slow.batches(0.05), []
        before = (await history_of(served, run_id))[run_id]
        while [d.event.event_id for d in found if d.cursor] != before:
            found += await anext(batches)
        reading = asyncio.create_task(read(quick))
        answer = {"await_id": wait.id, "answer": "this"}
        assert (await served.post(f"/v1/runs/{run_id}/answers", answer)).status_code == 200
        whole = await reading
        feed = feeds._feeds[run_id]
        while feed.first <= len(found):
            feed.drop_first()
        with pytest.raises(SlowSubscriber) as dropped:
            await anext(batches)
    assert dropped.value.after == found[-1].cursor
    await feeds.close()
    other = Feeds(served.client, Metrics(), redact)
    with other.subscribe(run_id, Cursor(run_id, found[-1].cursor)) as again:
        found += await read(again)
    await other.close()
    history = (await history_of(served, run_id))[run_id]
    assert [d.event.event_id for d in found if d.cursor] == history
    assert [d.event.event_id for d in whole if d.cursor] == history


async def test_a_client_that_reads_nothing_harms_none(served, shop, monkeypatch):
    """A connection that takes nothing is given up after a while, and others get every event meanwhile."""
    monkeypatch.setattr(event_streams, "STALL", 0.5)
    run_id = await served.start("rounds 60")
    path = f"/v1/runs/{run_id}/events"
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    web = create_app(shop.app, client=served.client)
    metrics = web.state.service.metrics
    with contextlib.ExitStack() as closing:
        async with listening(web, buffer=1) as url, http_client(base_url=url, timeout=60) as http:
            for _ in range(3):
                deaf = closing.enter_context(socket.socket())
                deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
                deaf.setblocking(False)
                await loop.sock_connect(deaf, ("127.0.0.1", httpx2.URL(url).port))
                await loop.sock_sendall(deaf, request)
            reading = Shop(web, url, http, served.client, served.status_when)
            frames = await reading.events(path)
            assert recorded(frames) == await history_of(served, run_id)
            async with asyncio.timeout(30):
                while metrics.dropped < 3 or metrics.streams:
                    await asyncio.sleep(0.05)


async def test_all_that_is_kept_is_bounded(served):
    """Where many runs are followed, the largest gives up its oldest events first."""
    metrics = Metrics()
    feeds = Feeds(served.client, metrics, redact, max_total=20_000)
    run_ids = [await served.start("rounds 6") for _ in range(4)]
    for run_id in run_ids:
        await served.output(run_id)
    with contextlib.ExitStack() as stack:
        subscriptions = [stack.enter_context(feeds.subscribe(run_id, Cursor(run_id))) for run_id in run_ids]
        found = await asyncio.gather(*(read(subscription) for subscription in subscriptions))
        assert 0 < metrics.kept_bytes <= 20_000
        assert metrics.followers == 4
    for run_id, deliveries in zip(run_ids, found, strict=True):
        ids = [d.event.event_id for d in deliveries if d.cursor]
        assert ids == (await history_of(served, run_id))[run_id]
    await feeds.close()
    assert metrics.kept_bytes == 0


# Deltas.


async def until_text(stream) -> list[dict]:
    """The events of a stream up to the first piece of text."""
    found = []
    async for frame in stream:
        if frame.data:
            found.append(frame.data)
            if frame.data["type"] == "text_delta":
                return found
    raise AssertionError("the stream has no text")


async def test_deltas_come_while_a_planner_writes(served, shop, until):
    """Who asks for deltas gets them; who comes late, or comes back, gets the present draft from its beginning."""
    shop.gate.clear()
    session = f"/v1/sessions/shop.clerk/talk-{random.getrandbits(32):x}"
    hello = (await served.post(f"{session}/messages", {"text": "hello"}, params={"wait": 30})).json()
    topic = topic_of(served.client.temporal.namespace, hello["run_id"])
    path = f"{session}/events"
    async with served.stream(path, deltas="true") as first:
        await until(lambda: served.client.live.is_wanted(topic))
        await served.post(f"{session}/messages", {"text": "talk"})
        begun = await until_text(first)
        assert begun[-1]["text"] == "The site is "
        async with served.stream(path, deltas="true") as late:
            assert (await until_text(late))[-1]["text"] == "The site is "
        plan = next(event for event in reversed(begun) if event["type"] == "plan_started")
        async with served.stream(path, deltas="true", after=f"{plan['event_id']};") as resumed:
            again = await until_text(resumed)
            assert [event["type"] for event in again] == ["stream_restarted", "text_delta"]
        shop.gate.set()
        rest = []
        async for frame in first:
            rest += [frame.data] if frame.data else []
            if rest and rest[-1]["type"] == "turn_completed":
                break
    assert [event["text"] for event in rest if event["type"] == "text_delta"] == ["dark."]
    await served.post(f"{session}/close")
    plain = await served.events(path)
    assert not {frame.data["type"] for frame in plain} & LIVE_ONLY
