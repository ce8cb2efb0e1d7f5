"""Visibility: with `App(visibility="subject")` a run exists only for its subject, who takes part in it, operators, and who decides on its calls."""

import copy
import uuid
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from sojourn import Principal
from sojourn.client.listing import Selection
from sojourn.contracts.principal import mark_of
from sojourn.errors import RunNotFound
from sojourn.http.security.tenancy import View, view_of
from tests.http.security.hostile.tenancy import TENANCY
from tests.http.security.hostile.world import Answer, Row, World, absent_of, world_of

ROWS = [row for row in TENANCY if not row.name.endswith(" without a tenant")]


@pytest.fixture(scope="module")
async def world(shop, temporal_address, tmp_path_factory):
    """The service of an app whose runs only their subjects see; nothing of bo's has changed in the end."""
    app = copy.copy(shop.app)
    app.visibility = "subject"
    async with world_of(app, temporal_address, tmp_path_factory.mktemp("keys"), ["user"]) as made:
        before = [await made.events_of(each) for each in made.victims]
        yield made
        assert [await made.events_of(each) for each in made.victims] == before


def of_colleague(world: World) -> World:
    """The world in which hostile requests are those of a colleague: a user of bo's own tenant."""
    return replace(world, keys={**world.keys, "ana": world.keys["col"]})


async def test_a_colleague_gets_what_another_tenant_gets(world: World, subtests: pytest.Subtests):
    """By every path and method a colleague's run does not exist: 404 and not 403, no word of it, and nothing happens to it.

    Nobody learns by an answer which runs, sessions and tasks colleagues have; a missing role is told of both alike.
    """
    there, absent = of_colleague(world), absent_of(of_colleague(world))
    assert sum(row.code == "run_not_found" for row in ROWS) > 30
    for number, row in enumerate(ROWS, 1):
        with subtests.test(f"{number:03} {row.name}"):
            answer = await row.send(there)
            _check(world, row, answer)
            if row.code == "run_not_found":
                other = await row.send(absent)
                assert (answer.status, there.unnamed(answer.text)) == (
                    other.status,
                    absent.unnamed(other.text),
                )
    assert await world.present_lengths() == world.lengths


def _check(world: World, row: Row, answer: Answer) -> None:
    assert answer.status < 500, answer.text
    if row.code == "run_not_found":
        assert (answer.status, answer.code) in (
            (row.status, row.code),
            (403, "forbidden"),
        ), answer.text[:1_000]
    for word in world.secrets:
        assert word not in answer.text
    if answer.status < 300 and not answer.code:
        assert not [each for each in world.victims if each in answer.text]


async def ids_of(world: World, path: str, who: str, key: str = "runs") -> set[str]:
    """The ids in a list."""
    answer = await world.send("GET", path, who=who)
    assert answer.status == 200, answer.text
    return {each["run_id"] for each in answer.value[key]}


async def test_lists_have_what_one_may_see(world: World, until):
    """Bo lists his own runs, a colleague and an approver none of them, and an operator all."""

    async def are_listed() -> bool:
        return set(world.victims) <= await ids_of(world, "/v1/runs?limit=1000", "bo")

    await until(are_listed)
    assert set(world.victims) <= await ids_of(world, "/v1/runs?limit=1000", "op")
    for who in ("col", "app"):
        assert not await ids_of(world, "/v1/runs?limit=1000", who)
        assert not await ids_of(world, "/v1/sessions", who, "sessions")
        for run_id in world.victims:
            assert (await world.send("GET", f"/v1/runs/{run_id}", who=who)).status == 404
    assert len(await ids_of(world, "/v1/sessions", "bo", "sessions")) == 2
    for who in ("bo", "op"):
        for run_id in world.victims:
            assert (await world.send("GET", f"/v1/runs/{run_id}", who=who)).status == 200
    service = world.web.state.service
    counts = {}
    for who, roles in (("bo", ["user"]), ("col", ["user"]), ("op", ["operator"])):
        asking = Principal(
            subject=f"{who}-{world.names['mark']}", tenant=f"globex-{world.names['mark']}", roles=roles
        )
        counts[who] = await service.count(asking, Selection())
        assert view_of(asking) == View(asking.tenant, "" if who == "op" else mark_of(asking))
    assert (counts["col"], counts["bo"] > 0) == (0, True)
    assert counts["op"] >= counts["bo"]


