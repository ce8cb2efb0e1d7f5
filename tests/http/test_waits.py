"""The inbox: every open wait of every run and child run, with what is needed to answer it."""

import uuid
from collections import Counter
from datetime import datetime

import pytest
from structlog.testing import capture_logs
from temporalio.client import Client as TemporalClient
from temporalio.client import Interceptor, OutboundInterceptor

from sojourn import Client
from sojourn.asgi import create_app
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
async def inbox(served, until):
    """A question, a question with a form, an approval and an external call of one session, and what the inbox says of them."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    runs = {}
    for word in ("ask", "form", "wipe", "weigh"):
        runs[word], _ = await served.waiting(word, session_id=session)

    async def listed(**query) -> list[dict]:
        answer = await served.http.get("/v1/waits", params={"session_id": session, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()["waits"]

    async def all_are_listed() -> bool:
        return len(await listed()) == 4

    await until(all_are_listed)
    return session, runs, listed


async def test_an_inbox_has_what_an_answer_needs(inbox):
    """Each wait has its kind, since when it is open and the message that led to it; an approval the call and its digest, a question its form."""
    _, runs, listed = inbox
    waits = {each["run_id"]: each for each in await listed()}
    assert {word: waits[run_id]["kind"] for word, run_id in runs.items()} == {
        "ask": "question",
        "form": "question",
        "wipe": "approval",
        "weigh": "tool_results",
    }
    assert {waits[run_id]["context"]["asked"] for run_id in runs.values()} == set(runs)
    wipe, form, weigh = waits[runs["wipe"]], waits[runs["form"]], waits[runs["weigh"]]
    assert (wipe["tool"], wipe["title"], wipe["payload"]) == ("shop.tools.wipe", "Wipe a disk", {"disk": "a"})
    assert (len(wipe["digest"]), wipe["prompt"]) == (64, "Wipe disk a?")
    assert sorted(form["form"]["properties"]) == ["a", "b"]
    assert form["missing_fields"] == ["a", "b"]
    assert weigh["calls"][0]["payload"] == {"disk": "a"}


async def test_decisions_say_who_decided_what(served, until):
    """Each has the verdict, the sender, the reason and the wait in its one shape; by kind, and page by page of runs."""
    session = f"s-{uuid.uuid4().hex[:8]}"
    wiped, wipe = await served.waiting("wipe", session_id=session)
    body = {"await_id": wipe.id, "approved": False, "reason": "keep it"}
    assert (await served.post(f"/v1/runs/{wiped}/approvals", body)).status_code == 200
    asked, ask = await served.waiting("ask", session_id=session)
    body = {"await_id": ask.id, "answer": "this one"}
    assert (await served.post(f"/v1/runs/{asked}/answers", body)).status_code == 200

    async def listed(**query) -> dict:
        answer = await served.http.get("/v1/decisions", params={"session_id": session, **query})
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def both() -> bool:
        return len((await listed())["decisions"]) == 2

    await until(both)
    page = await listed()
    answered, denied = page["decisions"]  # the newest first
    assert (page["is_whole"], page["cursor"]) == (True, None)
    assert (denied["run_id"], denied["verdict"], denied["by"], denied["text"]) == (
        wiped,
        "denied",
        "local",
        "keep it",
    )
    assert (denied["wait"]["kind"], denied["wait"]["digest"]) == ("approval", wipe.payload_digest)
    assert (answered["verdict"], answered["text"]) == ("answered", "this one")
    assert [each["run_id"] for each in (await listed(kind="question"))["decisions"]] == [asked]
    first = await listed(limit=1)
    rest = await listed(limit=1, cursor=first["cursor"])
    assert {each["run_id"] for each in [*first["decisions"], *rest["decisions"]]} == {wiped, asked}


async def test_an_inbox_says_when_each_run_started(inbox, served):
    """The start is that of the run's status, and before the wait opened."""
    for wait in await inbox[2]():
        started = wait["context"]["started_at"]
        shown = (await served.http.get(f"/v1/runs/{wait['run_id']}")).json()["started_at"]
        assert started == shown
        assert datetime.fromisoformat(started) <= datetime.fromisoformat(wait["since"])


