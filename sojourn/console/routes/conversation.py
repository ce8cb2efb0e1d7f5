"""Page of a conversation, with its messages, calls and questions, live.

Its path is `/talk/{agent_id}/{session_id}`, or `/talk/{agent_id}?session=`. Its forms send messages and
answers.
"""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from starlette.responses import HTMLResponse, Response

from sojourn.answers import Answer, WaitRef, WaitView, parse_answer
from sojourn.attachments import Upload
from sojourn.client.run import Run
from sojourn.client.session import Session
from sojourn.console.answering import VERDICTS, find_wait, submit_form
from sojourn.console.form import File, Form, form_with_files, message_in, most_bytes
from sojourn.console.live import Live, part
from sojourn.console.page import Pages, Visit, talk_place
from sojourn.console.routes.talk import form_page, message_id_for, say
from sojourn.console.views.entries import markdown_of_turn, turns_before
from sojourn.console.views.markdown import prepare
from sojourn.console.views.text import ago_now
from sojourn.console.views.waits import WaitForm, waits_below, waits_of
from sojourn.console.watched import Changes, News, RenderedPart, WatchedTalk
from sojourn.contracts.ids import place_of
from sojourn.contracts.run import RunStatus
from sojourn.errors import ApprovalVoid, AwaitClosed, InvalidInput, RunNotFound, SojournError
from sojourn.http.answering import (
    edit_message,
    read_present_branch,
    submit_answer,
    switch_branch,
    withdraw_message,
)
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security.principals import require
from sojourn.reader import MAX_TURNS, TURNS, read_conversation
from sojourn.timeline import Timeline, UserTurn

__all__ = ["pages"]

pages = Pages()

PATH = "/talk/{agent_id}/{session_id:path}"

NAMED = "/talk/{agent_id}"
"""Path if the query names the session, which a path would not preserve.

See `talk_place`.
"""

ANSWER = ("Answer the question", "sent as the answer to the open question")
"""The mode of a message that answers an open question, in words."""

MODES = {
    "queue": ("After this turn", "answered when this turn has ended"),
    "steer": ("Add to this turn", "the agent reads it at its next step"),
    "interrupt": ("Stop and replace", "ends this turn now and answers this message next"),
}

SMALL = {
    "state": "talk_state",
    "queue": "talk_queue",
    "facts": "talk_facts",
    "modes": "talk_modes",
    "below": "talk_below",
}
"""Small parts of the page, by their ids, with their templates."""


def _session_id(visit: Visit) -> str:
    return visit.request.query_params.get("session", "")


@pages.get(NAMED)
async def named_conversation(visit: Visit, agent_id: str) -> Response:
    session_id = _session_id(visit)
    if not session_id:
        return visit.go("/talk", agent=agent_id)
    return await conversation(visit, agent_id, session_id)


@pages.get(PATH)
async def conversation(visit: Visit, agent_id: str, session_id: str) -> Response:
    """Show a conversation's last turns or those before an event, or the form that begins it."""
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
    refused: WaitForm | None = None,
) -> Response:
    before = visit.event_id("before") if visit.request.method == "GET" else ""
    talk = await visit.console.talks.look(run.id, 0)
    shown, path = await _read_turns(visit, run, before) if before else (talk.timeline, talk.timeline.path)
    turns, origin = path[-TURNS:], shown.started and shown.started.forked_from
    await prepare(text for turn in turns for text in markdown_of_turn(turn))
    values = _values(visit, agent_id, session_id, talk)
    values |= {
        "turns": [
            visit.render("talk_turn.html", turn=turn, **{**values, "found": shown, "refused": refused})
            for turn in turns
        ],
        "earlier": turns[0].key if len(path) > TURNS else turns_before(shown),
        "forked_from": origin.run_id if origin else "",
        "begin": turns[0].key if turns else "",
        "mark": talk.mark,
        "refused": refused,
        "before": before,
        "problem": problem,
        "text": form.text("text") if form else "",
        "mode": _mode_of(form, talk.status) if form else next(iter(_modes(talk.status))),
        "message_id": message_id_for(form, problem),
        "focus": False,
    }
    name = "talk_earlier.html" if before and visit.is_part else "conversation.html"
    status = problem.status if problem else refused.http_status if refused else 200
    return visit.page(name, http_status=status, **values)


