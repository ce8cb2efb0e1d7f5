"""Settle: give the waits of a conversation the answers of a request, each once however often the request is sent."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from sojourn.client.run import Run
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.principal import Principal
from sojourn.core.awaits.confirmation import NO_EDIT
from sojourn.core.awaits.envelope import as_json
from sojourn.core.awaits.kinds import wait_in
from sojourn.core.values.numbers import exact, is_same
from sojourn.errors import AwaitClosed, InvalidInput, RunNotFound
from sojourn.http.deciding import decide, require_approver
from sojourn.http.problems import Problem
from sojourn.http.protocols.decision import check_fields
from sojourn.http.protocols.waits import OpenWait, open_waits, waits_of
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["Answer", "check_decision", "given", "settle"]

MAX_REASON = 10_000

DECISION = ("approved", "reason", "scope")
"""The fields of a decision on a call."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a client."""

    id: str
    """The id of the `OpenWait`."""
    payload: Any = None
    """Of a question a text or an object by field, of an approval `{approved, reason, scope}`, of a call outside its result."""
    is_declined: bool = False
    """Whether the client gives no answer: it declines the question, denies the call, has no result."""
    error: str = ""
    """Of a call outside: why it has no result."""
    message_id: str = ""
    """The id of the message that is the answer, where one is and names no wait: it is delivered once."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the client has sent beside the payload; a decision on a call has nothing there."""
    arguments: Any = None
    """The arguments of the call as the client shows them, where it sends them."""
    is_old: bool = False
    """Whether the client has sent it with an earlier message: where the wait is not open any more it is passed over."""


async def settle(
    service: Service, asking: Principal, run: Run, answers: Sequence[Answer]
) -> dict[tuple[str, str], list[str]]:
    """Answer what is open; an answer that was given before, by the same principal, is passed over.

    Returns the answers' ids by run and wait.

    Args:
        service: The service.
        asking: Who answers.
        run: The conversation's run, which the principal may see.
        answers: The answers.

    Raises:
        Problem: A role is missing (403), or a wait has another answer, or never was (409); the answers before it are given.
        InvalidInput: An answer does not fit its wait, which stays open.
        AwaitClosed: Somebody else was faster.
    """
    settled: dict[tuple[str, str], list[str]] = {}
    if not answers:
        return settled
    known = {each.id: each for each in open_waits(await run.status())}
    for answer in answers:
        if (wait := known.get(answer.id)) and isinstance(wait.wait, AwaitConfirmation):
            check_decision(answer, wait.wait.payload)
    for answer in answers:
        key = await _settle_one(service, asking, run, known.get(answer.id), answer)
        settled.setdefault(key, []).append(answer.id)
    return settled


async def _settle_one(
    service: Service, asking: Principal, run: Run, wait: OpenWait | None, answer: Answer
) -> tuple[str, str]:
    closed: Exception = Problem(
        409,
        "await_closed",
        f"{run.id} does not wait for {answer.id[:200]!r}",
        then="Look at what the conversation waits for now, and answer that.",
        run_id=run.id,
    )
    if wait is not None:
        audit.bind_answer(wait.run_id, wait.wait.id, **_decided(wait, answer))
        if wait.kind != "approval":
            require(asking, "user")
        try:
            await _give(await service.run(asking, wait.run_id), asking, wait, answer)
            if answer.message_id and wait.run_id != run.id:
                await run.remember(answer.message_id)
            return wait.run_id, wait.wait.id
        except AwaitClosed as error:
            closed = error
    if set(asking.roles) <= {"viewer", "operator"}:
        require(asking, "user")
    if key := await _given_by(run, asking, answer):
        return key
    raise closed


def check_decision(answer: Answer, payload: dict[str, Any] | None = None) -> None:
    """Check that a decision has nothing that would be ignored, such as other arguments.

    Args:
        answer: The decision.
        payload: The arguments of the call; None where they are not known any more.

    Raises:
        InvalidInput: It has; then nothing is decided.
    """
    check_fields((*_fields(answer.payload), *answer.more), DECISION)
    given = answer.arguments
    if payload is not None and given is not None and not is_same(given, exact(payload)):
        raise InvalidInput(f"the decision shows other arguments than those of the call; {NO_EDIT}")


