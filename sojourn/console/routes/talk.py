"""`/talk` and `/talk/new`: the conversations, those that were active last first; and a form to begin one with any agent."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any
from weakref import WeakKeyDictionary

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.files import form_with_files
from sojourn.console.form import Form
from sojourn.console.listed_sessions import SEARCHED, ListedSessions, Sessions
from sojourn.console.live import Live, News, part
from sojourn.console.opening import labels_in, message_in
from sojourn.console.page import Pages, Visit
from sojourn.console.saying import message_id_for, say
from sojourn.console.talk_place import talk_place
from sojourn.console.views.attachments import MOST_BYTES
from sojourn.console.views.states import WORDS
from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service

__all__ = ["pages"]

pages = Pages()

INTERVAL = 2.0
"""Seconds between two looks at the list."""

SEARCH_INTERVAL = 8.0
"""The same of a search, which reads four times as much."""

_LISTS: WeakKeyDictionary[Service, ListedSessions] = WeakKeyDictionary()

_STATUSES = {name: word for name, word in WORDS.items() if name != "stuck"}


def _list(service: Service) -> ListedSessions:
    return _LISTS.setdefault(service, ListedSessions(service))


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
    found = await _list(visit.service).page(visit.asking, _selection(filters), cursor, filters["q"])
    return visit.page("talk.html", **_values(visit, filters, found), cursor=cursor, words=_STATUSES)


@pages.get("/live/talk")
async def live(visit: Visit) -> Response:
    """What changes on the first page."""
    filters = _filters(visit)

    async def parts() -> AsyncGenerator[News]:
        sent = ""
        while not visit.service.hub.is_closed:
            found = await _list(visit.service).page(visit.asking, _selection(filters), text=filters["q"])
            html = part("list", visit.render("talk_list.html", **_values(visit, filters, found), cursor=""))
            yield News(html if html != sent else "")
            sent = html
            await asyncio.sleep(SEARCH_INTERVAL if filters["q"] else INTERVAL)

    return Live(visit, parts)


def _values(visit: Visit, filters: dict[str, str], found: Sessions) -> dict[str, Any]:
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
    """The form to begin a conversation with an agent; without one, the agents to choose from.

    Args:
        visit: Who looks.
        agent_id: The agent.
        session_id: The session, where it is known.
        problem: Why it was not begun.
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
