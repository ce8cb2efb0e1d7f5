"""Storage: tasks as the histories have them; to submit one is to send its message, once."""

from contextlib import aclosing
from functools import partial
from typing import Any, cast

from fasta2a.schema import Artifact, Message, Task, TaskState
from fasta2a.storage import Storage

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.message import DocumentPart, ImagePart, Part, TextPart
from sojourn.contracts.message import Message as Words
from sojourn.contracts.principal import Principal
from sojourn.core.run.inbox import MAX_ID_CHARS
from sojourn.errors import RunNotFound
from sojourn.http.problems import Problem
from sojourn.http.protocols.a2a.tasks import artifact_data, limit_history, task_of
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.attempts import attempted
from sojourn.http.protocols.decision import check_fields
from sojourn.http.protocols.delivery_log import Delivered
from sojourn.http.protocols.reply import Reply, read, recorded
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.talking import Said, digest_of, repeated, reused, say_in_session
from sojourn.http.protocols.verdict import Verdict, is_same_answer, verdict_of
from sojourn.http.security.principals import require
from sojourn.http.service import Service

__all__ = ["RunStorage", "place_of_task"]


class RunStorage(Storage[Any]):
    """The tasks of one agent that a principal may see.

    Args:
        service: The service.
        asking: Who asks.
        agent_id: The agent.
    """

    def __init__(self, service: Service, asking: Principal, agent_id: str) -> None:
        self._service = service
        self._asking = asking
        self._agent_id = agent_id
        self._submitted = Task(id="", context_id="", status={"state": "submitted"})

    async def load_task(self, task_id: str, history_length: int | None = None) -> Task:
        """The task as it is now.

        Raises:
            RunNotFound: There is none for the principal.
        """
        require(self._asking, "viewer")
        task = await self.task(await place_of_task(self._service, self._asking, task_id))
        limit_history(task, history_length)
        return task

    async def task(self, token: ReplyToken) -> Task:
        """The task of a token."""
        reply = await read(self._service, token, is_task=True)
        status = await self._service.client.get_run(token.run_id).status()
        data = await artifact_data(self._service, self._asking, reply)
        return task_of(reply, status.session_id, data)

    async def submit_task(self, context_id: str, message: Message) -> Task:
        """Send a message: to a task that asks something it is the answer, else it opens a turn of its context.

        Raises:
            Problem: The principal may not, or the task asks nothing.
            RunError: The run does not take it.
        """
        del context_id  # made by the library where the message has none
        require(self._asking, "user")
        said = Words(role="user", parts=[_part(part) for part in message["parts"]])
        if task_id := message.get("task_id"):
            token = await place_of_task(self._service, self._asking, task_id)
            await attempted(partial(self._answer, token, message, said.text))
            return await self._submit(token)
        # A client that sends its first message again has no context yet, and means the same one.
        session_id = (
            message.get("context_id") or f"a2a-{digest_of(self._asking.subject, message['message_id'])}"
        )
        named = Said(said, _id_of(message))
        token = await say_in_session(self._service, self._asking, self._agent_id, session_id, named)
        return await self._submit(token)

    async def _submit(self, token: ReplyToken) -> Task:
        self._submitted = await self.task(token)
        return self._submitted

    async def refresh(self, reply: Reply) -> None:
        """Let the task that this request has submitted be as it was read now, in its context, which the library does not know."""
        data = await artifact_data(self._service, self._asking, reply)
        self._submitted.update(task_of(reply, self._submitted["context_id"], data))

    def limit_history(self, most: int | None) -> None:
        """Leave the newest messages of the history of the task that this request has submitted only."""
        limit_history(self._submitted, most)

    async def _answer(self, token: ReplyToken, message: Message, text: str) -> None:
        """Answer what a task asks, once.

        Raises:
            Problem: The principal may not, or the task asks nothing.
            RunError: The run does not take it.
        """
        reply = await read(self._service, token, is_task=True)
        data: list[Any] = [part.get("data") for part in message["parts"]]
        given = next(
            (cast("dict[str, Any]", each) for each in data if isinstance(each, dict)), dict[str, Any]()
        )
        asked, named = reply.asked, given.get("await_id")
        message_id = "" if named is not None else _id_of(message)  # what names its wait is that wait's
        if message_id and message_id == token.message_id:
            raise reused(message_id, token.run_id)
        if event := reply.answers.get(message_id):
            repeated(Delivered(token, event), Said(Words.user(text), message_id))
            return
        if named is not None:
            asked = next((each for each in reply.waits if each.wait.id == named), None)
        if asked is None:
            if named is not None and await self._has_answered(token, str(named), given, text):
                return
            raise Problem(
                409,
                "await_closed",
                "the task asks nothing",
                then="Send the message to its context, without the task.",
            )
        if isinstance(asked.wait, AwaitConfirmation):
            check_fields(given, ("await_id", "approved", "digest", "reason", "text"))
            verdict = _verdict(asked, asked.wait.payload_digest, given, text)
            await asked.decide(self._service, self._asking, verdict, token.run_id, message_id)
        else:
            await asked.settle(self._service, self._asking, text, token.run_id, message_id)

    async def _has_answered(self, token: ReplyToken, await_id: str, given: dict[str, Any], text: str) -> bool:
        """Whether the principal gave a wait that is closed this answer before: a client that got no reply sends it again."""
        async with aclosing(recorded(self._service, token)) as events:
            async for event, _ in events:
                if isinstance(event, AwaitAnsweredEvent) and event.await_id == await_id:
                    is_decided = event.approved is not None and "approved" in given
                    is_same = (
                        event.approved == (given["approved"] is True)
                        if is_decided
                        else is_same_answer(event, text)
                    )
                    return is_same and event.by == self._asking.subject
        return False

    async def update_task(
        self,
        task_id: str,
        state: TaskState,
        new_artifacts: list[Artifact] | None = None,
        new_messages: list[Message] | None = None,
    ) -> Task:
        """Never called: a worker of the library's changes tasks, and here there is none."""
        raise NotImplementedError

    async def load_context(self, context_id: str) -> None:
        """Nothing: a context is a conversation, which knows itself."""

    async def update_context(self, context_id: str, context: Any) -> None:
        """Nothing, as above."""