async def _read_turns(visit: Visit, run: Run, before: str) -> tuple[Timeline, list[UserTurn]]:
    """Read a conversation, and the turns of its present branch before an event."""
    client = visit.service.client
    if branch := await read_present_branch(client, run.id, before):
        return branch
    shown = await read_conversation(client, run.id, before=before)
    return shown, shown.path


def _values(visit: Visit, agent_id: str, session_id: str, talk: WatchedTalk) -> dict[str, Any]:
    agent, status = visit.service.app.agent(agent_id), talk.status
    is_open = status.is_open
    return {
        "agent_id": agent_id,
        "session_id": session_id,
        "run_id": talk.run_id,
        "here": visit.url.talk(agent_id, session_id),
        "about": agent.description if agent else "",
        "refused": None,
        "found": talk.timeline,
        "state": status,
        "is_open": is_open,
        "is_busy": is_open and status.status != "idle",
        "asks": _question(status),
        "modes": _modes(status),
        "mode": next(iter(_modes(status))),
        "most_bytes": most_bytes(visit.service),
        "below": waits_below(status) if is_open else {},
    }


def _modes(status: RunStatus) -> dict[str, tuple[str, str]]:
    return {"answer": ANSWER, **MODES} if _question(status) else MODES


def _mode_of(form: Form, status: RunStatus) -> str:
    """Return the mode of a form that was refused.

    Its text never becomes the answer to another question.
    """
    mode, question = form.text("mode"), _question(status)
    if mode == "answer" and (question is None or question.await_id != form.text("await_id")):
        return "queue"
    return mode if mode in _modes(status) else "queue"


def _question(status: RunStatus) -> WaitView | None:
    """Return the only open question, if a text can answer it."""
    questions = [wait for wait in waits_of(status) if wait.takes_words]
    if len(questions) != 1:
        return None
    return questions[0] if questions[0].form is None or questions[0].tool_call_id is None else None


# Live updates.


@pages.get(f"/live{NAMED}")
async def live_named(visit: Visit, agent_id: str) -> Response:
    return await live(visit, agent_id, _session_id(visit))


@pages.get(f"/live{PATH}")
async def live(visit: Visit, agent_id: str, session_id: str) -> Response:
    """Stream the conversation's changes, or all from the turn `begin` on."""
    run = await visit.service.conversation(visit.asking, agent_id, session_id)
    begin = visit.event_id("begin")
    came = visit.request.headers.get("last-event-id") or visit.query("since")

    async def parts() -> AsyncGenerator[News]:
        async with visit.console.talks.follow(run.id) as talk:
            await talk.reach(begin)

            async def changes(seen: int, _added: int) -> Changes:
                values = _values(visit, agent_id, session_id, talk)
                return Changes("".join(_news(visit, talk, values, seen, begin)))

            async with aclosing(talk.news(came, changes)) as news:
                async for each in news:
                    yield each

    return Live(visit, parts)


def _news(visit: Visit, talk: WatchedTalk, values: dict[str, Any], seen: int, begin: str) -> Generator[str]:
    def render(name: str, of: int, template: str, **more: Any) -> RenderedPart:
        return talk.once((*visit.audience, name), of, lambda: visit.render(template, **values, **more))

    def html_of(turn: UserTurn) -> str:
        name = f"{turn.key}-{talk.timeline.branches}"
        return ago_now(render(name, turn.version, "talk_turn.html", turn=turn).html, datetime.now(UTC))

    turns, is_whole = talk.timeline.path, seen < 0 or talk.timeline.branched_in > seen
    if is_whole:
        is_one = not begin or bool(talk.timeline.branches)
        wanted = [turn for turn in turns if is_one or place_of(turn.key) >= place_of(begin)][-MAX_TURNS:]
        yield part("turns", visit.render("talk_turns.html", turns=map(html_of, wanted)))
    for turn in () if is_whole else turns:
        if turn.born > seen:
            yield part("turns", html_of(turn), "beforeend")
        elif turn.version > seen:
            yield part(f"turn-{turn.key}", html_of(turn))
    for name, template in SMALL.items():
        small = render(name, talk.version, f"{template}.html")
        if small.since > seen:
            yield part(name, small.html)
    if not values["is_open"] and (over := render("over", talk.version, "talk_over.html")).since > seen:
        yield part("composer", over.html, "outerHTML")