def _decided(wait: OpenWait, answer: Answer) -> dict[str, Any]:
    """Of a call to approve, what is decided, and of which arguments as they were shown."""
    if not isinstance(wait.wait, AwaitConfirmation):
        return {}
    approved = False if answer.is_declined else _decision(answer)[0]
    return {"approved": approved, "digest": wait.wait.payload_digest}


async def _give(run: Run, asking: Principal, wait: OpenWait, answer: Answer) -> None:
    await_id = wait.wait.id
    if wait.kind == "approval":
        await _decide(run, asking, wait, answer)
    elif wait.call is not None:
        result: dict[str, Any] = {"tool_call_id": wait.call.tool_call_id}
        if answer.is_declined or answer.error:
            result["error"] = answer.error or "the caller gave no result"
        else:
            result["result"] = answer.payload
        await run.provide_tool_results(await_id, [result], principal=asking)
    elif answer.is_declined:
        await run.decline(await_id, _reason(answer.payload), principal=asking)
    elif isinstance(given := answer.payload, (str, dict)):
        text = cast("str | dict[str, Any]", given)
        await run.answer(await_id, text, principal=asking, message_id=answer.message_id or None)
    else:
        raise InvalidInput(
            f"the answer to {answer.id} is a text, or an object with values by field", run_id=run.id
        )


async def _decide(run: Run, asking: Principal, wait: OpenWait, answer: Answer) -> None:
    call = wait.wait
    assert isinstance(call, AwaitConfirmation)
    digest, reason = answer.id.rpartition("#")[2], _reason(answer.payload)
    if answer.is_declined:
        await decide(asking, run, call, approved=False, digest=digest, reason=reason)
        return
    require_approver(asking, call, approved=_decision(answer)[0] is True)
    approved, scope = _decision(answer)
    if approved is None or scope not in ("call", "tool"):
        raise InvalidInput(
            f"the answer to {answer.id} is an object with `approved`, true or false, and perhaps `reason`",
            run_id=run.id,
        )
    for_run = approved and scope == "tool"
    await decide(asking, run, call, approved=approved, digest=digest, reason=reason, for_run=for_run)


def _decision(answer: Answer) -> tuple[bool | None, Any]:
    fields = _fields(answer.payload)
    approved = fields.get("approved")
    return (approved if isinstance(approved, bool) else None), fields.get("scope", "call")


def _reason(payload: Any) -> str:
    reason = _fields(payload).get("reason", payload)
    return reason[:MAX_REASON] if isinstance(reason, str) else ""


def _fields(payload: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}


async def given(run: Run, id: str) -> tuple[tuple[str, str], AwaitAnsweredEvent] | None:
    """The answer that a wait got, with its run and await id; None where it has none, or never was.

    Args:
        run: The conversation's run.
        id: The id of the `OpenWait`; of a child run, its events are read.
    """
    below = id.partition("@")[2].partition("#")[0]
    waiting = Run(run.client, run.id + below) if below.startswith("/") else run
    found = set[str]()
    async with aclosing(waiting.events(follow=False)) as events:
        async for event in events:
            if wait := wait_in(event):
                found |= {wait.id for each in waits_of(run.id, event.run_id, wait) if each.id == id}
            elif isinstance(event, AwaitAnsweredEvent) and event.await_id in found:
                return (event.run_id, event.await_id), event
    return None


async def _given_by(run: Run, asking: Principal, answer: Answer) -> tuple[str, str] | None:
    """The wait that has this answer, by this principal."""
    try:
        had = await given(run, answer.id)
    except (InvalidInput, RunNotFound):
        return None
    if had is None:
        return None
    key, event = had
    if event.approved is not None:
        check_decision(answer)
    return key if event.by == asking.subject and _is_same(event, answer) else None


def _is_same(event: AwaitAnsweredEvent, answer: Answer) -> bool:
    """Whether a wait has this answer; of a call outside the event does not tell."""
    if event.approved is not None:
        return event.approved == (False if answer.is_declined else _decision(answer)[0])
    if event.text is None and event.code is None:
        return True
    if answer.is_declined or event.code == "declined":
        return answer.is_declined and event.code == "declined"
    payload = answer.payload
    return event.text == (payload if isinstance(payload, str) else as_json(payload))
