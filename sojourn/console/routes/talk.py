"""Conversations at `/talk`, and the form that starts one."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.client.session import Session
from sojourn.console.form import Form, form_with_files, labels_in, message_in, most_bytes
from sojourn.console.live import Live, part
from sojourn.console.page import Filters, Pages, Visit, talk_place
from sojourn.console.views.runs import waits_line
from sojourn.console.views.text import WORDS, word_of
from sojourn.console.watched import News
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunStatus
from sojourn.errors import SojournError
from sojourn.http.answering import MESSAGE_EDITED, require_same
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import ListedRun, Preview
from sojourn.values.visible import one_line

__all__ = ["message_id_for", "pages", "say"]

pages = Pages()


INTERVAL = 2.0
"""Seconds between two reads of the list."""

SEARCH_INTERVAL = 8.0
"""The same for a search, which reads four times as much."""

MOST = 50
"""Conversations of a page."""

SEARCHED = 200
"""Number of conversations that one page of a search reads."""

FRESH = 1.0
"""Seconds for which a page is cached for visitors who see the same."""

_STATUSES = {name: word for name, word in WORDS.items() if name != "stuck"}


@dataclass(frozen=True, slots=True)
class SessionRow:
    run_id: str
    agent_id: str
    session_id: str
    status: str
    word: str
    last: str
    """The last message, on one line."""
    is_agent: bool
    """Whether the agent wrote it."""
    asks: str
    """The first open wait, on one line. Empty if it waits for no one."""
    failure: str
    """Why its last turn failed or gave up, on one line."""
    started_at: datetime | None
    active_at: datetime | None
    """Time of the last event."""

    @classmethod
    def of(cls, run: ListedRun, preview: Preview | None, asks: str = "") -> "SessionRow":
        known = preview or Preview()
        return cls(
            run.run_id,
            run.agent_id,
            run.session_id,
            run.status,
            word_of(run.status),
            one_line(known.text),
            known.is_agent,
            asks,
            one_line(str(known.error)) if known.error and run.status != "running" else "",
            run.started_at,
            run.closed_at or known.at or run.started_at,
        )

    def has(self, text: str) -> bool:
        wanted = text.casefold()
        return wanted in self.last.casefold() or wanted in self.session_id.casefold()


@dataclass(frozen=True, slots=True)
class TalkFilters(Filters):
    q: str = ""
    session: str = ""
    agent: str = ""
    status: str = ""

    @property
    def selection(self) -> Selection:
        status = self.status if self.status in _STATUSES else None
        return Selection(self.agent or None, self.session or None, status, children=False, only_sessions=True)


@dataclass(frozen=True, slots=True)
class TalkPage:
    rows: list[SessionRow]
    cursor: str | None
    unread: int
    """Conversations of a search whose last message was not read in time.

    They may contain the text.
    """


async def _find(visit: Visit, filters: TalkFilters, cursor: str = "") -> TalkPage:
    text = filters.q
    page = await visit.service.runs(
        visit.asking,
        filters.selection,
        most=SEARCHED if text else MOST,
        cursor=cursor or None,
        fresh=FRESH,
    )
    previews = await visit.service.reader.previews(run.run_id for run in page.runs)
    waiting = await visit.service.reader.details([run for run in page.runs if run.status == "waiting"])
    asks = {run_id: waits_line(found) for run_id, found in waiting.items() if isinstance(found, RunStatus)}
    rows = [SessionRow.of(run, previews.get(run.run_id), asks.get(run.run_id, "")) for run in page.runs]
    rows = sorted((row for row in rows if row.has(text)), key=_activity, reverse=True)
    return TalkPage(rows, page.cursor, len(page.runs) - len(previews) if text else 0)


def _activity(row: SessionRow) -> float:
    return row.active_at.timestamp() if row.active_at else 0.0


@pages.get("/talk")
async def talk(visit: Visit) -> Response:
    filters, cursor = TalkFilters.of(visit.query), visit.query("cursor")
    found = await _find(visit, filters, cursor)
    return visit.page("talk.html", **_values(visit, filters, found), cursor=cursor, words=_STATUSES)


@pages.get("/live/talk")
async def live(visit: Visit) -> Response:
    filters = TalkFilters.of(visit.query)

    async def parts() -> AsyncGenerator[News]:
        sent = ""
        while not visit.service.feeds.is_closed:
            found = await _find(visit, filters)
            html = part("list", visit.render("talk_list.html", **_values(visit, filters, found), cursor=""))
            yield News(html if html != sent else "")
            sent = html
            await asyncio.sleep(SEARCH_INTERVAL if filters.q else INTERVAL)

    return Live(visit, parts)


def _values(visit: Visit, filters: TalkFilters, found: TalkPage) -> dict[str, Any]:
    return {
        "found": found,
        "filters": filters,
        "searched": SEARCHED,
        "agents": visit.service.app.list_agents(),
    }


@pages.get("/talk/new")
async def new(visit: Visit) -> Response:
    agent_id = visit.query("agent")
    agents = visit.service.app.list_agents()
    if not agent_id and len(agents) == 1:
        (agent_id,) = agents
    return form_page(visit, agent_id, visit.query("session"))


@pages.post("/talk/new", role="user")
async def begin(visit: Visit) -> Response:
    form, files = await form_with_files(visit)
    agent_id, session_id = form.text("agent"), form.text("session").strip() or form.text("made")
    try:
        visit.service.agent(agent_id)
        message, labels = message_in(form, files), labels_in(form)
        session = await visit.service.session(visit.asking, agent_id, session_id, labels=labels)
        await say(visit, session, form, message)
    except (Problem, SojournError) as error:
        problem = problem_of(error)
        return form_page(visit, agent_id, form.text("session"), problem=problem, given=form)
    path, query = talk_place(agent_id, session_id)
    return visit.go(path, **query)


def form_page(
    visit: Visit, agent_id: str, session_id: str, *, problem: Problem | None = None, given: Form | None = None
) -> Response:
    """Return the form that begins a conversation with an agent.

    Without an agent, it offers the agents to choose from.
    """
    app = visit.service.app
    agent = visit.service.agent(agent_id) if agent_id else None
    text = (given or Form({})).text
    return visit.page(
        "talk_new.html",
        http_status=problem.status if problem else 200,
        agent=agent,
        agents=[app.agent(each) for each in app.list_agents()],
        tools=app.catalog(agent_id) if agent else [],
        session_id=session_id,
        made=text("made") or uuid.uuid4().hex[:8],
        message_id=message_id_for(given, problem),
        text=text("text"),
        labels=text("labels"),
        problem=problem,
        most_bytes=most_bytes(visit.service),
    )


async def say(
    visit: Visit, session: Session, form: Form, message: str | Message, mode: Any = "queue"
) -> None:
    """Send the message of a form, under the id that the form has.

    Raises:
        Problem: The form was sent before, with another message.
        RunError: As `Session.send`.
    """
    message_id = form.text("message_id")
    turn = await session.send(message, message_id=message_id or None, mode=mode, by=visit.asking.subject)
    sent = Message.user(message) if isinstance(message, str) else message
    try:
        await require_same(turn, sent)
    except Problem as problem:
        if problem.code != MESSAGE_EDITED:
            raise
        raise Problem(
            409,
            MESSAGE_EDITED,
            "this message was sent before with another text; the conversation has that one",
            then="Look at what was sent; if this is to be said too, send it again: it is a message of its own then.",
            run_id=session.run.id,
        ) from None


def message_id_for(form: Form | None, problem: Problem | None) -> str:
    """Return the message id for the next rendering of a form.

    It is the id that the form was sent with, unless another message has it.
    """
    kept = form.text("message_id") if form and not (problem and problem.code == MESSAGE_EDITED) else ""
    return kept or uuid.uuid4().hex
