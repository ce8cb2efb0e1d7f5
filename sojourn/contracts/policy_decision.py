"""What a policy engine is given, and what it decides."""

from sojourn.contracts.bounds import Bounds
from sojourn.contracts.plan import RunContext
from sojourn.contracts.record import Input, Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["PolicyDecision", "PolicyInput"]


class PolicyInput(Record):
    """What a policy engine decides about (SR-125)."""

    run: RunContext
    """Which run it is."""
    specs: list[ToolSpec]
    """The tools that the run's policy leaves."""
    requested: list[ToolRequest] = []
    """The calls a planner asks for; empty before it has planned."""
    hints: list[RetryHint] = []
    """The hints of the last step's failures, in call order."""
    bounds: list[Bounds] = []
    """How the last step's results were cut down, in call order."""
    caps: Caps = Caps()
    """What is left of the limits."""


class PolicyDecision(Input):
    """What a policy engine changes; it may tighten, never loosen (D-20). Nothing said changes nothing."""

    allowed_tools: list[str] | None = None
    """Only these are offered and run, this turn; a tool's id, or several as `ops.devices.*`."""
    disable_tools: list[str] = []
    """These are not, this turn."""
    approve: list[str] = []
    """Tools, or calls by their tool_call_id, that run unasked where a person would be asked."""
    ask: list[str] = []
    """Tools, or calls by their tool_call_id, that a person is asked about."""
    caps: Caps | None = None
    """What is left of calls, rounds, time, tokens and cost from here on; only what is less than before counts."""
    labels: dict[str, str] = {}
    """Added to the run's labels from here on."""
    reason: str = ""
    """Why, for people."""
