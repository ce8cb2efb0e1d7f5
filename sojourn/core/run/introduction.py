"""What Temporal's screens show of a run from its start: memo, summary and details."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput
from sojourn.contracts.wire_names import FORKED_FROM, MESSAGE, TENANT, VISIBLE_TO
from sojourn.core.run.visibility import viewers_of
from sojourn.core.values.text import CUT, clip
from sojourn.core.values.visible import code, fence, visible

__all__ = ["Introduction", "introduce"]

_MAX_MEMO = 200
_MAX_SUMMARY_BYTES = 160
"""Temporal limits a summary to 400 bytes in all, with the agent's id and the overhead of encryption."""

_MAX_DETAILS = 1_000


@dataclass(frozen=True, slots=True)
class Introduction:
    """Memo, summary and details of a run; set at the start, and never changed."""

    memo: dict[str, Any]
    """For lists of runs: `message`, the beginning of the user's message; in a fork also `forked_from`, the origin's id, and for
    somebody of a tenant `tenant`, and where not all of the tenant may see it `visible_to`.
    """
    summary: str
    """One line of Markdown: the agent, and the user's message or, for a child run, the tool that was called."""
    details: str | None
    """Markdown: the user's message and the labels, both fenced, because they come from outside."""


def introduce(run: RunInput, tool: str | None = None, message: str = "") -> Introduction:
    """Introduce a run; a child run by the tool whose call it answers, and one that has no message yet by that with which it begins."""
    message = visible((_last_user_message(run.messages) or message)[: 2 * _MAX_DETAILS], keep="\n")
    what = tool or code(_cut_to_bytes(" ".join(message.split()), _MAX_SUMMARY_BYTES))
    origin = run.forked_from
    fork = [f"**Forked from** {code(origin.run_id)} at event {code(origin.event_id)}"] if origin else []
    asked = [f"**Asked:**\n\n{fence(clip(message, _MAX_DETAILS))}"] if message else []
    parts = [*fork, *asked]
    if run.labels:
        labels = "\n".join(f"{name}: {value}" for name, value in run.labels.items())
        parts.append(f"**Labels:**\n\n{fence(clip(labels, _MAX_DETAILS))}")
    return Introduction(
        memo={
            **({MESSAGE: clip(message, _MAX_MEMO)} if message else {}),
            **({FORKED_FROM: origin.run_id} if origin else {}),
            **({TENANT: run.tenant} if run.tenant else {}),
            **({VISIBLE_TO: list(viewers)} if (viewers := viewers_of(run)) else {}),
        },
        summary=f"{run.agent_id}: {what}" if what else run.agent_id,
        details="\n\n".join(parts) or None,
    )


def _last_user_message(messages: Sequence[Message]) -> str:
    """The last user message of the opening."""
    return next((message.text for message in reversed(messages) if message.role == "user"), "")


def _cut_to_bytes(text: str, most: int) -> str:
    """The text cut to a number of bytes of JSON in UTF-8, in which quotes and backslashes count twice."""
    size = 0
    for index, character in enumerate(text):
        size += 2 if character in '"\\' else len(character.encode(errors="replace"))
        if size > most:
            return text[:index] + CUT
    return text
