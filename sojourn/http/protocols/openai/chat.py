"""Chat completions: a reply as one, or as the chunks of a stream."""

import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.following import follow
from sojourn.http.protocols.marks import mark_of
from sojourn.http.protocols.openai.errors import error_of
from sojourn.http.protocols.reading import Reading
from sojourn.http.service import Service

__all__ = ["chunks", "completion", "failure"]


def completion(reading: Reading, model: str) -> dict[str, Any]:
    """The completion of a reply that has ended."""
    text = reading.text + (mark_of(reading.place) if reading.asked else "")
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {**_common(reading, model, "chat.completion"), "choices": [choice], "usage": _usage(reading)}


async def chunks(service: Service, reading: Reading, model: str, *, usage: bool) -> AsyncGenerator[str]:
    """The chunks of a reply, as frames of a stream."""
    common = _common(reading, model, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return _frame({**common, "choices": [choice], **({"usage": None} if usage else {})})

    yield chunk({"role": "assistant", "content": ""})
    try:
        async with aclosing(follow(service, reading)) as told:
            async for step in told:
                if step.text:
                    yield chunk({"content": step.text})
        if reading.state == "failed":
            raise failure(reading)
        if reading.asked:
            yield chunk({"content": mark_of(reading.place)})
    except (Problem, SojournError) as error:
        yield _frame(error_of(problem_of(error)))
        return
    yield chunk({}, "stop")
    if usage:
        yield _frame({**common, "choices": [], "usage": _usage(reading)})
    yield "data: [DONE]\n\n"


def failure(reading: Reading) -> Problem:
    """The problem of a run or turn that failed; not one of those after which clients send a request again."""
    error = reading.error
    code = (error.code if error else "") or "run_failed"
    detail = str(error) if error else "the run failed"
    return Problem(422, code, detail, then=f"The run {reading.place.run_id} has the causes.")


def _common(reading: Reading, model: str, kind: str) -> dict[str, Any]:
    made = {"id": f"chatcmpl-{reading.place.token}", "object": kind, "created": int(time.time())}
    return {**made, "model": model}


def _usage(reading: Reading) -> dict[str, Any]:
    used = reading.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
    }


def _frame(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"
