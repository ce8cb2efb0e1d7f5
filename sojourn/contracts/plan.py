"""The input and the result of a planner and of a policy engine."""

from datetime import timedelta
from typing import Any, Protocol, TypeVar, overload

from pydantic import AliasChoices, Field

from sojourn.contracts.awaits import AwaitClarification, PlannerWait
from sojourn.contracts.ids import ToolId
from sojourn.contracts.memory import MemoryPatch, SessionMemory, read_only
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Input, Record
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.taint import Taint
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import Bounds, RunLink, ToolResult
from sojourn.contracts.tool_spec import ToolSpec

__all__ = [
    "Finalize",
    "PlanInput",
    "PlanResult",
    "PlanResumeInput",
    "PolicyDecision",
    "PolicyInput",
    "RunContext",
    "Turn",
    "TypedTool",
    "Usage",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class TypedTool(Protocol[T_co]):
    """A tool that knows the type of its results.

    An example is a function declared with `@toolset.tool`.
    """

    @property
    def id(self) -> ToolId:
        """`<service>.<toolset>.<tool>`."""
        ...

    def result_of(self, result: ToolResult) -> T_co:
        """Return the typed value of a successful result of this tool."""
        ...


class RunContext(Record):
    """The run that a planner decides for."""

    run_id: str
    """The id of the run, which is also its workflow id."""
    agent_id: str
    """The agent of the run."""
    session_id: str = ""
    """Groups the runs of a conversation."""
    turn_id: str = ""
    """The user turn: `t1` at the start, then one more for each answer."""
    parent: RunLink | None = None
    """In a child run: the parent's call that the run answers."""
    labels: dict[str, str] = {}
    """Set at the start; they authorise nothing."""
    principal: Principal | None = None
    """The principal for whom the turn acts, as a program had authenticated it: the sender of its message, else of the run's start, or None."""
    depth: int = 0
    """Number of agents above this one."""
    callers: list[str] = []
    """Ids of the agents above this one, outermost first."""
    interrupts_allowed: bool = False
    """Whether this run may ask a person."""
    taint: Taint | None = None
    """The text from outside that the run has read, or None if its version does not follow it."""
    memory: SessionMemory = Field(default_factory=lambda: read_only({}))
    """The run's knowledge beside its transcript. A plan or a tool changes it by a patch."""
    answer: dict[str, Any] | None = None
    """In a child run whose parent expects a typed answer: its JSON Schema, for `PlanResult.final(text, result=...)`."""


class Usage(Record):
    """A plan's usage of a model."""

    input_tokens: int = 0
    """Tokens read."""
    output_tokens: int = 0
    """Tokens written."""
    cached_tokens: int = 0
    """Of the tokens read, those from the provider's cache."""
    cache_write_tokens: int = 0
    """Of the tokens read, those written to the provider's cache, which cost more than others."""
    cost: float | None = None
    """In US dollars, when known."""
    model: str | None = None
    """The model, as its provider names it."""


class Finalize(Record):
    """Why this turn must be the last: the planner may only answer or fail."""

    reason: str
    """`max_tool_calls` `max_tool_rounds` `failure_streak` `retries_stopped` `loop` `time_budget` `max_tokens` `max_cost`
    `missing_fields` `history`; an open set. `approval_open`: the turn goes on, and only this plan may do nothing but answer a message.
    """
    message: str
    """The reason for a person: a sentence, or a block that also says what can be done."""
    instruction: str = ""
    """The instruction to the planner."""

    @property
    def notice(self) -> str:
        """The message and the instruction, as the transcript holds them."""
        separator = "\n" if "\n" in self.message else " "
        return f"{self.message}{separator}{self.instruction}" if self.instruction else self.message


class PlanInput(Record):
    """A planner's turn: all that a planner may know when it decides; `Turn` is its short name.

    The first turn of a run, and of each turn of a conversation, gets a `PlanInput`; each later one, after a step, an answer or a wait, a `PlanResumeInput`
    with the same fields:

    - `messages`: the transcript, oldest first; `turn_start` is where the present turn begins in it.
    - `tool_results`, `hints`: the results of the last step, and how its failed calls can be repaired.
    - `results`, `last(tool)`: the results of all steps, in a conversation of the present turn, and the last one of a tool.
    - `tools`, `caps`: the tools that can be called now, and the rest of the limits.
    - `server_instructions`: what MCP servers say about the use of their tools.
    - `memory`: what the run knows beside the transcript, read-only; `PlanResult(memory=...)` changes it.
    - `reminders`: notices for this turn only, such as why the last plan was refused.
    - `run`: the run's ids and labels, who asked for it, and whether it may ask a person.
    - `finalize`: in the last turn, why it is the last; the planner can then only answer or fail.
    """

    run: RunContext
    """The run that the planner decides for."""
    messages: list[Message]
    """The transcript."""
    turn_start: int = 0
    """The index in `messages` of the first message that opened the present turn of a conversation, or a run that began with an earlier talk; else 0."""
    tools: list[ToolSpec]
    """The tools this agent may use now."""
    caps: Caps = Caps()
    """The rest of the limits."""
    server_instructions: dict[str, str] = {}
    """What MCP servers say of how to use their tools, by toolset; a server is a stranger, whose words are no instructions of the app."""
    reminders: list[str] = []
    """Notices for this turn only, such as why the last plan was refused."""
    tool_results: list[ToolResult] = []
    """The results of the last step, in call order; empty at the start."""
    hints: list[RetryHint] = []
    """The hints of the last step's failures, in call order; empty at the start."""
    finalize: Finalize | None = None
    """When set, the plan must be a final response or a failure; never set at the start."""

    @property
    def memory(self) -> SessionMemory:
        """Read-only memory of the run, besides its transcript.

        A plan changes it by its own `memory`, a tool by `WithMemory`.
        """
        return self.run.memory

    @property
    def results(self) -> list[ToolResult]:
        """The results of all steps of the run, in order.

        In a conversation, those of the present turn. `tool_results` has those of the last step
        only.
        """
        return [result for message in self.messages[self.turn_start :] for result in message.tool_results]

    @overload
    def last(self, tool: str) -> ToolResult | None: ...
    @overload
    def last(self, tool: TypedTool[T]) -> T | None: ...
    def last(self, tool: str | TypedTool[Any]) -> Any:
        """Return the last result of a tool in the run, or in a conversation's turn.

        Args:
            tool: A tool, for the typed value of its last result; or its id, for the `ToolResult`, with the error of a
                call that failed.

        Returns:
            None if the tool has no result yet and, for a tool, also if its last call failed.
        """
        id = tool if isinstance(tool, str) else tool.id
        found = next((result for result in reversed(self.results) if result.name == id), None)
        if found is None or isinstance(tool, str):
            return found
        return tool.result_of(found) if found.ok else None


class PlanResumeInput(PlanInput):
    """A later turn of a run, after a step, an answer or a wait.

    It has the fields of a `PlanInput`.
    """


Turn = PlanInput
"""Any turn of a run: a `PlanInput`, or a `PlanResumeInput`, which is one too."""


class PlanResult(Input):
    """A planner's decision: exactly one of `tool_calls`, `final_response`, `await_`, `wait_`, `failure`."""

    tool_calls: list[ToolRequest] = []
    """Calls of one step."""
    unfinished: str | None = None
    """Why the last of `tool_calls` is not executed: a model's response was cut off in it. The call is answered with this text."""
    final_response: Message | None = None
    """The run's answer."""
    await_: PlannerWait | None = Field(
        default=None, validation_alias=AliasChoices("await", "await_"), serialization_alias="await"
    )
    """A question to a person, or calls that a program outside the run executes; needs `interrupts_allowed`."""
    wait_: timedelta | None = Field(
        default=None, validation_alias=AliasChoices("wait", "wait_"), serialization_alias="wait"
    )
    """How long to sleep durably before the next plan."""
    wait_counts: bool = False
    """Whether the sleep counts as active time, which a time budget limits."""
    failure: ToolError | None = None
    """The error that fails the run at once; callers get the whole chain of causes."""
    result: Any = None
    """The typed answer that belongs to `final_response`, as JSON."""
    message: Message | None = None
    """The assistant message as the model wrote it, taken into the transcript unchanged."""
    notes: list[str] = []
    """Notes for people who follow the run; not in the transcript."""
    usage: Usage | None = None
    """The plan's usage of a model."""
    memory: MemoryPatch = {}
    """A change of the run's memory, as a JSON Merge Patch (RFC 7396): fields are set, objects merged, and None removes a field."""

    @classmethod
    def calls(
        cls,
        *requests: ToolRequest,
        notes: list[str] | None = None,
        memory: dict[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> "PlanResult":
        """Request these calls. The plan records its usage, if given."""
        return cls(tool_calls=list(requests), notes=notes or [], memory=memory or {}, usage=usage)

    @classmethod
    def final(
        cls,
        text: str,
        *,
        result: Any = None,
        notes: list[str] | None = None,
        memory: dict[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> "PlanResult":
        """Answer, and so end the run, or in a conversation the turn.

        The plan records its usage, if given.
        """
        final = Message.assistant(text)
        return cls(final_response=final, result=result, notes=notes or [], memory=memory or {}, usage=usage)

    @classmethod
    def ask(
        cls,
        question: str | PlannerWait,
        *,
        notes: list[str] | None = None,
        memory: dict[str, Any] | None = None,
    ) -> "PlanResult":
        """Ask a person a question, or have calls executed outside, and wait.

        A question is a text, or has a form.
        """
        asked = AwaitClarification(question=question) if isinstance(question, str) else question
        return cls(await_=asked, notes=notes or [], memory=memory or {})

    @classmethod
    def wait(
        cls,
        duration: timedelta,
        *,
        counts: bool = False,
        notes: list[str] | None = None,
        memory: dict[str, Any] | None = None,
    ) -> "PlanResult":
        """Sleep durably, then plan again. With `counts` the sleep uses the time budget."""
        return cls(wait_=duration, wait_counts=counts, notes=notes or [], memory=memory or {})

    @classmethod
    def fail(
        cls, error: ToolError | str, *, notes: list[str] | None = None, memory: dict[str, Any] | None = None
    ) -> "PlanResult":
        """Fail the run at once, without another attempt.

        Callers, clients and events get the chain of causes.
        """
        failure = ToolError.new(error) if isinstance(error, str) else error
        return cls(failure=failure, notes=notes or [], memory=memory or {})


class PolicyInput(Record):
    """The input of a policy engine's decision (SR-125)."""

    run: RunContext
    """The run that the decision is about."""
    specs: list[ToolSpec]
    """The tools that the run's policy allows."""
    requested: list[ToolRequest] = []
    """The calls that the planner requests; empty before the planner has planned."""
    hints: list[RetryHint] = []
    """The hints of the last step's failures, in call order."""
    bounds: list[Bounds] = []
    """How the last step's results were cut down, in call order."""
    caps: Caps = Caps()
    """The rest of the limits."""

    @property
    def principal(self) -> Principal | None:
        """The principal for whom the turn acts, or None if it is not known.

        It is the sender of the turn's message, else the starter of the run.
        """
        return self.run.principal


class PolicyDecision(Input):
    """A policy engine's changes. An empty decision changes nothing.

    It tightens limits and tools. Of approvals it also loosens: `approve` lets a call run unasked that a rule of the policy would
    ask about.
    """

    allowed_tools: list[str] | None = None
    """Only these tools are offered and run in this turn; a tool's id, or a toolset as `ops.devices.*`."""
    disable_tools: list[str] = []
    """These tools are neither offered nor run in this turn."""
    approve: list[str] = []
    """Tools, or calls by their tool_call_id, that run without the approval that they would otherwise need."""
    ask: list[str] = []
    """Tools, or calls by their tool_call_id, that need an approval."""
    caps: Caps | None = None
    """New caps on calls, rounds, time, tokens and cost from now on. A cap applies only if it is lower than before."""
    labels: dict[str, str] = {}
    """Labels to add to the run's from now on."""
    reason: str = ""
    """The reason, for people."""
