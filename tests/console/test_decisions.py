"""Decisions: who decided what, when and by which digest, on the page and as CSV."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from sojourn.console.routes.decisions import COLUMNS, DecisionRow, csv_of
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.network import http_client
from sojourn.reader import ListedRun
from sojourn.timeline import WaitEnd
from tests.console.office import office

__all__ = ["office"]


@pytest.fixture
async def decided(office, until):
    """A refund that ben denied with a formula as the reason, and a question that eva answered; known to the store."""
    money, wait = await office.asks("refund Ana")
    await money.deny(wait, '=HYPERLINK("http://x.invalid")', by="ben")
    words, question = await office.asks("which")
    await words.answer(question, "the second", by="eva")
    await money.result()
    await words.result()

    async def known():
        found = {
            run.run_id async for run in office.client.list_runs(agent_id="office.clerk", status="completed")
        }
        return {money.id, words.id} <= found

    await until(known)
    return money, wait, words


async def test_no_page_names_the_client_of_temporal(office, decided):
    """Neither the decisions, their CSV, the wait, the run nor its events: `pid@host` is for Temporal's own screens."""
    money, wait, _ = decided
    answered = [each async for each in money.events(follow=False) if each.type == "await_answered"]
    (identity,) = {each.identity for each in answered}
    assert identity
    pages = [f"/decisions{kind}?agent=office.clerk" for kind in ("", ".csv")]
    pages += [f"/inbox/{money.id}/{wait.id}", f"/runs/{money.id}"]
    pages += [f"/runs/{money.id}/events{query}" for query in ("", f"?at={answered[0].event_id}")]
    async with http_client() as http:
        for path in pages:
            shown = await http.get(f"{office.url}{path}")
            assert shown.status_code == 200, path
            assert "ben" in shown.text, path
            assert identity not in shown.text, path


@pytest.mark.parametrize(("size", "script"), [("phone", False), ("desk", True)])
async def test_a_decision_says_who_what_when_and_by_which_digest(office, decided, visit, size, script):
    """A row has the verdict, the person, the call, the reason and the digest, and leads to the wait with its arguments."""
    money, wait, _ = decided
    page = await visit(f"{office.url}/decisions?by=ben&agent=office.clerk", size=size, script=script)
    row = page.locator(".decision", has=page.locator(f"a[href*='{money.id}']"))
    for text in ("Denied", "ben", "Refund 12.5 EUR for order 7314?", "HYPERLINK", wait.payload_digest[:10]):
        await expect(row).to_contain_text(text)
    await expect(page.locator(".decision", has_text="eva")).to_have_count(0)
    await expect(page.locator(".reach")).to_contain_text("Finished runs are kept")
    await row.locator("a.title").click()
    await expect(page.locator("#fate")).to_contain_text("Denied by ben")
    await expect(page.locator("#open .arguments")).to_contain_text("12.5")
    await expect(page.locator("form.answer")).to_have_count(0)


async def test_a_page_says_from_where_on_its_order_is_not_whole(office, decided, visit, monkeypatch):
    """Where older runs are not read, what is older than the last run's end is below a line that says so; where all are read there is none."""
    money, _, words = decided
    listed = [run.run_id async for run in office.client.list_runs(agent_id="office.clerk")]
    monkeypatch.setattr(
        "sojourn.console.routes.decisions.RUNS", 1 + min(listed.index(money.id), listed.index(words.id))
    )
    page = await visit(f"{office.url}/decisions?agent=office.clerk", script=False)
    below = page.locator(".divide ~ .decision")
    await expect(page.locator(".divide")).to_contain_text("the list may be incomplete")
    assert await below.count() == await page.locator(".decision").count() > 0
    monkeypatch.setattr("sojourn.console.routes.decisions.RUNS", 1_000)
    await page.goto(f"{office.url}/decisions?agent=office.clerk")
    await expect(page.locator(".decision").first).to_be_visible()
    await expect(page.locator(".divide")).to_have_count(0)


async def test_decisions_are_a_table_that_runs_nothing(office, decided):
    """The CSV has every decision with its digest and arguments; what would be a formula begins with an apostrophe."""
    money, wait, words = decided
    async with http_client(base_url=office.url, timeout=60) as http:
        answer = await http.get("/decisions.csv?agent=office.clerk")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    rows = {row["run_id"]: row for row in csv.DictReader(io.StringIO(answer.text))}
    denied, answered = rows[money.id], rows[words.id]
    assert (denied["verdict"], denied["by"], denied["digest"]) == ("denied", "ben", wait.payload_digest)
    assert denied["text"] == '\'=HYPERLINK("http://x.invalid")'
    assert '"amount": 12.5' in denied["arguments"]
    assert (answered["verdict"], answered["by"], answered["text"]) == ("answered", "eva", "the second")


async def test_decisions_are_found_by_their_days(office, decided):
    """The page and the CSV have those of the days from one to another, both counted; what is no date is refused."""
    money, *_ = decided
    today = datetime.now(UTC).date()
    async with http_client(base_url=office.url, timeout=60) as http:
        for first, last, is_there in ((-1, 1, True), (1, 1, False), (-2, -2, False)):
            days = {
                name: str(today + timedelta(days=number))
                for name, number in (("since", first), ("until", last))
            } | {"agent": "office.clerk"}
            page = await http.get("/decisions", params=days)
            assert f'value="{days["until"]}"' in page.text
            assert (f"/inbox/{money.id}/" in page.text) is is_there
            assert (money.id in (await http.get("/decisions.csv", params=days)).text) is is_there
        for path in ("/decisions", "/decisions.csv"):
            assert (await http.get(path, params={"since": "yesterday"})).status_code == 422


@pytest.mark.parametrize(
    "begin",
    [
        *("=", "+", "-", "@", "\t=", "\r", "  =", "\n@"),
        *("\uff1d", "\uff0b", "\uff0d", "\uff20", "\u2212"),
        *("\u00a0=", "\u3000+", "\u200b=", "\ufeff@", "\v=", "\f-", "\u2066 \u00a0\ufe0f=", "\ue000="),
    ],
)
def test_no_cell_is_a_formula(begin):
    """Whatever a text begins with, a program for tables takes it for a text; and it stays in its cell."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    texts = {"by": f'{begin}cmd|"x",1', "text": f"{begin}1"}
    event = AwaitAnsweredEvent(
        event_id="0-000001-00000", run_id="x", turn_id="t1", time=at, await_id="x", **texts
    )
    run = ListedRun(
        run_id="x",
        agent_id="x",
        session_id="",
        status="completed",
        awaiting="",
        forked_from=None,
        started_at=at,
        closed_at=at,
    )
    made = DecisionRow.of(WaitEnd(event, None), run)
    (row,) = csv.DictReader(io.StringIO(csv_of([made], with_head=True), newline=""))
    assert list(row) == list(COLUMNS)
    assert row["by"] == f'\'{begin}cmd|"x",1'
    assert row["text"].startswith("'")