# Messages and answers.


@pages.post(NAMED, role="viewer")
async def submit_named(visit: Visit, agent_id: str) -> Response:
    return await submit(visit, agent_id, _session_id(visit))


@pages.post(PATH, role="viewer")
async def submit(visit: Visit, agent_id: str, session_id: str) -> Response:
    """Carry out a form of the page: send, withdraw, stop, close, or answer an open wait."""
    form, files = await form_with_files(visit)
    try:
        done = await _do(visit, agent_id, session_id, form, files)
    except ApprovalVoid:
        done = ""  # the call needs a new approval, which shows what has changed
    except (Problem, SojournError) as error:
        return await _refuse(visit, agent_id, session_id, form, problem_of(error))
    if isinstance(done, Response):
        return done
    if not visit.is_part:
        path, query = talk_place(agent_id, session_id)
        return visit.go(path, **query)
    return HTMLResponse(part("notice", '<div id="notice" role="status" aria-live="polite"></div>') + done)


async def _do(
    visit: Visit, agent_id: str, session_id: str, form: Form, files: list[File | Upload]
) -> str | Response:
    if form.text("do") == "send":
        return await _send(visit, agent_id, session_id, form, files)
    session = await visit.service.known_session(visit.asking, agent_id, session_id)
    run = session.run
    heard = visit.console.talks.hearing(run.id)
    by, reason = visit.asking.subject, form.text("reason").strip()
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "stop": lambda: _stop(run, form.text("turn_id"), reason, by),
        "close": lambda: run.close(reason, by=by),
        "edit": lambda: _edit(visit, session, form),
        "switch": lambda: switch_branch(session, form.text("at"), form.number("branches")),
        "withdraw": lambda: withdraw_message(run, visit.asking, form.text("message_id")),
    }
    if act := acts.get(form.text("do")):
        require(visit.asking, "user")
        await act()
    elif refused := await _settle(visit, run, form):
        return await _not_settled(visit, agent_id, session_id, run, refused)
    elif not visit.is_part and form.text("do") in VERDICTS:
        back = {"back": run.id, "talk_agent": agent_id, "talk_session": session_id}
        path = f"/inbox/{form.text('run_id') or run.id}/{form.text('await_id')}"
        # In the inbox, no other question moves under the visitor's pointer.
        return visit.go(path, done=form.text("do"), **back)
    if not visit.is_part:
        await heard()
    return ""


async def _edit(visit: Visit, session: Session, form: Form) -> None:
    """Send other words for a message, or have it answered again if the form has none."""
    text, number = form.text("text") if "text" in form else None, form.number("branches")
    await edit_message(session, visit.asking, form.text("message_id"), text, branches=number, keep_files=True)


async def _stop(run: Run, turn_id: str, reason: str, by: str) -> None:
    try:
        had_turn = await run.interrupt(reason, by=by, turn_id=turn_id)
    except AwaitClosed:
        had_turn = False
    if not had_turn:
        raise Problem(
            409,
            "await_closed",
            "that turn has ended",
            then="Nothing else was stopped. The conversation shows how the turn ended.",
            run_id=run.id,
        )


async def _settle(visit: Visit, run: Run, form: Form) -> WaitForm | None:
    run_id = form.text("run_id") or run.id
    if run_id != run.id and not run_id.startswith(f"{run.id}/"):
        raise InvalidInput("the question is of another conversation", run_id=run.id)
    return await submit_form(visit, await find_wait(visit, run_id, form.text("await_id")), form)


async def _not_settled(visit: Visit, agent_id: str, session_id: str, run: Run, refused: WaitForm) -> Response:
    if refused.found is None:
        then = "The conversation shows how it ended."
        status = refused.http_status if refused.fault else 409
        raise Problem(status, "await_closed", refused.fault or "this is no longer open", then=then)
    if not visit.is_part:
        return await _page(visit, run, agent_id, session_id, refused=refused)
    html = visit.render(
        "talk_refused.html",
        refused=refused,
        here=visit.url.talk(agent_id, session_id),
    )
    return HTMLResponse(part(refused.anchor, html, "outerHTML"), refused.http_status)


