"""What a replay finds in a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Finding", "FindingKind", "RunReport"]

FindingKind = Literal[
    "unreadable",
    "nondeterminism",
    "agent_gone",
    "tool_gone",
    "arguments_refused",
    "result_refused",
    "wait_changed",
    "queue_gone",
    "planner_fails",
    "passes_by",
    "repeats",
    "decides_otherwise",
    "not_compared",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between a recorded run and today's code and app."""

    kind: FindingKind
    text: str
    """What differs, and what becomes of the run, in a sentence or two."""
    is_problem: bool = True
    """Whether the run would fail, wait for ever, or repeat an effect; else it is a note."""
    plan: int | None = None
    """The number of the plan, if a plan differs."""
    event: int | None = None
    """The number of Temporal's history event, if the workflow differs."""
    detail: str = ""
    """The difference of two plans, line by line."""

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "problem": self.is_problem, "text": self.text}
        more = {"plan": self.plan, "event": self.event, "detail": self.detail or None}
        return found | {name: value for name, value in more.items() if value is not None}


@dataclass(slots=True)
class RunReport:
    """What a replay found in one run."""

    source: str
    """The file, or the id of the run on the server."""
    run_id: str = ""
    agent_id: str = ""
    is_open: bool = False
    """Whether the recording ends while the run is open."""
    findings: list[Finding] = field(default_factory=list[Finding])
    plans: int = 0
    """The plans that were made again."""
    plans_by_model: int = 0
    """The plans that were not made again, since a model decides them."""

    @property
    def problems(self) -> Sequence[Finding]:
        return [each for each in self.findings if each.is_problem]

    @property
    def notes(self) -> Sequence[Finding]:
        return [each for each in self.findings if not each.is_problem]

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "run_id": self.run_id,
            "agent_id": self.agent_id,
            "open": self.is_open,
            "ok": not self.problems,
            "plans": self.plans,
            "plans_by_model": self.plans_by_model,
            "findings": [each.to_json() for each in self.findings],
        }
