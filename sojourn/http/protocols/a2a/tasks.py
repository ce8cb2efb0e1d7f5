"""Render a reply as an A2A task.

The task's id is the reply's token, and its context is a conversation.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any

from fasta2a.schema import Artifact, Message, Part, Task, TaskState, TaskStatus

from sojourn.answers import WaitView
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.markup import unmarked
from sojourn.http.protocols.reply import AgentReply
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.waits import chat_text, client_waits
from sojourn.http.service import Service

__all__ = [
    "ANSWER",
    "MAX_DATA",
    "artifact_data",
    "limit_history",
    "state_of",
    "status_of",
    "task_of",
    "token_of",
]

ANSWER = "answer"
"""Id and name of the artifact with the answer. A stream sends its text while the planner writes it."""

MAX_DATA = 512_000
"""Most bytes of artifact data in one task. Further artifacts have only their references."""

_STATES: dict[str, TaskState] = {
    "open": "working",
    "asked": "input-required",
    "answered": "completed",
    "failed": "failed",
}


def token_of(token: ReplyToken) -> str:
    """Return the id of a task."""
    return token.text


def state_of(reply: AgentReply) -> TaskState:
    """Return the state of a task."""
    return "canceled" if reply.is_canceled else _STATES[reply.state]


def status_of(reply: AgentReply, context_id: str) -> TaskStatus:
    """Return the status of a task, with its question or the reason of its failure."""
    status = TaskStatus(state=state_of(reply))
    if reply.at:
        status["timestamp"] = reply.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    parts = list[Part]()
    if reply.asked:
        parts = _asking(reply.asked)
    elif reply.error:
        parts = [Part(text=unmarked(str(reply.error)))]
    if parts:
        message_id = f"{reply.token.text}.{reply.tree.cursor.partition(';')[0]}"
        message = Message(role="agent", parts=parts, message_id=message_id, task_id=token_of(reply.token))
        message["context_id"] = context_id
        status["message"] = message
    return status


async def artifact_data(service: Service, asking: Principal, reply: AgentReply) -> dict[str, Any]:
    """Return the data of the artifacts of a reply's calls, by reference.

    Artifacts that the principal may not see, or that do not fit into `MAX_DATA`, are left out.
    """
    found, room = dict[str, Any](), MAX_DATA
    for each in reply.output.artifacts if reply.output else []:
        if not each.ref or each.size > room:
            continue
        with suppress(SojournError, Problem):  # the task then has its reference alone
            run = await service.run(asking, each.ref.partition("#")[0])
            found[each.ref] = (await run.artifact(each.ref)).data
            room -= each.size
    return found


def task_of(reply: AgentReply, context_id: str, data: Mapping[str, Any] | None = None) -> Task:
    """Return a task, with the answer and the artifacts of its calls.

    Args:
        reply: The reply.
        context_id: The conversation.
        data: The data of artifacts, by reference. An artifact without data is listed by its reference alone.
    """
    data = data or {}
    task = Task(id=token_of(reply.token), context_id=context_id, status=status_of(reply, context_id))
    if reply.output:
        result: Any = reply.output.result
        typed = [Part(data=result, media_type="application/json")] if result is not None else []
        answer = Artifact(
            artifact_id=ANSWER, name=ANSWER, parts=[Part(text=unmarked(reply.output.text)), *typed]
        )
        refs = [each for each in reply.output.artifacts if each.ref]
        made = [
            Artifact(
                artifact_id=each.ref,
                name=each.kind,
                metadata={"ref": each.ref, "size": each.size},
                parts=[Part(data=data.get(each.ref, {"ref": each.ref}), media_type="application/json")],
            )
            for each in refs
        ]
        task["artifacts"] = [answer, *made]
    task["metadata"] = {"runId": reply.token.run_id}
    history = [
        Message(
            role=each.role,
            parts=[Part(text=unmarked(each.text))],
            message_id=each.id,
            task_id=task["id"],
            context_id=context_id,
        )
        for each in reply.history
    ]
    if history:
        task["history"] = history
    return task


def limit_history(task: Task, most: int | None) -> None:
    """Keep only the newest messages of a task's history (A2A 1.0, section 3.2.4).

    Without a limit, keep all.
    """
    if most is not None and "history" in task:
        task["history"] = task["history"][-most:] if most > 0 else []
        if not task["history"]:
            del task["history"]


def _asking(view: WaitView) -> list[Part]:
    data = Part(data=json.loads(json.dumps(_json_of(view))), media_type="application/json")
    if view.call is None:
        return [Part(text=chat_text(view)), data]
    how = f"Answer `yes {view.ref.code}` to run it. Any other answer denies it, and is the reason."
    return [Part(text=f"{chat_text(view)}\n\n{how}"), data]


def _json_of(view: WaitView) -> dict[str, Any]:
    (wait,) = client_waits(view, view.run_id)
    return wait.json