async def _send(visit: Visit, agent_id: str, session_id: str, form: Form, files: list[File | Upload]) -> str:
    require(visit.asking, "user")
    mode: Any = form.text("mode") or "queue"
    if mode == "answer":
        return await _answer(visit, agent_id, session_id, form, files)
    if mode not in MODES:
        raise InvalidInput(f"mode: {mode[:40]!r} is none of {', '.join(MODES)}")
    message = message_in(form, files)
    # Raises if there is no such conversation: this page does not begin one.
    await visit.service.conversation(visit.asking, agent_id, session_id)
    session = await visit.service.session(visit.asking, agent_id, session_id)
    heard = visit.console.talks.hearing(session.run.id)
    await say(visit, session, form, message, mode)
    return await _empty_composer(visit, agent_id, session_id, session.run, heard)


async def _answer(
    visit: Visit, agent_id: str, session_id: str, form: Form, files: list[File | Upload]
) -> str:
    """Send the composer's text as the answer to the question that it names."""
    text, run_id, await_id = form.text("text"), form.text("run_id"), form.text("await_id")
    run = await visit.service.conversation(visit.asking, agent_id, session_id)
    if run_id != run.id and not run_id.startswith(f"{run.id}/"):
        raise InvalidInput("the question is of another conversation", run_id=run.id)
    if files:
        why = "An answer has no files. Remove them, or send the message after this turn."
        raise Problem(422, "invalid_input", "an answer is a text", then=why)
    if not text.strip():
        raise Problem(422, "invalid_input", "the answer is empty", then="Enter an answer.")
    heard = visit.console.talks.hearing(run.id)
    wait = WaitRef(run_id, await_id)
    open_wait = next((each for each in waits_of(await run.status()) if each.ref == wait), None)
    try:
        await submit_answer(
            visit.service,
            visit.asking,
            wait,
            parse_answer(open_wait, text) if open_wait else Answer(text),
            message_id=form.text("message_id"),
            conversation=run,
        )
    except AwaitClosed as error:
        problem = problem_of(error)
        problem.then = "Your text was not sent. Choose when to deliver it, and send it again."
        raise problem from error
    finally:
        visit.service.reader.waits.forget(run_id)
    return await _empty_composer(visit, agent_id, session_id, run, heard)


async def _empty_composer(
    visit: Visit, agent_id: str, session_id: str, run: Run, heard: Callable[[], Awaitable[object]]
) -> str:
    if not visit.is_part:
        await heard()
        return ""
    status = await run.status()
    html = visit.render(
        "talk_composer.html",
        here=visit.url.talk(agent_id, session_id),
        agent_id=agent_id,
        state=status,
        is_busy=status.status != "idle",
        asks=_question(status),
        modes=_modes(status),
        mode=next(iter(_modes(status))),
        text="",
        message_id=uuid.uuid4().hex,
        most_bytes=most_bytes(visit.service),
        focus=True,
    )
    return part("composer", html, "outerHTML")


async def _modes_again(visit: Visit, agent_id: str, session_id: str, form: Form) -> str:
    """Return what can be done with a text whose question is no longer open."""
    run = await visit.service.conversation(visit.asking, agent_id, session_id)
    status = await run.status()
    html = visit.render(
        "talk_modes.html",
        is_busy=status.is_open and status.status != "idle",
        asks=_question(status),
        modes=_modes(status),
        mode=_mode_of(form, status),
        is_bound=True,
    )
    return part("modes", html, "outerHTML")


async def _refuse(visit: Visit, agent_id: str, session_id: str, form: Form, problem: Problem) -> Response:
    if visit.is_part:
        html = visit.render("problem_notice.html", problem=problem)
        if form.text("do") == "send":
            kept = visit.render("talk_message_id.html", message_id=message_id_for(form, problem))
            html += part("message-id", kept, "outerHTML")
            if form.text("mode") == "answer":
                html += await _modes_again(visit, agent_id, session_id, form)
        return HTMLResponse(html, problem.status)
    try:
        run = await visit.service.conversation(visit.asking, agent_id, session_id)
    except SojournError:
        raise problem from None
    return await _page(visit, run, agent_id, session_id, problem=problem, form=form)
