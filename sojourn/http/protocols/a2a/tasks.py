"""A2A tasks as the histories have them. Submitting a task delivers its message.

A task is a reply: its id is the reply's token, and its context is a conversation.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC
from typing import Any, cast

from fasta2a.schema import Artifact, Message, Part, Task, TaskState, TaskStatus
from fasta2a.storage import Storage

from sojourn.answers import (
    Decision,
    GivenAnswer,
    WaitView,
    parse_answer,
    parse_decision,
    read_verdict,
    wait_view,
)
from sojourn.contracts.attachment import attachment_path
from sojourn.contracts.ids import MAX_MESSAGE_ID
from sojourn.contracts.message import Message as Words
from sojourn.contracts.message import Part as MessagePart
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_result import Artifact as MadeArtifact
from sojourn.errors import SojournError, StaleDigest, UnknownWait
from sojourn.http.answering import accept_repetition, submit_answer
from sojourn.http.problems import Problem
from sojourn.http.protocols.bodies import file_part, read_message, text_part
from sojourn.http.protocols.messages import (
    IncomingMessage,
    deliver_to_session,
    digest_of,
    reuse_problem,
    token_of_task,
)
from sojourn.http.protocols.reply import AgentReply, read
from sojourn.http.protocols.reply_token import ReplyToken, remove_marks
from sojourn.http.protocols.waits import chat_text, client_waits
from sojourn.http.security.file_bodies import release_files
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = [
    "ANSWER",
    "MAX_DATA",
    "RunStorage",
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

DECISION = ("await_id", "approved", "digest", "reason", "text")
"""The fields of a decision on a call."""

_STATES: dict[str, TaskState] = {
    "open": "working",
    "asked": "input-required",
    "answered": "completed",
    "failed": "failed",
}


def token_of(token: ReplyToken) -> str:
    return token.text


def state_of(reply: AgentReply) -> TaskState:
    return "canceled" if reply.is_canceled else _STATES[reply.state]


def status_of(reply: AgentReply, context_id: str) -> TaskStatus:
    """Return the status of a task, with its question or the reason of its failure."""
    status = TaskStatus(state=state_of(reply))
    if reply.at:
        status["timestamp"] = reply.at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    parts = list[Part]()
    if reply.wait:
        parts = _question_parts(reply.wait)
    elif reply.error:
        parts = [Part(text=remove_marks(str(reply.error)))]
    if parts:
        message_id = f"{reply.token.text}.{reply.tree.cursor.partition(';')[0]}"
        message = Message(role="agent", parts=parts, message_id=message_id, task_id=token_of(reply.token))
        message["context_id"] = context_id
        status["message"] = message
    return status


async def artifact_data(service: Service, asking: Principal, reply: AgentReply) -> dict[str, Any]:
    """Return the data of the artifacts of a reply's calls, by reference.

    That of a file is its address.

    Artifacts that the principal may not see, or that do not fit into `MAX_DATA`, are left out.
    """
    found, room = dict[str, Any](), MAX_DATA
    for each in reply.output.artifacts if reply.output else []:
        if each.attachment:
            found[each.ref] = service.prefix + attachment_path(reply.token.run_id, each.attachment.id)
        if each.attachment or not each.ref or each.size > room:
            continue
        with suppress(SojournError, Problem):  # the task then has its reference alone
            run = await service.run(asking, each.ref.partition("#")[0])
            found[each.ref] = (await run.artifact(each.ref)).data
            room -= each.size
    return found


def task_of(reply: AgentReply, context_id: str, data: Mapping[str, Any] | None = None) -> Task:
    """Return a task, with the answer and the artifacts of its calls.

    An artifact without data is listed by its reference alone.
    """
    data = data or {}
    task = Task(id=token_of(reply.token), context_id=context_id, status=status_of(reply, context_id))
    if reply.output:
        result: Any = reply.output.result
        typed = [Part(data=result, media_type="application/json")] if result is not None else []
        answer = Artifact(
            artifact_id=ANSWER, name=ANSWER, parts=[Part(text=remove_marks(reply.output.text)), *typed]
        )
        refs = [each for each in reply.output.artifacts if each.ref]
        made = [
            Artifact(
                artifact_id=each.ref,
                name=each.attachment.name if each.attachment else each.kind,
                metadata={"ref": each.ref, "size": each.size},
                parts=[_artifact_part(each, data)],
            )
            for each in refs
        ]
        task["artifacts"] = [answer, *made]
    task["metadata"] = {"runId": reply.token.run_id}
    history = [
        Message(
            role=each.role,
            parts=[Part(text=remove_marks(each.text))],
            message_id=each.id,
            task_id=task["id"],
            context_id=context_id,
        )
        for each in reply.history
    ]
    if history:
        task["history"] = history
    return task


def _artifact_part(made: MadeArtifact, data: Mapping[str, Any]) -> Part:
    if (file := made.attachment) and made.ref in data:
        return Part(url=data[made.ref], filename=file.name, media_type=file.media_type)
    return Part(data=data.get(made.ref, {"ref": made.ref}), media_type="application/json")


def limit_history(task: Task, most: int | None) -> None:
    """Remove all but the newest messages of a task's history (A2A 1.0, section 3.2.4)."""
    if most is not None and "history" in task:
        task["history"] = task["history"][-most:] if most > 0 else []
        if not task["history"]:
            del task["history"]