async def test_an_inbox_is_ordered_and_read_by_pages(inbox, served):
    """Newest or oldest first, each wait once over the pages; kinds and agents select."""
    _, runs, listed = inbox
    oldest = [each["run_id"] for each in await listed(order="oldest")]
    assert oldest == list(runs.values())
    assert [each["run_id"] for each in await listed()] == oldest[::-1]
    assert [each["run_id"] for each in await listed(kind="approval")] == [runs["wipe"]]
    assert await listed(agent_id="shop.helper") == []
    for order in ("oldest", "newest"):
        found, cursor = [], None
        while True:
            query = {"session_id": inbox[0], "order": order, "limit": 3} | (
                {"cursor": cursor} if cursor else {}
            )
            page = (await served.http.get("/v1/waits", params=query)).json()
            found += [each["run_id"] for each in page["waits"]]
            if not (cursor := page["cursor"]):
                break
        assert found == (oldest if order == "oldest" else oldest[::-1])


async def test_a_wait_that_is_answered_leaves_the_inbox_at_once(inbox, served):
    """The histories say what is open, and not the store, which lags."""
    _, runs, listed = inbox
    (wait,) = await listed(kind="approval")
    decision = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    assert (await served.post(f"/v1/runs/{runs['wipe']}/approvals", decision)).status_code == 200
    assert await listed(kind="approval") == []


async def test_the_inbox_says_what_the_turn_was_asked(served, until):
    """A message that is queued behind a question is not what led to it."""
    session_id = f"s-{uuid.uuid4().hex[:8]}"
    path = f"/v1/sessions/shop.clerk/{session_id}/messages"
    for text in ("ask", "and the other one?"):
        await served.post(path, {"text": text}, params={"wait": 50})

    async def wait() -> dict | None:
        waits = (await served.http.get("/v1/waits", params={"session_id": session_id})).json()["waits"]
        return waits[0] if waits else None

    assert (await until(wait))["context"]["asked"] == "ask"


async def test_a_child_run_is_in_the_inbox(served, until):
    """The wait of a child run is listed with the child's id, which takes the answer."""
    run_id = await served.start("below")

    async def below() -> dict | None:
        waits = (await served.http.get("/v1/waits", params={"agent_id": "shop.helper"})).json()["waits"]
        return next((each for each in waits if each["run_id"].startswith(f"{run_id}/")), None)

    wait = await until(below)
    answer = {"await_id": wait["await_id"], "answer": "this"}
    assert (await served.post(f"/v1/runs/{wait['run_id']}/answers", answer)).status_code == 200
    assert (await served.output(run_id))["output"]["text"] == "this"


class Calls(Interceptor):
    """Counts what a client asks of Temporal."""

    def __init__(self) -> None:
        self.count = Counter[str]()

    def intercept_client(self, next):
        outer = self

        class Counting(OutboundInterceptor):
            async def describe_workflow(self, input):
                outer.count["describe"] += 1
                return await super().describe_workflow(input)

            def fetch_workflow_history_events(self, input):
                outer.count["history"] += 1
                return super().fetch_workflow_history_events(input)

        return Counting(next)


@pytest.fixture
async def counted(served, shop):
    """A further process of the service, and what it asks of Temporal."""
    calls = Calls()
    temporal = TemporalClient(**{**served.client.temporal.config(), "interceptors": [calls]})
    web = create_app(shop.app, client=Client(temporal, task_queue=served.client.task_queue))
    async with listening(web) as url, http_client(base_url=url, timeout=60) as http:
        yield http, calls.count


