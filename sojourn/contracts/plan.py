"""What a planner is given, and what it answers."""

from datetime import timedelta
from typing import Any

from pydantic import AliasChoices, Field

from sojourn.contracts.awaits import AwaitClarification, AwaitExternalTools
from sojourn.contracts.message import Message
from sojourn.contracts.record import Input, Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["Finalize", "PlanInput", "PlanResult", "PlanResumeInput", "RunContext", "Turn", "Usage"]


class RunContext(Record):
    """Which run a planner decides for."""

    run_id: str
    """The run, which is also its workflow id."""
    agent_id: str
    """The agent that runs."""
    session_id: str = ""
    """Groups runs of one conversation."""
    turn_id: str = ""
    """The user turn: `t1` at the start, then one more for each answer."""
    parent: RunLink | None = None
    """In a child run: whose call it answers."""
    labels: dict[str, str] = {}
    """Given at the start; they authorise nothing."""
    depth: int = 0
    """Agents above this one."""
    callers: list[str] = []
    """Their ids, the outermost first."""
    interrupts_allowed: bool = False
    """Whether this run may ask a person."""
    answer: dict[str, Any] | None = None
    """In a child run whose parent expects a typed answer: its JSON Schema, for `PlanResult.final(text, result=...)`."""


class Usage(Record):
    """What a plan used of a model."""

    input_tokens: int = 0
    """Tokens read."""
    output_tokens: int = 0
    """Tokens written."""
    cached_tokens: int = 0
    """Of the tokens read, those from the provider's cache."""
    cost: float | None = None
    """In US dollars, when known."""
    model: str | None = None
    """The model, as its provider names it."""


class Finalize(Record):
    """Why this turn must be the last: it may only answer."""

    reason: str
    """`max_tool_calls` `max_tool_rounds` `failure_streak` `retries_stopped` `loop` `time_budget` `max_tokens` `max_cost`
    `missing_fields` `history`; open."""
    message: str
    """The same in a sentence, or a block with what can be done about it: for the person."""
    instruction: str = ""
    """What the planner is to do now."""

    @property
    def notice(self) -> str:
        """Both, as they stand in the transcript."""
        between = "\n" if "\n" in self.message else " "
        return f"{self.message}{between}{self.instruction}" if self.instruction else self.message


class PlanInput(Record):
    """The first turn of a run."""

    run: RunContext
    """Which run it is."""
    messages: list[Message]
    """The transcript."""
    tools: list[ToolSpec]
    """The tools this agent may use now."""
    caps: Caps = Caps()
    """What is left of the limits."""
    reminders: list[str] = []
    """Notices for this turn only, such as why the last plan was refused."""
    tool_results: list[ToolResult] = []
    """The results of the last step, in call order; empty at the start."""
    hints: list[RetryHint] = []
    """The hints of the last step's failures, in call order; empty at the start."""
    finalize: Finalize | None = None
    """When set, the only legal plan is a final response; never at the start."""


class PlanResumeInput(PlanInput):
    """A later turn: a step was settled, or a question answered."""


Turn = PlanInput | PlanResumeInput
"""Any turn of a run."""


class PlanResult(Input):
    """What a planner decides: exactly one of `tool_calls`, `final_response`, `await_`, `wait_`, `failure`."""

    tool_calls: list[ToolRequest] = []
    """Calls to make, together."""
    final_response: Message | None = None
    """The run's answer."""
    await_: AwaitClarification | AwaitExternalTools | None = Field(
        default=None, validation_alias=AliasChoices("await", "await_"), serialization_alias="await"
    )
    """A question to a person, or calls that somebody outside executes; needs `interrupts_allowed`."""
    wait_: timedelta | None = Field(
        default=None, validation_alias=AliasChoices("wait", "wait_"), serialization_alias="wait"
    )
    """Sleep durably, then plan again."""
    wait_counts: bool = False
    """Whether the sleep is active time, which a time budget limits."""
    failure: ToolError | None = None
    """The run fails with this, at once; its callers get the chain whole."""
    result: Any = None
    """A typed answer beside `final_response`, as JSON."""
    message: Message | None = None
    """The assistant message as a model gave it, taken into the transcript as it is."""
    notes: list[str] = []
    """For people who follow the run; not in the transcript."""
    usage: Usage | None = None
    """What the turn used of a model."""

    @classmethod
    def calls(cls, *requests: ToolRequest, notes: list[str] | None = None) -> "PlanResult":
        """Make these calls."""
        return cls(tool_calls=list(requests), notes=notes or [])

    @classmethod
    def final(cls, text: str, *, result: Any = None, notes: list[str] | None = None) -> "PlanResult":
        """Answer."""
        return cls(final_response=Message.assistant(text), result=result, notes=notes or [])

    @classmethod
    def ask(
        cls, question: AwaitClarification | AwaitExternalTools, *, notes: list[str] | None = None
    ) -> "PlanResult":
        """Ask a person, or have calls executed outside, and park."""
        return cls(await_=question, notes=notes or [])

    @classmethod
    def wait(
        cls, duration: timedelta, *, counts: bool = False, notes: list[str] | None = None
    ) -> "PlanResult":
        """Sleep durably, then plan again; with `counts` the sleep spends the time budget."""
        return cls(wait_=duration, wait_counts=counts, notes=notes or [])

    @classmethod
    def fail(cls, error: ToolError | str, *, notes: list[str] | None = None) -> "PlanResult":
        """Fail the run, at once and with no other attempt; a parent's call, clients and events get the chain (D-26)."""
        failure = ToolError.new(error) if isinstance(error, str) else error
        return cls(failure=failure, notes=notes or [])
