"""Faces: what the commands, the API, the console and the protocols show of a run, each as text."""

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from tests.http.every_protocol import say

__all__ = ["of_run", "of_session", "of_talk"]

Command = Callable[..., Awaitable[Any]]

_MAIN = re.compile(r"<main.*?</main>", re.DOTALL)


async def of_run(served: Any, sojourn: Command, run_id: str) -> dict[str, str]:
    """What is shown of a run as it is now."""
    found = {
        "sojourn show": await _printed(sojourn, "show", run_id),
        "sojourn show --json": _indented((await sojourn("show", run_id, "--json")).out),
        "sojourn show --events": await _printed(sojourn, "show", run_id, "--events"),
        "sojourn show --transcript": await _printed(sojourn, "show", run_id, "--transcript"),
    }
    for path in (
        f"/v1/runs/{run_id}",
        f"/v1/runs/{run_id}/output",
        f"/v1/runs/{run_id}/transcript",
    ):
        found[_named(path, run_id)] = _answered(await served.http.get(path))
    lines = await served.http.get(f"/v1/runs/{run_id}/events", params={"follow": "false", "children": "true"})
    found["GET events"] = lines.text
    waits = await served.http.get("/v1/waits", params={"limit": 100})
    mine = [each for each in waits.json()["waits"] if each["run_id"].startswith(run_id)]
    found["GET /v1/waits"] = _indented(json.dumps(mine))
    found["the page of the run"] = _main(await served.http.get(f"/runs/{run_id}"))
    return found


async def of_session(served: Any, sojourn: Command, session_id: str) -> dict[str, str]:
    """What is shown of a conversation as it is now."""
    run_id = f"shop.clerk@{session_id}"
    return {
        "sojourn show": await _printed(sojourn, "show", run_id),
        "GET /v1/sessions": _answered(await served.http.get(f"/v1/sessions/shop.clerk/{session_id}")),
        "GET transcript": _answered(
            await served.http.get(f"/v1/sessions/shop.clerk/{session_id}/transcript")
        ),
        "GET /talk": _main(await served.http.get(f"/talk/shop.clerk/{session_id}")),
    }


async def of_talk(served: Any, text: str, thread: str) -> dict[str, str]:
    """What each protocol answers to a message that opens a conversation of its own."""

    async def said(name: str, message_id: str = "m-1") -> Any:
        """Send the text in a conversation of the protocol's own."""
        method, path, headers, body = say(name, text, session_id=f"{thread}-{name}", message_id=message_id)
        if name == "a2a":  # which makes a context of its own
            del body["params"]["message"]["contextId"]
        return await served.http.request(method, path, headers=headers, json=body)

    chat = {"model": "shop.clerk", "messages": [{"role": "user", "content": text}]}
    return {
        "openai chat": _answered(await served.post("/openai/v1/chat/completions", chat)),
        "openai chat, streamed": (
            await served.post("/openai/v1/chat/completions", {**chat, "stream": True})
        ).text,
        "openai responses": _answered(
            await served.post("/openai/v1/responses", {"model": "shop.clerk", "input": text})
        ),
        "ag-ui": _streamed(await said("agui")),
        "ai sdk": _streamed(await said("vercel")),
        # The library adds the fields of a task as its events come, so that their order is not fixed.
        "a2a": _answered(await said("a2a", f"{thread}-a2a"), is_sorted=True),
    }


async def _printed(sojourn: Command, *words: str) -> str:
    done = await sojourn(*words)
    return f"{done.out}{done.err}(exit code {done.code})"


def _streamed(answer: Any) -> str:
    """A stream without the status with which it begins: how far the turn is by then is chance."""
    frames = answer.text.split("\n\n")
    return "\n\n".join(
        each for each in frames if '"STATE_SNAPSHOT"' not in each and '"data-status"' not in each
    )


def _named(path: str, run_id: str) -> str:
    return f"GET {path.replace(run_id, 'RUN')}"


def _answered(answer: Any, *, is_sorted: bool = False) -> str:
    return f"{answer.status_code}\n{_indented(answer.text, is_sorted=is_sorted)}"


def _indented(text: str, *, is_sorted: bool = False) -> str:
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False, sort_keys=is_sorted)


def _main(answer: Any) -> str:
    """The part of a page that is about the run."""
    found = _MAIN.search(answer.text)
    return f"{answer.status_code}\n{found[0] if found else answer.text}"
