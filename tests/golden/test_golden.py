"""What every face shows of about thirty runs is what it was; with `SOJOURN_GOLDEN=rewrite` in the environment what it is now is accepted."""

import difflib
import os
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from sojourn import Run, RunFailed, RunStatus
from tests.golden.faces import of_run, of_session, of_talk
from tests.golden.steady import Steady
from tests.http.conftest import Shop

FILES = Path(__file__).with_name("files")

Deed = Callable[[Shop, str], Awaitable[None]]


async def as_it_waits(_served: Shop, _run_id: str) -> None:
    """Leave the run as it is."""


async def to_its_end(served: Shop, run_id: str) -> None:
    """Wait for the run's end."""
    await _end(served, run_id)


async def answered(served: Shop, run_id: str) -> None:
    """Answer the question."""
    await _settled(served, run_id, "answers", answer="the lamp")


async def approved(served: Shop, run_id: str) -> None:
    """Approve the call."""
    await _settled(served, run_id, "approvals", approved=True)


async def denied(served: Shop, run_id: str) -> None:
    """Deny the call, and say why."""
    await _settled(served, run_id, "approvals", approved=False, reason="not this one")


async def canceled(served: Shop, run_id: str) -> None:
    """Cancel the run."""
    answer = await served.post(f"/v1/runs/{run_id}/cancel")
    assert answer.status_code < 300, answer.text
    await _end(served, run_id)


async def _settled(served: Shop, run_id: str, path: str, **body: object) -> None:
    """Answer the first wait of the run, or of the first of its child runs that has one."""
    status = await served.client.get_run(run_id).status()
    owner, wait = next(
        (owner, waits[0]) for owner, waits in {run_id: status.awaits, **status.child_awaits}.items() if waits
    )
    digest = {"digest": wait.payload_digest} if path == "approvals" else {}
    answer = await served.post(f"/v1/runs/{owner}/{path}", {"await_id": wait.id, **digest, **body})
    assert answer.status_code < 300, answer.text
    await _end(served, run_id)


def rests(status: RunStatus) -> bool:
    """Whether a run does nothing until somebody does something, or until a time comes."""
    return bool(status.awaits or status.child_awaits or status.phase == "waiting")


async def _end(served: Shop, run_id: str) -> None:
    try:
        await Run(served.client, run_id).result()
    except RunFailed:
        pass


RUNS: dict[str, tuple[str, Deed]] = {
    "answer": ("hello", to_its_end),
    "approval_approved": ("wipe", approved),
    "approval_denied": ("wipe", denied),
    "approval_of_a_child_approved": ("wipe_below", approved),
    "approval_of_a_child_open": ("wipe_below", as_it_waits),
    "approval_open": ("wipe", as_it_waits),
    "artifacts": ("measure", to_its_end),
    "canceled": ("sleep", canceled),
    "canceled_in_an_approval": ("wipe", canceled),
    "child": ("below", answered),
    "external_call_open": ("weigh", as_it_waits),
    "failed": ("fail", to_its_end),
    "failed_call": ("drop", to_its_end),
    "question_answered": ("ask", answered),
    "question_of_a_child_open": ("below", as_it_waits),
    "question_open": ("ask", as_it_waits),
    "question_with_a_form_open": ("form", as_it_waits),
    "sleeps": ("sleep", as_it_waits),
}
"""By name, what a run of the clerk is asked for, and what is done to it before it is looked at."""

TALKS = {
    "talk_answer": "hello",
    "talk_approval": "wipe",
    "talk_call": "measure",
    "talk_failed": "fail",
    "talk_form": "form",
    "talk_question": "ask",
    "talk_question_of_a_child": "below",
}
"""By name, the message that each protocol gets."""


@pytest.fixture
def sojourn(served, temporal_address, command):
    """Run a command on the service's server."""
    env = {
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": served.client.task_queue,
        "COLUMNS": "120",
    }

    async def run(*words: str):
        return await command(*words, env=env)

    return run


@pytest.mark.parametrize("name", RUNS)
async def test_a_run_is_shown_as_it_was(served, sojourn, name):
    """Commands, API and console show the same of a run as ever."""
    text, deed = RUNS[name]
    run_id = await served.start(text)
    if deed is not to_its_end:
        await served.status_when(served.client.get_run(run_id), rests)
    await deed(served, run_id)
    compare(name, await of_run(served, sojourn, run_id))


async def test_a_conversation_is_shown_as_it_was(served, sojourn):
    """A conversation with an answer, a denied call, a failed turn and an open question is shown as ever."""
    session = served.client.session("shop.clerk", uuid.uuid4().hex)
    for text in ("hello", "fail"):
        turn = await session.send(text, by="ana")
        try:
            await turn.result()
        except RunFailed:
            pass
    await session.send("wipe", by="bo")
    await served.status_when(session.run, lambda status: status.awaits)
    compare("conversation", await of_session(served, sojourn, session.session_id))


@pytest.mark.parametrize("name", TALKS)
async def test_a_message_is_answered_as_it_was(served, name):
    """Each protocol answers a message as ever."""
    compare(name, await of_talk(served, TALKS[name], uuid.uuid4().hex))


def compare(name: str, faces: dict[str, str]) -> None:
    """Compare what the faces show with the file of a scenario, or write it."""
    steady, file = Steady(), FILES / f"{name}.txt"
    now = "".join(f"=== {face}\n{steady(text)}\n\n" for face, text in faces.items())
    if os.environ.get("SOJOURN_GOLDEN") == "rewrite":
        file.parent.mkdir(exist_ok=True)
        file.write_text(now)
    before = file.read_text()
    changed = difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", "", "", 2, "")
    assert before == now, "\n".join(list(changed)[:80])
