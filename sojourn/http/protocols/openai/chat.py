"""Render a reply as a chat completion or its chunks.

It also finds the reply that the last message of a chat answers.
"""

import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from sojourn.attachments import comparable
from sojourn.client.start import messages_at_start
from sojourn.contracts.message import Message, TextPart
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.event_streams import frame
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.openai.request import error_of
from sojourn.http.protocols.reply import AgentReply, failure_of, follow
from sojourn.http.protocols.reply_token import OPENING, ReplyToken, mark_of
from sojourn.http.service import Service

__all__ = ["asks", "chunks", "completion", "content_of", "last_reply", "strip_marks"]


def completion(reply: AgentReply, model: str) -> dict[str, Any]:
    text = reply.text + (mark_of(reply.token) if reply.wait else "")
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {**_common(reply, model, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


async def chunks(service: Service, reply: AgentReply, model: str, *, usage: bool) -> AsyncGenerator[str]:
    common = _common(reply, model, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _frame({**common, "choices": [choice], **({"usage": None} if usage else {})})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async with aclosing(follow(service, reply)) as steps:
            async for step in steps:
                if step.text:
                    yield chunk({"content": step.text})
        if reply.state == "failed":
            raise failure_of(reply)
        if reply.wait:
            yield chunk({"content": mark_of(reply.token)})
    except (Problem, SojournError) as error:
        yield _frame(error_of(problem_of(error)))
        return
    yield chunk({}, "stop")
    if usage:
        yield _frame({**common, "choices": [], "usage": _usage(reply)})
    yield frame("[DONE]")


def _common(reply: AgentReply, model: str, kind: str) -> dict[str, Any]:
    made = {"id": f"chatcmpl-{reply.token.text}", "object": kind, "created": int(time.time())}
    return {**made, "model": model}


def _usage(reply: AgentReply) -> dict[str, Any]:
    used = reply.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def _frame(value: dict[str, Any]) -> str:
    return frame(json.dumps(value, ensure_ascii=False))


_MARK = re.compile(rf"\n\n{re.escape(OPENING)}([A-Za-z0-9_-]{{1,4000}})\)\s*\Z")


async def last_reply(
    service: Service, asking: Principal, messages: list[Message], conversation: str
) -> tuple[ReplyToken, str] | None:
    """Return the reply that the last message may answer, and the text it displayed.

    Return None if this chat has no such reply, or the request names another conversation.
    """
    *before, shown = messages[:-1] or [messages[-1]]
    token = _token_in(shown)
    if token is None:
        return None
    if conversation:
        return (token, _strip_mark(shown).text) if token.run_id == conversation else None
    await service.run(asking, token.run_id)
    opening = await messages_at_start(service.client.temporal, token.run_id)
    if not opening or not _has_begun_with(before, opening, token.run_id):
        return None
    return token, _strip_mark(shown).text


def _has_begun_with(before: list[Message], opening: list[Message], run_id: str) -> bool:
    """Check that a chat is the run's first messages, then its replies with answers."""
    first, rest = before[: len(opening)], before[len(opening) :]
    if [content_of(each) for each in strip_marks(first)] != [content_of(each) for each in opening]:
        return False
    replies, answers = rest[::2], rest[1::2]
    tokens = [_token_in(each) for each in replies]
    return (
        len(replies) == len(answers)
        and all(token is not None and token.run_id == run_id for token in tokens)
        and all(each.role == "user" for each in answers)
    )


def asks(message: Message) -> bool:
    """Return whether a reply ends with a question, which the next message answers."""
    return _token_in(message) is not None


def _token_in(message: Message) -> ReplyToken | None:
    found = _MARK.search(message.text) if message.role == "assistant" else None
    return ReplyToken.parse(found[1]) if found else None


def content_of(message: Message) -> list[Any]:
    """Return the content of a message without the white space that clients change."""
    return [
        message.role,
        *(
            part.text.split() if isinstance(part, TextPart) else part.model_dump(mode="json")
            for part in comparable(message).parts
        ),
    ]


def strip_marks(messages: list[Message]) -> list[Message]:
    return [_strip_mark(message) if message.role == "assistant" else message for message in messages]


def _strip_mark(message: Message) -> Message:
    parts = [
        TextPart(type="text", text=_MARK.sub("", part.text)) if isinstance(part, TextPart) else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})
