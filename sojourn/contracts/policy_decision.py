"""The input and the decision of a policy engine."""

from sojourn.contracts.bounds import Bounds
from sojourn.contracts.plan import RunContext
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Input, Record
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import ToolSpec

__all__ = ["PolicyDecision", "PolicyInput"]


class PolicyInput(Record):
    """What a policy engine decides about (SR-125)."""

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
    """What is left of the limits."""

    @property
    def principal(self) -> Principal | None:
        """For whom the turn acts: who sent its message, else who asked for the run; None where neither is known."""
        return self.run.principal


class PolicyDecision(Input):
    """What a policy engine changes. An empty decision changes nothing.

    It tightens limits and tools. Of approvals it also loosens: `approve` lets a call run unasked that a rule of the policy would
    ask about.
    """

    allowed_tools: list[str] | None = None
    """Only these tools are offered and run in this turn; a tool's id, or a toolset as `ops.devices.*`."""
    disable_tools: list[str] = []
    """These tools are neither offered nor run in this turn."""
    approve: list[str] = []
    """Tools, or calls by their tool_call_id, that run where a person would otherwise be asked."""
    ask: list[str] = []
    """Tools, or calls by their tool_call_id, that a person is asked about."""
    caps: Caps | None = None
    """New caps on calls, rounds, time, tokens and cost from now on; a cap applies only where it is lower than before."""
    labels: dict[str, str] = {}
    """Labels to add to the run's from now on."""
    reason: str = ""
    """The reason, for people."""
