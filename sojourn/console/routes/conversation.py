"""`/talk/{agent_id}/{session_id}`: a conversation: what was said, called and asked, live; and what is said to it."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any
from weakref import WeakKeyDictionary

from starlette.responses import HTMLResponse, Response

from sojourn.client.run import OPEN, Run
from sojourn.console import settling
from sojourn.console.conversing import Read, Statuses, read_part
from sojourn.console.files import form_with_files
from sojourn.console.form import Form
from sojourn.console.live import Live, News, part
from sojourn.console.opening import message_in
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.talk import form_page
from sojourn.console.views.attachments import MOST_BYTES, File
from sojourn.console.views.conversation import Conversation
from sojourn.contracts.ids import EVENT_ID
from sojourn.contracts.run import RunStatus
from sojourn.errors import ApprovalVoid, InvalidInput, RunNotFound, SojournError
from sojourn.events import Cursor
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service

__all__ = ["pages"]

pages = Pages()

PATH = "/talk/{agent_id}/{session_id:path}"

BEAT = 2.0
"""Seconds without an event after which a conversation is asked how it is."""

PAUSE = 0.1
"""Seconds between two changes of a page: what is written in between comes together."""

ENDED = News(told={"ended": ["the conversation is over"]})
"""After which the page does not come back."""

MODES = {
    "queue": ("After this turn", "it is answered when this turn has ended"),
    "steer": ("Steer", "the agent reads it at its next step"),
    "interrupt": ("Interrupt", "this turn ends now, and the message is answered first"),
}

_STATUSES: WeakKeyDictionary[Service, Statuses] = WeakKeyDictionary()


async def _status(visit: Visit, run: Run) -> RunStatus:
    return await _STATUSES.setdefault(visit.service, Statuses()).of(run)


async def _status_after_news(visit: Visit, run: Run) -> RunStatus:
    """The status that has what has just happened: everybody who looks hears of it at the same time."""
    return await _STATUSES.setdefault(visit.service, Statuses()).of(run, fresh=0.02)


def _event_id(visit: Visit, name: str) -> str:
    """An event of the query; raises InvalidInput where it is none."""
    text = visit.query(name)
    if text and not EVENT_ID.match(text):
        raise InvalidInput(f"{name}: {text[:60]!r} is no event of a run")
    return text


@pages.get(PATH)
async def conversation(visit: Visit, agent_id: str, session_id: str) -> Response:
    """The last turns of a conversation, or those before an event; where there is none yet, the form that begins it."""
    try:
        run = await visit.service.conversation(visit.asking, agent_id, session_id)
    except RunNotFound:
        if visit.service.app.agent(agent_id) is None:
            raise
        return form_page(visit, agent_id, session_id)
    return await _page(visit, run, agent_id, session_id)


async def _page(
    visit: Visit,
    run: Run,
    agent_id: str,
    session_id: str,
    *,
    problem: Problem | None = None,
    form: Form | None = None,
    refused: settling.Refused | None = None,
) -> Response:
    before = _event_id(visit, "before") if visit.request.method == "GET" else ""
    read, status = await asyncio.gather(
        read_part(visit.service.client, run.id, before=before), _status(visit, run)
    )
    values = {
        **_values(visit, agent_id, session_id, run, read, status),
        "before": before,
        "problem": problem,
        "refused": refused.seen.view if refused else None,
        "text": form.text("text") if form else "",
        "mode": form.text("mode") if form else "queue",
        "message_id": (form.text("message_id") if form else "") or uuid.uuid4().hex,
        "focus": False,
    }
    name = "talk_earlier.html" if before and visit.is_part else "conversation.html"
    status = problem.status if problem else refused.status if refused else 200
    return visit.page(name, http_status=status, **values)


def _values(
    visit: Visit, agent_id: str, session_id: str, run: Run, read: Read, status: RunStatus
) -> dict[str, Any]:
    agent = visit.service.app.agent(agent_id)
    return {
        "agent_id": agent_id,
        "session_id": session_id,
        "run_id": run.id,
        "here": visit.url(f"/talk/{agent_id}/{session_id}"),
        "about": agent.description if agent else "",
        "refused": None,
        "found": read.conversation,
        "earlier": read.earlier,
        "state": status,
        "is_open": status.status in OPEN,
        "is_busy": status.status in OPEN and status.status != "idle",
        "modes": MODES,
        "most_bytes": MOST_BYTES,
        "below": {
            run_id: waits for run_id, waits in status.child_awaits.items() if status.status in OPEN and waits
        },
    }


# Live.


@pages.get(f"/live{PATH}")
async def live(visit: Visit, agent_id: str, session_id: str) -> Response:
    """What changes in the conversation, from the turn `begin` on; the page has it to the event `at`."""
    run = await visit.service.conversation(visit.asking, agent_id, session_id)
    begin, at = _event_id(visit, "begin"), _event_id(visit, "at")

    async def parts() -> AsyncGenerator[News]:
        read, status = await asyncio.gather(
            read_part(visit.service.client, run.id, begin=begin), _status(visit, run)
        )
        values = _values(visit, agent_id, session_id, run, read, status)
        screen = _Screen(visit, read.conversation, values, is_same=at == read.conversation.last_event_id)
        yield News(screen.changed(status))
        if read.conversation.ended:
            yield ENDED
            return
        cursor = Cursor(run.id, after=read.conversation.last_event_id)
        with visit.service.hub.subscribe(run.id, cursor, deltas=True) as subscription:
            async with aclosing(subscription.batches(BEAT)) as batches:
                async for batch in batches:
                    for each in batch:
                        read.conversation.feed(each.event)
                    if any(each.event.event_id for each in batch) or not batch:
                        status = await _status_after_news(visit, run)
                    yield News(screen.changed(status))
                    if batch:
                        await asyncio.sleep(PAUSE)
        yield News(screen.changed(await run.status()))
        if read.conversation.ended:
            yield ENDED

    return Live(visit, parts)


class _Screen:
    """What a page shows now; knows what changes next.

    Args:
        visit: Who looks.
        conversation: What is told of the conversation.
        values: Of the templates.
        is_same: Whether the page has all turns as they are.
    """

    SMALL = ("state", "queue", "facts", "modes", "below")

    def __init__(
        self, visit: Visit, conversation: Conversation, values: dict[str, Any], *, is_same: bool
    ) -> None:
        self._visit = visit
        self._conversation = conversation
        self._values = values
        self._version = conversation.version if is_same else -1
        self._turns = {turn.key for turn in conversation.turns} if is_same else set[str]()
        self._sent: dict[str, str] = {}

    def changed(self, status: RunStatus) -> str:
        """What has changed since the last time."""
        self._values["state"] = status
        self._values["is_open"] = status.status in OPEN
        self._values["is_busy"] = status.status in OPEN and status.status != "idle"
        self._values["below"] = status.child_awaits if status.status in OPEN else {}
        html = self._changed_turns()
        if not self._values["is_open"] and "over" not in self._sent:
            self._sent["over"] = self._visit.render("talk_over.html", **self._values)
            html.append(part("composer", self._sent["over"], "outerHTML"))
        for name in self.SMALL:
            made = self._visit.render(f"talk_{name}.html", **self._values)
            if self._sent.get(name) != made:
                self._sent[name] = made
                html.append(part(name, made))
        return "".join(html)

    def _changed_turns(self) -> list[str]:
        found = self._conversation
        if self._version < 0:
            self._version = found.version
            self._turns = {turn.key for turn in found.turns}
            return [part("turns", self._visit.render("talk_turns.html", **self._values))]
        html: list[str] = []
        for turn in found.turns:
            if turn.version <= self._version:
                continue
            made = self._visit.render("talk_turn.html", turn=turn, **self._values)
            if turn.key in self._turns:
                html.append(part(f"turn-{turn.key}", made))
            else:
                html.append(part("turns", made, "beforeend"))
                self._turns.add(turn.key)
        self._version = found.version
        return html


# What is said to it.


@pages.post(PATH, role="viewer")
async def said(visit: Visit, agent_id: str, session_id: str) -> Response:
    """Do what a form of the page says: send, stop, close, or settle what is asked."""
    form, files = await form_with_files(visit.request)
    try:
        done = await _do(visit, agent_id, session_id, form, files)
    except ApprovalVoid:
        done = ""  # the call is asked about again, with what has changed
    except (Problem, SojournError) as error:
        return await _refused(visit, agent_id, session_id, form, problem_of(error))
    if isinstance(done, Response):
        return done
    if not visit.is_part:
        return visit.go(f"/talk/{agent_id}/{session_id}")
    return HTMLResponse(part("notice", '<div id="notice" role="status" aria-live="polite"></div>') + done)


async def _do(visit: Visit, agent_id: str, session_id: str, form: Form, files: list[File]) -> str | Response:
    if form.text("do") == "send":
        return await _send(visit, agent_id, session_id, form, files)
    run = await visit.service.conversation(visit.asking, agent_id, session_id)
    by, reason = visit.asking.subject, form.text("reason").strip()
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "stop": lambda: run.interrupt(reason, by=by),
        "close": lambda: run.close(reason, by=by),
    }
    if act := acts.get(form.text("do")):
        require(visit.asking, "user")
        await act()
        return ""
    run_id = form.text("run_id") or run.id
    if run_id != run.id and not run_id.startswith(f"{run.id}/"):
        raise InvalidInput("the question is of another conversation", run_id=run.id)
    seen = await settling.seen(visit, run_id, form.text("await_id"))
    refused = await settling.settle(visit, seen, form)
    return await _not_settled(visit, agent_id, session_id, run, refused) if refused else ""


async def _not_settled(
    visit: Visit, agent_id: str, session_id: str, run: Run, refused: settling.Refused
) -> Response:
    """The form again, with what was typed and what is wrong; what is no longer open has none."""
    seen = refused.seen
    if seen.place is None:
        raise Problem(409, "await_closed", "this is no longer open", then="The conversation has how it ended.")
    if not visit.is_part:
        return await _page(visit, run, agent_id, session_id, refused=refused)
    html = visit.render(
        "talk_refused.html",
        wait=seen.wait,
        refused=seen.view,
        here=visit.url(f"/talk/{agent_id}/{session_id}"),
    )
    return HTMLResponse(part(seen.view.anchor, html, "outerHTML"), refused.status)


async def _send(visit: Visit, agent_id: str, session_id: str, form: Form, files: list[File]) -> str:
    """Send a message; returns the emptied form, for a script."""
    require(visit.asking, "user")
    mode: Any = form.text("mode") or "queue"
    if mode not in MODES:
        raise InvalidInput(f"mode: {mode[:40]!r} is none of {', '.join(MODES)}")
    message = message_in(form, files)
    session = await visit.service.session(visit.asking, agent_id, session_id)
    await session.send(
        message, message_id=form.text("message_id") or None, mode=mode, by=visit.asking.subject
    )
    if not visit.is_part:
        return ""
    status = await _status_after_news(visit, session.run)
    html = visit.render(
        "talk_composer.html",
        here=visit.url(f"/talk/{agent_id}/{session_id}"),
        agent_id=agent_id,
        state=status,
        is_busy=status.status != "idle",
        modes=MODES,
        mode="queue",
        text="",
        message_id=uuid.uuid4().hex,
        most_bytes=MOST_BYTES,
        focus=True,
    )
    return part("composer", html, "outerHTML")


async def _refused(visit: Visit, agent_id: str, session_id: str, form: Form, problem: Problem) -> Response:
    """Say why, beside what was written, which can be sent again."""
    if visit.is_part:
        told = visit.render("problem_part.html", problem=problem)
        return HTMLResponse(
            part("notice", f'<div id="notice" role="status" aria-live="polite">{told}</div>'), problem.status
        )
    try:
        run = await visit.service.conversation(visit.asking, agent_id, session_id)
    except SojournError:
        raise problem from None
    return await _page(visit, run, agent_id, session_id, problem=problem, form=form)
