"""Conversations at `/talk`, most recently active first.

`/talk/new` has a form to begin one with any agent.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.form import Form, form_with_files
from sojourn.console.live import Live, part
from sojourn.console.opening import labels_in, message_in
from sojourn.console.page import Pages, Visit
from sojourn.console.saying import message_id_for, say
from sojourn.console.talk_place import talk_place
from sojourn.console.views.attachments import MOST_BYTES
from sojourn.console.views.states import WORDS, word_of
from sojourn.console.watching import News
from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import ListedRun, Preview
from sojourn.values.visible import one_line

__all__ = ["pages"]

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
    """A row of the list."""

    run_id: str
    agent_id: str
    session_id: str
    status: str
    word: str
    last: str
    """The last message, on one line."""
    is_agent: bool
    """Whether the agent wrote it."""
    started_at: datetime | None
    active_at: datetime | None
    """Time of the last event."""

    @classmethod
    def of(cls, run: ListedRun, preview: Preview | None) -> "SessionRow":
        """Return the row of a conversation.

        It lacks the last message if that was not read in time.
        """
        known = preview or Preview()
        return cls(
            run.run_id,
            run.agent_id,
            run.session_id,
            run.status,
            word_of(run.status),
            one_line(known.text),
            known.is_agent,
            run.started_at,
            run.closed_at or known.at or run.started_at,
        )

    def has(self, text: str) -> bool:
        """Check whether the row contains a text, in any case."""
        wanted = text.casefold()
        return wanted in self.last.casefold() or wanted in self.session_id.casefold()


@dataclass(frozen=True, slots=True)
class Found:
    """A page of the list, the most recently active first."""

    rows: list[SessionRow]
    cursor: str | None
    unread: int
    """Conversations of a search whose last message was not read in time.

    They may contain the text.
    """


async def _found(visit: Visit, filters: dict[str, str], cursor: str = "") -> Found:
    """Return a page of conversations, at most a second old. Raises as `Service.runs`."""
    text = filters["q"]
    page = await visit.service.runs(
        visit.asking,
        _selection(filters),
        most=SEARCHED if text else MOST,
        cursor=cursor or None,
        fresh=FRESH,
    )
    previews = await visit.service.reader.previews(run.run_id for run in page.runs)
    rows = [SessionRow.of(run, previews.get(run.run_id)) for run in page.runs]
    rows = sorted((row for row in rows if row.has(text)), key=_activity, reverse=True)
    return Found(rows, page.cursor, len(page.runs) - len(previews) if text else 0)


def _activity(row: SessionRow) -> float:
    return row.active_at.timestamp() if row.active_at else 0.0


def _filters(visit: Visit) -> dict[str, str]:
    return {name: visit.query(name)[:300] for name in ("q", "session", "agent", "status")}


def _selection(filters: dict[str, str]) -> Selection:
    status = filters["status"] if filters["status"] in _STATUSES else None
    return Selection(
        filters["agent"] or None,
        filters["session"] or None,
        status,
        children=False,
        only_sessions=True,
    )


@pages.get("/talk")
async def talk(visit: Visit) -> Response:
    """The conversations."""
    filters, cursor = _filters(visit), visit.query("cursor")
    found = await _found(visit, filters, cursor)
    return visit.page("talk.html", **_values(visit, filters, found), cursor=cursor, words=_STATUSES)


@pages.get("/live/talk")
async def live(visit: Visit) -> Response:
    """What changes on the first page."""
    filters = _filters(visit)

    async def parts() -> AsyncGenerator[News]:
        sent = ""
        while not visit.service.feeds.is_closed:
            found = await _found(visit, filters)
            html = part("list", visit.render("talk_list.html", **_values(visit, filters, found), cursor=""))
            yield News(html if html != sent else "")
            sent = html
            await asyncio.sleep(SEARCH_INTERVAL if filters["q"] else INTERVAL)

    return Live(visit, parts)


def _values(visit: Visit, filters: dict[str, str], found: Found) -> dict[str, Any]:
    return {
        "found": found,
        "filters": filters,
        "searched": SEARCHED,
        "agents": visit.service.app.list_agents(),
    }


@pages.get("/talk/new")
async def new(visit: Visit) -> Response:
    """A form to begin a conversation: first with whom."""
    agent_id = visit.query("agent")
    agents = visit.service.app.list_agents()
    if not agent_id and len(agents) == 1:
        (agent_id,) = agents
    return form_page(visit, agent_id, visit.query("session"))


@pages.post("/talk/new", role="user")
async def begin(visit: Visit) -> Response:
    """Send the first message."""
    form, files = await form_with_files(visit.request)
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

    Args:
        visit: The visit.
        agent_id: The agent.
        session_id: The session, if it is known.
        problem: Why the conversation was not begun.
        given: The form that was sent.
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
        most_bytes=MOST_BYTES,
    )