async def test_an_approver_sees_the_calls_that_wait_and_nothing_else_of_their_runs(world: World, until):
    """The wait has its arguments; its run, its transcript and its questions do not exist, and whoever decides on none counts none; once decided, the page of the decision is left."""

    async def calls() -> list:
        return (await world.send("GET", "/v1/waits", who="app")).value["waits"]

    run_id, wait = await world.waiting("wipe mine", who="bo")

    async def shown() -> list:
        return [each for each in await calls() if each["run_id"] == run_id] and await calls()

    found = await until(shown)
    assert {each["kind"] for each in found} == {"approval"}
    (call,) = [each for each in found if each["run_id"] == run_id]
    assert call["payload"] == {"disk": "a"}
    counts = {}
    for role in ("approver", "auditor"):
        mark = world.names["mark"]
        asking = Principal(subject=f"eve-{mark}", tenant=f"globex-{mark}", roles=["viewer", role])
        counts[role] = await world.web.state.service.count_waiting(asking, Selection())
    assert (counts["approver"] > 0, counts["auditor"]) == (True, 0)
    questions = (await world.send("GET", "/v1/waits", who="bo")).value["waits"]
    assert {"question", "tool_results"} <= {each["kind"] for each in questions}
    for path in ("", "/transcript", "/events", "/output"):
        assert (await world.send("GET", f"/v1/runs/{run_id}{path}", who="app")).status == 404
    page = f"/inbox/{run_id}/{wait['await_id']}"
    assert (await world.send("GET", page, who="app")).status == 200
    other = f"/inbox/{world.names['asking']}/{world.names['question']}"
    assert (await world.send("GET", other, who="app")).status == 404
    decision = {"await_id": wait["await_id"], "approved": True, "digest": wait["digest"]}
    path = f"/v1/runs/{run_id}/approvals"
    assert (await world.send("POST", path, decision, who="col")).status == 404
    assert (await world.send("POST", path, decision, who="app")).status == 200
    assert (await world.client.get_run(run_id).result()).text
    events = await world.events_of(run_id)
    assert [each.by for each in events if each.type == "await_answered"] == [f"app-{world.names['mark']}"]
    assert (await world.send("GET", page, who="app")).status == 200
    assert (await world.send("GET", f"/v1/runs/{run_id}", who="app")).status == 404
    question = {"await_id": world.names["question"], "approved": True, "digest": "x"}
    asking = f"/v1/runs/{world.names['asking']}/approvals"
    assert (await world.send("POST", asking, question, who="app")).status == 404


async def test_who_could_have_decided_is_told_who_did(world: World, until):
    """A second approver who comes too late gets 409, or 200 for the same decision with who made it, also in the audit, and the page of the decision, whoever could not decide 404; each lists the decisions that it may see, and no others."""
    mark, path = world.names["mark"], "/v1/runs/{}/approvals"
    run_id, wait = await world.waiting("wipe mine", who="bo")
    decision = {"await_id": wait["await_id"], "approved": False, "digest": wait["digest"]}
    assert (await world.send("POST", path.format(run_id), decision, who="app")).status == 200
    await world.ended(run_id)
    too_late = await world.send("POST", path.format(run_id), {**decision, "approved": True}, who="late")
    assert (too_late.status, too_late.code) == (409, "already_answered"), too_late.text
    with capture_logs() as caught:
        again = await world.send("POST", path.format(run_id), decision, who="late")
    assert (again.status, again.value["already"], again.value["by"]) == (200, True, f"app-{mark}")
    (line,) = (each for each in caught if each["event"] == "decision")
    assert (line["subject"], line["already"], line["answered_by"]) == (f"late-{mark}", True, f"app-{mark}")
    refused = await world.send("POST", path.format(run_id), decision, who="col")
    assert (refused.status, refused.code) == (404, "run_not_found")
    page = f"/inbox/{run_id}/{wait['await_id']}"
    for who, status in (("app", 200), ("late", 200), ("bo", 200), ("op", 200), ("col", 404)):
        shown = await world.send("GET", page, who=who)
        assert (shown.status, f"app-{mark}" in shown.text) == (status, status == 200), who

    async def lists(who: str) -> bool:
        pages = [await world.send("GET", f"/decisions{kind}", who=who) for kind in ("", ".csv")]
        assert [each.status for each in pages] == [200, 200]
        assert len({run_id in each.text for each in pages}) == 1
        return run_id in pages[0].text

    asked, question = await world.waiting("ask", who="bo")
    answer = {"await_id": question["await_id"], "answer": "the one of bo"}
    assert (await world.send("POST", f"/v1/runs/{asked}/answers", answer, who="bo")).status == 200
    await world.ended(asked)
    await until(lambda: lists("op"))
    for who, listed in (("app", True), ("late", True), ("bo", True), ("col", False)):
        assert await lists(who) == listed, who

    async def answers_of(who: str) -> bool:
        return asked in (await world.send("GET", "/decisions.csv", who=who)).text

    await until(lambda: answers_of("op"))
    assert [await answers_of(who) for who in ("bo", "app", "late")] == [True, False, False]
    table = (await world.send("GET", "/decisions.csv", who="late")).text
    assert not [each for each in ("asking", "outside", "ended") if world.names[each] in table]
    counted = (await world.send("GET", "/decisions", who="col")).text
    assert "Nobody has decided" not in counted
    assert "Showing decisions from" not in counted