def _question_parts(view: WaitView) -> list[Part]:
    data = Part(data=json.loads(json.dumps(_json_of(view))), media_type="application/json")
    if view.call is None:
        return [Part(text=chat_text(view)), data]
    how = f"Answer `yes {view.ref.code}` to run it. Any other answer denies it, and is the reason."
    return [Part(text=f"{chat_text(view)}\n\n{how}"), data]


def _json_of(view: WaitView) -> dict[str, Any]:
    (wait,) = client_waits(view, view.run_id)
    return wait.json


EDITED = "arguments"
"""The field of an approval with edited arguments."""


class RunStorage(Storage[Any]):
    """The tasks of one agent that a principal may see."""

    def __init__(self, service: Service, asking: Principal, agent_id: str) -> None:
        self._service = service
        self._asking = asking
        self._agent_id = agent_id
        self._submitted = Task(id="", context_id="", status={"state": "submitted"})

    async def load_task(self, task_id: str, history_length: int | None = None) -> Task:
        require(self._asking, "viewer")
        task = await self.task(await token_of_task(self._service, self._asking, task_id))
        limit_history(task, history_length)
        return task

    async def task(self, token: ReplyToken) -> Task:
        reply = await read(self._service, token, is_task=True)
        status = await self._service.client.get_run(token.run_id).status()
        data = await artifact_data(self._service, self._asking, reply)
        return task_of(reply, status.session_id, data)

    async def submit_task(self, context_id: str, message: Message) -> Task:
        """Send a message to a task or a context.

        A message to a task that waits for an answer is that answer. Any other message opens a turn of its context.
        """
        del context_id  # the library makes one up if the message has none
        require(self._asking, "user")
        said = read_message(message["parts"], _part)
        if task_id := message.get("task_id"):
            token = await token_of_task(self._service, self._asking, task_id)
            await self._answer(token, message, said.text)
            return await self._submit(token)
        # A client that retries its first message has no context id yet, and means the same context.
        session_id = (
            message.get("context_id") or f"a2a-{digest_of(self._asking.subject, message['message_id'])}"
        )
        named = IncomingMessage(said, _id_of(message))
        token = await deliver_to_session(
            self._service, self._asking, self._agent_id, session_id, named, queues=True
        )
        release_files()
        return await self._submit(token)

    async def _submit(self, token: ReplyToken) -> Task:
        self._submitted = await self.task(token)
        return self._submitted

    async def refresh(self, reply: AgentReply) -> None:
        """Update the submitted task. Its context stays, which a reply does not know."""
        data = await artifact_data(self._service, self._asking, reply)
        self._submitted.update(task_of(reply, self._submitted["context_id"], data))

    def limit_history(self, most: int | None) -> None:
        limit_history(self._submitted, most)

    async def _answer(self, token: ReplyToken, message: Message, text: str) -> None:
        """Answer a wait of a task, once.

        Data with `await_id` names the wait. Another message answers the oldest wait.
        """
        service, asking = self._service, self._asking
        reply = await read(service, token, is_task=True)
        fields = next((data for part in message["parts"] if (data := _data_of(part))), dict[str, Any]())
        named = fields.get("await_id")
        message_id = "" if named is not None else _id_of(message)
        if message_id and message_id == token.message_id:
            raise reuse_problem(message_id, token.run_id)
        if delivery := reply.answer_to(message_id):
            IncomingMessage(Words.user(text), message_id).check_same(delivery, token.run_id)
            return
        waits = [view for view in reply.waits if named in (None, view.await_id)]
        if not waits:
            await self._check_repeated(reply, str(named), fields, text)
            return
        conversation = service.client.get_run(token.run_id)
        answer = _answer_of(waits[0], fields, text)
        await submit_answer(
            service, asking, waits[0], answer, message_id=message_id, conversation=conversation
        )

    async def _check_repeated(
        self, reply: AgentReply, await_id: str, fields: dict[str, Any], text: str
    ) -> None:
        """Accept an answer that a closed wait has, since clients retry without a reply."""
        for decision in reply.tree.decisions:
            if decision.wait is not None and decision.event.await_id == await_id:
                view = wait_view(decision.wait, decision.event.run_id)
                given = _answer_of(view, fields, text)
                accept_repetition(self._asking, decision, given)
                return
        message = "the task asks nothing: send the message to its context, without the task"
        raise UnknownWait(message, run_id=reply.token.run_id)

    async def update_task(
        self,
        task_id: str,
        state: TaskState,
        new_artifacts: list[Artifact] | None = None,
        new_messages: list[Message] | None = None,
    ) -> Task:
        raise NotImplementedError  # the library calls it in its own worker only, and Temporal runs our tasks

    async def load_context(self, context_id: str) -> None:
        """Nothing: a context is a conversation, which knows itself."""

    async def update_context(self, context_id: str, context: Any) -> None:
        """Nothing, as above."""


