"""Render a reply as a response or its events.

The response's id is the reply's token, so any process can find it again.
"""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from sojourn.errors import SojournError
from sojourn.http.event_streams import frame
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.openai.request import error_of
from sojourn.http.protocols.reply import AgentReply, follow
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.service import Service

__all__ = ["response", "response_events", "response_id", "token_of_response"]

_PREFIX = "resp_"
# OpenAI has no event for a cancelled response. Its stream ends like a failed one's, with the status.
_STATUS = {"open": "in_progress", "answered": "completed", "asked": "completed", "failed": "failed"}


def response_id(place: ReplyToken) -> str:
    return _PREFIX + place.text


def token_of_response(id: str) -> ReplyToken | None:
    return ReplyToken.parse(id.removeprefix(_PREFIX)) if id.startswith(_PREFIX) else None


def response(reply: AgentReply, model: str, **more: Any) -> dict[str, Any]:
    status = "cancelled" if reply.is_canceled else _STATUS[reply.state]
    has_ended = reply.state != "open"
    error = None if reply.is_canceled else reply.error
    return {
        "id": response_id(reply.token),
        "object": "response",
        "created_at": reply.begun_at or time.time(),
        "status": status,
        "error": {"code": "server_error", "message": str(error)} if error else None,
        "incomplete_details": None,
        "instructions": None,
        "model": model,
        "output": [_message(reply)] if reply.text or reply.state in ("answered", "asked") else [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "metadata": {},
        "usage": _usage(reply) if has_ended else None,
        **more,
    }


async def response_events(
    service: Service, reply: AgentReply, model: str, **more: Any
) -> AsyncGenerator[str]:
    number = -1

    def told(kind: str, **fields: Any) -> str:
        nonlocal number
        number += 1
        fields = {"type": kind, "sequence_number": number, **fields}
        return frame(json.dumps(fields, ensure_ascii=False), event=kind)

    item_id = _item_id(reply)
    place = {"item_id": item_id, "output_index": 0, "content_index": 0}
    yield told("response.created", response=response(reply, model, **more))
    yield told("response.in_progress", response=response(reply, model, **more))
    opening: dict[str, Any] = {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    yield told("response.output_item.added", output_index=0, item=opening)
    yield told("response.content_part.added", **place, part=_part(""))
    try:
        async with aclosing(follow(service, reply)) as steps:
            async for step in steps:
                if step.text:
                    yield told("response.output_text.delta", **place, delta=step.text, logprobs=[])
    except (Problem, SojournError) as error:
        fault = error_of(problem_of(error))["error"]
        yield told("error", code=fault["code"], message=fault["message"], param=None)
        return
    yield told("response.output_text.done", **place, text=reply.text, logprobs=[])
    yield told("response.content_part.done", **place, part=_part(reply.text))
    yield told("response.output_item.done", output_index=0, item=_message(reply))
    kind = "response.failed" if reply.state == "failed" else "response.completed"
    yield told(kind, response=response(reply, model, **more))


def _message(reply: AgentReply) -> dict[str, Any]:
    status = {"open": "in_progress", "failed": "incomplete"}.get(reply.state, "completed")
    common = {"id": _item_id(reply), "type": "message", "role": "assistant", "status": status}
    return {**common, "content": [_part(reply.text)]}


def _item_id(reply: AgentReply) -> str:
    return f"msg_{reply.token.text}"


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(reply: AgentReply) -> dict[str, Any]:
    used = reply.usage
    return {
        "input_tokens": used.input_tokens,
        "input_tokens_details": {
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens,
        },
        "output_tokens": used.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.input_tokens + used.output_tokens,
    }
