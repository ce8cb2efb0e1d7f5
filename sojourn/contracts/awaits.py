"""What a run waits for; what may be sent in answer is read by hand in `sojourn.core.awaits.answers`."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from sojourn.contracts.record import Input, Record

__all__ = ["Await", "AwaitClarification", "AwaitConfirmation", "AwaitExternalTools", "ExternalCall"]

Expiry = Annotated[timedelta, Field(gt=timedelta(0), le=timedelta(days=3650))]
"""How long a wait may last; Temporal takes no timer that is not positive."""


class AwaitClarification(Input):
    """A question to a person; the run parks until it is answered (SR-94).

    Answered by the update or signal `provide_clarification`: `{"id", "answer": text or values by
    field, "by"}`, or `{"id", "declined": true}`.
    """

    id: str = ""
    """Unique in the run; made so when it is not, and derived when left out (D-16)."""
    question: str
    """What to ask."""
    missing_fields: list[str] = []
    """Fields of `restrict_to_tool` that the answer should give: by name, nested ones by JSON pointer."""
    restrict_to_tool: str | None = None
    """The tool whose call the answer repairs."""
    example_input: dict[str, Any] | None = None
    """A payload that would do."""
    clarifying_prompt: str | None = None
    """More detail, for the person."""
    expires_after: Expiry | None = None
    """How long to wait; then the planner is told that nobody answered. None waits for as long as it takes."""
    form: dict[str, Any] | None = None
    """JSON Schema of values by field, filled in from `restrict_to_tool`: an answer by field has to fit it."""
    closed: bool = False
    """Whether an answer by field holds no other fields; filled in from `form` and `missing_fields`."""
    tool_call_id: str | None = None
    """The call that asks, where a tool needs input to go on; the answer goes to the tool. Of a planner: the call of
    `PlanResult.message` by which its model asks; the answer is its result."""
    server: str | None = None
    """Who asks then: the toolset."""


class AwaitConfirmation(Record):
    """A call that a person is asked about before it runs.

    Answered by the update or signal `provide_confirmation`: `{"id", "approved", "payload_digest", "by",
    "reason", "scope"}`; the scope `tool` stops asking about this tool for the rest of the run.
    """

    id: str
    """Unique in the run."""
    tool_call_id: str
    """The call."""
    tool: str
    """The tool's id."""
    tags: list[str] = []
    """The tool's tags."""
    title: str = ""
    """The tool's title."""
    prompt: str = ""
    """What approving it means, in a sentence."""
    payload: dict[str, Any] = {}
    """The arguments that will run, less what is injected."""
    payload_digest: str = ""
    """Of these arguments, SHA-256; what is approved is what runs."""
    binds: bool = False
    """Whether a decision by signal has to name `payload_digest` too; by update it always has to."""
    spec_digest: str = ""
    """Of the tool as it is declared; one that was changed since does not run."""
    expires_after: Expiry | None = None
    """How long to wait; then the call is denied. None waits for as long as it takes."""


class ExternalCall(Input):
    """One call that somebody outside executes."""

    tool_call_id: str = ""
    """Unique in the run; derived when left out."""
    tool: str
    """The tool's id."""
    payload: dict[str, Any] = {}
    """The arguments."""


class AwaitExternalTools(Input):
    """Calls that somebody outside executes; the run waits for their results.

    Answered by the update or signal `provide_tool_results`: `{"id", "results": [{"tool_call_id",
    "result" or "error", "retry_hint"}], "by"}`, in parts as they come.
    """

    id: str = ""
    """Unique in the run; derived when left out."""
    items: list[ExternalCall]
    """The calls."""
    expires_after: Expiry | None = None
    """How long to wait; what is missing then is answered as `timeout`. None waits for as long as it takes."""


Await = AwaitClarification | AwaitConfirmation | AwaitExternalTools
"""Anything a run waits for; told apart by `question`, `tool_call_id` and `items`."""
