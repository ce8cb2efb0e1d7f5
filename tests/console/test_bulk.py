"""Many runs at once: cancelled or retried after a page that names them, step by step, each once."""

import uuid
from contextlib import AsyncExitStack

import pytest
from playwright.async_api import expect

from sojourn import Principal
from sojourn.asgi import create_app
from sojourn.console.routes import bulk
from sojourn.contracts.principal import ROLES
from sojourn.errors import MissingRole
from sojourn.http.bulk import act_on_runs
from sojourn.network import http_client
from tests.console import desk_app
from tests.console.axe import violations_for_all
from tests.http.conftest import listening


@pytest.fixture
def session() -> str:
    """A session that only the runs of this test have."""
    return f"s-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def listed(desk, until, session):
    """Wait until the store has so many runs of the session in each status."""

    async def wait(**wanted: int) -> None:
        async def are_listed() -> bool:
            found = [run.status async for run in desk.client.list_runs(session_id=session)]
            return all(found.count(status) == count for status, count in wanted.items())

        await until(are_listed)

    return wait


@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_chosen_runs_are_retried_once(desk, visit, listed, session, size, script):
    """The page names how many; each continues in a new run, the form sent again makes no second one, and what was not chosen stays."""
    failed = [await desk.ended("Break at once", session_id=session) for _ in range(3)]
    done = await desk.ended("Echo hello", session_id=session)
    await listed(failed=3, completed=1)
    page = await visit(f"{desk.url}/runs?session={session}", size=size, script=script)
    await expect(page.locator(".pick").first).to_be_hidden()
    await page.locator("#bulk-fold > summary").click()
    for run in (*failed[:2], done):
        await page.locator(f"[id='run-{run.id}'] input[name=run]").check()
    await page.get_by_role("button", name="Retry chosen…").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Retry 2 runs?")
    await expect(page.locator("main")).to_contain_text("1 of the chosen runs is left as it is")
    sent = {
        name: await page.locator(f"input[name={name}]").get_attribute("value")
        for name in ("do", "run", "filter-session")
    }
    await page.get_by_role("button", name="Retry 2 runs").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("2 of 2 retried")
    async with http_client(base_url=desk.url, timeout=60) as http:
        again = await http.post("/bulk/act", data=sent, headers={"Origin": desk.url})
    assert "2 of 2 retried" in again.text
    await listed(failed=5, completed=1)
    forks = [run async for run in desk.client.list_runs(session_id=session, status="failed")]
    origins = [run.forked_from.run_id for run in forks if run.forked_from]
    assert sorted(origins) == sorted(run.id for run in failed[:2])
    async with http_client(base_url=desk.url, timeout=60) as http:
        later = await http.post("/bulk/act", data=sent, headers={"Origin": desk.url})
    assert later.text.count("forked before") == 2
    assert "2 of them had been retried before." in later.text
    await page.get_by_role("link", name="Back to the runs").click()
    await expect(page).to_have_url(f"{desk.url}/runs?session={session}")


@pytest.mark.parametrize("script", [True, False])
async def test_all_that_match_are_cancelled_step_by_step(desk, visit, listed, session, monkeypatch, script):
    """Only open runs of the filters count; the steps follow by themselves, or by a button; who did it and why is recorded."""
    monkeypatch.setattr(bulk, "STEP", 2)
    waiting = [await desk.waiting("Which meter is wrong?", session_id=session) for _ in range(5)]
    await desk.ended("Echo hello", session_id=session)
    await listed(waiting=5, completed=1)
    page = await visit(f"{desk.url}/runs?session={session}", script=script)
    await page.locator("#bulk-fold > summary").click()
    await page.get_by_role("button", name="Cancel all that match…").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 5 runs?")
    await expect(page.locator(".bulk-runs li")).to_have_count(5)
    if script:
        assert await violations_for_all(page) == []
    await page.get_by_label("Reason").fill("the meters are back")
    await page.get_by_role("button", name="Cancel 5 runs").click()
    if not script:
        await expect(page.get_by_role("heading", level=1)).to_have_text("2 of 5 canceled")
        await page.get_by_role("button", name="Continue with the other 3").click()
        await page.get_by_role("button", name="Continue with the other 1").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("5 of 5 canceled")
    for run in waiting:
        status = await desk.status_when(run, lambda status: status.closed_at)
        assert status.status == "canceled"
        assert "the meters are back (by local)" in status.failure


async def test_an_id_with_a_space_is_one_run(desk, visit, until):
    """The id of a conversation has its session's id, which may have any sign."""
    name = f"night {uuid.uuid4().hex[:8]}"
    session = desk.client.session("ops.assistant", name)
    await (await session.send("Echo hello")).result()

    async def is_listed() -> bool:
        return [run.status async for run in desk.client.list_runs(session_id=name)] == ["idle"]

    await until(is_listed)
    page = await visit(f"{desk.url}/runs?session={name}", script=False)
    await page.locator("#bulk-fold > summary").click()
    await page.locator("input[name=run]").check()
    await page.get_by_role("button", name="Cancel chosen…").click()
    await page.get_by_role("button", name="Cancel 1 run").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("1 of 1 canceled")


async def test_more_than_the_most_are_not_taken_at_once(desk, visit, listed, session, monkeypatch):
    """The page says that more match, and names only those that the action takes."""
    monkeypatch.setattr(bulk, "MAX_BULK", 2)
    for _ in range(3):
        await desk.ended("Break at once", session_id=session)
    await listed(failed=3)
    page = await visit(f"{desk.url}/runs?session={session}&status=failed")
    await page.locator("#bulk-fold > summary").click()
    await page.locator("[data-all]").check()
    await expect(page.locator("input[name=run]:checked")).to_have_count(3)
    await page.get_by_role("button", name="Retry all that match…").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Retry 2 runs?")
    await expect(page.locator("main")).to_contain_text("More runs match; one action takes at most 2.")
    await page.go_back()
    await page.locator("#bulk-fold").evaluate("fold => { fold.open = true }")
    await page.locator("[data-all]").check()
    await page.get_by_role("button", name="Retry chosen…").click()
    await expect(page.locator("main")).to_contain_text("choose at most 2 runs")


async def test_only_an_operator_acts_and_only_on_runs_that_it_sees(desk, session, visit):
    """Another role has no boxes and is refused, by the page and behind it; a run of another tenant is as one that does not exist."""
    run = await desk.waiting("Which meter is wrong?", session_id=session)
    viewer = Principal(subject="vera", roles=["viewer", "user", "approver"])
    other = Principal(subject="otto", tenant="other", roles=list(ROLES))
    form = {"do": "cancel", "run": run.id}
    async with AsyncExitStack() as stack:
        for principal, status in ((viewer, 403), (other, 200)):

            async def who(_, principal=principal) -> Principal:
                return principal

            web = create_app(desk_app.app, client=desk.client, auth=who)
            url = await stack.enter_async_context(listening(web))
            http = await stack.enter_async_context(http_client(base_url=url, timeout=60))
            for path in ("/bulk", "/bulk/act"):
                answer = await http.post(path, data=form, headers={"Origin": url})
                assert answer.status_code == status, answer.text
            if principal is viewer:
                page = await visit(f"{url}/runs?session={session}")
                await expect(page.locator("#bulk")).to_have_count(0)
                await page.close()
                with pytest.raises(MissingRole):
                    await act_on_runs(web.state.service, viewer, "cancel", [run.id])
            else:
                assert "0 of 1 canceled" in answer.text
    assert (await run.status()).is_open
