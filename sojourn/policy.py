"""Policy: who decides what a run may do, beside its planner.

`RunPolicy` and `ApprovalPolicy` are limits that are declared; a policy engine is code that tightens
them turn by turn. Hints reach it in the planners' own form: `RetryHint` here is the same class (SR-125).
"""

from typing import Any, Protocol, runtime_checkable

from sojourn.contracts.approval import ApprovalPolicy
from sojourn.contracts.policy_decision import PolicyDecision, PolicyInput
from sojourn.contracts.retry_hint import FieldIssue, RetryHint, RetryReason
from sojourn.contracts.run_policy import Caps, RunPolicy, RunPolicyOverride
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
    """Tightens what a run may do; runs in the plan activity, before the planner and again on the calls it asks for.

    What it changes is recorded, and holds for the turn: tools, approvals; or from there on: caps, labels.
    An exception is retried by Temporal as a planner's is.
    """

    async def decide(self, given: PolicyInput) -> PolicyDecision:
        """What to change; `PolicyDecision()` changes nothing."""
        ...


def as_policy_engine(engine: Any) -> PolicyEngine:
    """A policy engine as it is.

    Raises:
        DefinitionError: it is none.
    """
    if isinstance(engine, PolicyEngine) and not isinstance(engine, type):
        return engine
    raise DefinitionError(
        f"App(policy_engine=...) takes an object with async decide(given); {engine!r} is none"
    )
