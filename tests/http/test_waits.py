"""The inbox: every open wait of every run and child run, with what is needed to answer it."""

import uuid

import pytest


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