async def place_of_task(service: Service, asking: Principal, task_id: str) -> ReplyToken:
    """The token of a task that the principal may see.

    Raises:
        RunNotFound: There is none.
    """
    token = ReplyToken.parse(task_id)
    if token is None:
        raise RunNotFound(f"there is no task {task_id[:80]!r}")
    await service.run(asking, token.run_id)
    return token


def _id_of(message: Message) -> str:
    """The id of a message, as a conversation knows it."""
    id = message["message_id"]
    return id if len(id) <= MAX_ID_CHARS else f"{id[: MAX_ID_CHARS - 33]}-{digest_of(id)}"


def _verdict(asked: Asked, digest: str, given: dict[str, Any], text: str) -> Verdict:
    """The decision on a call; an approval names the call that was seen.

    Raises:
        Problem: It names none, or another one.
    """
    if "approved" in given:
        verdict = Verdict(given["approved"] is True, reason=str(given.get("reason") or ""))
        is_seen = str(given.get("digest"))[:12] == digest[:12]
    else:
        verdict = verdict_of(text)
        is_seen = verdict.code == asked.code
    if verdict.is_approved and not is_seen:
        raise Problem(
            409,
            "stale_digest",
            "an approval names the call that was seen",
            then=f"Answer yes {asked.code}, once it was seen.",
        )
    return verdict


def _part(part: Any) -> Part:
    if isinstance(text := part.get("text"), str):
        return TextPart(type="text", text=text)
    if isinstance(raw := part.get("raw"), str):
        media_type = str(part.get("media_type") or "application/octet-stream")
        if media_type.startswith("image/"):
            return ImagePart(type="image", media_type=media_type, data=raw)
        return DocumentPart(type="document", media_type=media_type, data=raw, title=part.get("filename"))
    if isinstance(part.get("data"), dict):
        data: dict[str, Any] = part["data"]
        return TextPart(type="text", text=str(data.get("text") or data.get("reason") or ""))
    raise Problem(
        422, "invalid_input", "a part is a text, a file in base64 or an object", then="No URL is fetched."
    )