async def test_a_child_run_is_seen_as_its_parent_is(world: World, until):
    """The child run of bo's run has its marks, and is bo's alone."""
    run_id = await world.start("below", who="bo")

    async def begun() -> list[str]:
        events = await world.events_of(run_id)
        return [each.run_link.run_id for each in events if each.type == "agent_run_started"]

    (below,) = await until(begun)
    for who, status in (("bo", 200), ("op", 200), ("col", 404), ("app", 404)):
        assert (await world.send("GET", f"/v1/runs/{below}", who=who)).status == status


async def test_a_run_of_a_program_is_its_subjects_from_its_first_plan_on(world: World, until):
    """A program that says nothing of visibility starts a run that bo lists and no colleague does; a run for nobody is an operator's."""
    bo = Principal(subject=f"bo-{world.names['mark']}", tenant=f"globex-{world.names['mark']}")
    nobody = Principal(subject="nobody", tenant=bo.tenant)
    for principal, who in ((bo, "bo"), (nobody, "")):
        run = await world.client.start("shop.clerk", "hello", principal=principal)
        await run.result()
        seen = [
            each
            for each in ("bo", "col", "app", "op")
            if (await world.send("GET", f"/v1/runs/{run.id}", who=each)).status == 200
        ]
        assert seen == ([who, "op"] if who else ["op"])

        async def is_listed(run_id=run.id, who=who) -> bool:
            return run_id in await ids_of(world, "/v1/runs?limit=1000", who or "op")

        await until(is_listed)
        assert run.id not in await ids_of(world, "/v1/runs?limit=1000", "col")


async def test_who_takes_part_in_a_conversation_sees_it(world: World, until):
    """A program lets a colleague take part in bo's conversation, who sees it from then on, and lists it."""
    bo, col = (
        Principal(
            subject=f"{who}-{world.names['mark']}", tenant=f"globex-{world.names['mark']}", roles=["user"]
        )
        for who in ("bo", "col")
    )
    session_id = f"both-{uuid.uuid4().hex[:8]}"
    talk = world.client.session("shop.clerk", session_id, principal=bo)
    await (await talk.send("hello")).result()
    path = f"/v1/sessions/shop.clerk/{session_id}"
    assert (await world.send("GET", path, who="col")).status == 404
    refused = await world.send("POST", f"{path}/messages", {"text": "hello"}, who="col")
    assert (refused.status, refused.code) == (404, "run_not_found")
    with pytest.raises(RunNotFound):
        await world.client.session("shop.clerk", session_id, principal=col).send("hello")
    admitted = world.client.session("shop.clerk", session_id, principal=col, admit=True)
    await (await admitted.send("hello")).result()
    assert (await world.send("GET", path, who="col")).status == 200
    assert (await world.send("POST", f"{path}/messages?wait=20", {"text": "hello"}, who="col")).status == 201

    async def is_listed() -> bool:
        return talk.run.id in await ids_of(world, "/v1/sessions", "col", "sessions")

    await until(is_listed)
    assert talk.run.id in await ids_of(world, "/v1/sessions", "bo", "sessions")