async def test_pages_look_only_at_what_is_on_them(served, counted, until):
    """The first page looks at each waiting run once, the others at their own, and what is answered meanwhile is on none."""
    http, count = counted
    session = f"s-{uuid.uuid4().hex[:8]}"
    runs = {(await served.waiting("ask", session_id=session))[0] for _ in range(12)}
    asked = {"session_id": session, "limit": 3, "order": "oldest"}

    async def page(cursor: str | None = None) -> dict:
        return (await http.get("/v1/waits", params=asked | ({"cursor": cursor} if cursor else {}))).json()

    async def all_are_listed() -> bool:
        found = await http.get("/v1/waits", params={"session_id": session})
        return len(found.json()["waits"]) == 12

    await until(all_are_listed)
    count.clear()
    pages = [await page()]
    while cursor := pages[-1]["cursor"]:
        pages.append(await page(cursor))
    assert {each["run_id"] for found in pages for each in found["waits"]} == runs
    assert (len(pages), count) == (4, {"describe": 12 + 3 * 3})
    answered = pages[1]["waits"][0]
    answer = {"await_id": answered["await_id"], "answer": "this"}
    assert (await served.post(f"/v1/runs/{answered['run_id']}/answers", answer)).status_code == 200
    again = await page(pages[0]["cursor"])
    left = [each["run_id"] for found in pages[1:] for each in found["waits"]][1:4]
    assert [each["run_id"] for each in again["waits"]] == left


async def test_a_message_without_a_text_is_read_once(served, counted, until):
    """Of a run that was asked by an image, no earlier execution is looked for."""
    http, count = counted
    session = f"s-{uuid.uuid4().hex[:8]}"
    picture = {"type": "image", "media_type": "image/png", "data": "aGk="}
    path = f"/v1/sessions/shop.clerk/{session}/messages"
    await served.post(path, {"parts": [picture]}, params={"wait": 50})
    count.clear()

    async def wait() -> dict | None:
        waits = (await http.get("/v1/waits", params={"session_id": session})).json()["waits"]
        return waits[0] if waits else None

    assert (await until(wait))["context"]["asked"] == ""
    assert count["history"] == 1


async def test_several_calls_are_decided_each_by_itself(served):
    """A refused decision stops no other, each result says what came of its own, and the batch can be sent again."""
    runs = [await served.waiting("wipe") for _ in range(4)]
    decided = [
        {"run_id": run_id, "await_id": wait.id, "approved": True, "digest": wait.payload_digest}
        for run_id, wait in runs
    ]
    decided[1] |= {"approved": False, "reason": "not today"}
    decided[2]["digest"] = "0" * 64
    await served.client.get_run(runs[3][0]).deny(runs[3][1], by="bo")
    unknown = {"run_id": "no-such-run", "await_id": "confirm-x", "approved": True, "digest": "0" * 64}
    with capture_logs() as logged:
        answer = await served.post("/v1/waits/decisions", {"decisions": [*decided, unknown]})
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [each["run_id"] for each in results] == [*(run_id for run_id, _ in runs), "no-such-run"]
    assert [each["done"] for each in results] == ["approved", "denied", None, None, None]
    codes = [each["problem"] and each["problem"]["code"] for each in results]
    assert codes == [None, None, "stale_digest", "already_answered", "run_not_found"]
    assert "already denied by bo" in results[3]["problem"]["detail"]
    (line,) = (line for line in logged if line["event"] == "decision")
    assert [each["code"] for each in line["refused"]] == codes[2:]
    await served.output(runs[1][0])
    (denied,) = (await served.client.get_run(runs[1][0]).status()).calls
    assert (denied.state, "not today" in denied.error) == ("denied", True)
    again = (await served.post("/v1/waits/decisions", {"decisions": decided[:2]})).json()["results"]
    assert [(each["done"], each["already"]) for each in again] == [("approved", True), ("denied", True)]
    assert (await served.client.get_run(runs[2][0]).status()).awaits


async def test_a_batch_has_no_decision_twice_and_none_unseen(served):
    """Such a request is refused whole, before anything is sent."""
    run_id, wait = await served.waiting("wipe")
    one = {"run_id": run_id, "await_id": wait.id, "approved": True, "digest": wait.payload_digest}
    for decisions in (
        [one, one | {"approved": False}],
        [one, one | {"run_id": "r", "digest": None}],
        [],
        [one] * 101,
    ):
        answer = await served.post("/v1/waits/decisions", {"decisions": decisions})
        assert answer.status_code == 422, answer.text
    assert (await served.client.get_run(run_id).status()).awaits
