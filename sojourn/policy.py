"""Limit the actions of a run, by declaration or by code.

A policy engine is code that tightens an author's `RunPolicy` before each plan. It gets the planner's hints
(SR-125).
"""

from typing import Any, Protocol, runtime_checkable

from sojourn.contracts.plan import PolicyDecision, PolicyInput
from sojourn.contracts.run_policy import ApprovalPolicy, Caps, RunPolicy, RunPolicyOverride
from sojourn.contracts.tool_error import FieldIssue, RetryHint, RetryReason
from sojourn.errors import DefinitionError

__all__ = [
    "ApprovalPolicy",
    "Caps",
    "FieldIssue",
    "PolicyDecision",
    "PolicyEngine",
    "PolicyInput",
    "RetryHint",
    "RetryReason",
    "RunPolicy",
    "RunPolicyOverride",
    "as_policy_engine",
]


@runtime_checkable
class PolicyEngine(Protocol):
    """Tightens the limits of a run.

    The plan activity calls it before the planner, and again with the calls of the plan. Its
    decision is recorded. Tools and approvals apply to this plan only, caps and labels from then on.
    It is not called for the final turn. After an exception Temporal tries the activity again, as
    after a planner's.
    """

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        """Return the changes.

        `PolicyDecision()` changes nothing.
        """
        ...


def as_policy_engine(engine: Any) -> PolicyEngine:
    """Return a policy engine unchanged, or refuse another object."""
    if isinstance(engine, PolicyEngine) and not isinstance(engine, type):
        return engine
    what = (
        f"the class {engine.__name__}"
        if isinstance(engine, type)
        else f"an object of class {type(engine).__name__}"
    )
    raise DefinitionError(
        f"App(policy_engine=...) takes an object with `async def decide(self, given)`, which {what} is not"
    )