def _id_of(message: Message) -> str:
    id = message["message_id"]
    return id if len(id) <= MAX_MESSAGE_ID else f"{id[: MAX_MESSAGE_ID - 33]}-{digest_of(id)}"


def _answer_of(view: WaitView, fields: dict[str, Any], text: str) -> GivenAnswer:
    """Read data and text as the answer to a wait.

    An approval names the call that was displayed, by its digest or its code. Data that has nothing but the wait's id
    leaves the decision to the text.
    """
    if view.call is None:
        return parse_answer(view, text)
    digest, verdict = view.digest or "", read_verdict(text)
    decision: Decision | None = None
    is_seen, approved = verdict.code == view.ref.code, verdict.is_approved
    if fields.keys() - {"await_id", "text"}:
        decision = parse_decision(view, fields, DECISION, edited_as=EDITED)
        is_seen, approved = str(fields.get("digest"))[:12] == digest[:12], decision.approved
    if approved and not is_seen:
        message = f"an approval names the call that was seen: answer yes {view.ref.code}, once it was seen"
        raise StaleDigest(message, run_id=view.run_id, await_id=view.await_id, digest=digest)
    return decision or parse_answer(view, text)


def _data_of(part: Any) -> dict[str, Any]:
    data: Any = part.get("data")
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def _part(part: Any) -> MessagePart:
    if isinstance(text := part.get("text"), str):
        return text_part(text)
    if isinstance(raw := part.get("raw"), str):
        media_type = str(part.get("media_type") or "application/octet-stream")
        return file_part(media_type, data=raw, title=part.get("filename"))
    if isinstance(part.get("data"), dict):
        data = _data_of(part)
        return text_part(str(data.get("text") or data.get("reason") or ""))
    raise Problem(
        422, "invalid_input", "a part is a text, a file in base64 or an object", then="No URL is fetched."
    )
