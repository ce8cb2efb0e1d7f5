"""A local planner with local tools: the floor's work without its activities, and the goals of its cost."""

from typing import Any

from bench.agents import echo_locally, planning, policy, tools
from sojourn import Agent, App

__all__ = ["GOALS", "NAME", "app", "judged"]

NAME = "local-planner"
"""The contender."""

GOALS = {"latency": ("≤", 0.35), "runs_per_second": ("≥", 2.0)}
"""The bound of a figure's ratio to the floor."""

app = App(
    agents=[
        Agent("bench.near", planner=planning(echo_locally), uses=[tools], policy=policy, local=True),
    ]
)


def judged(summary: dict[str, Any]) -> str:
    """Each goal with its ratio, and whether it is reached; empty where the contender did not take part."""
    figures = summary.get(NAME, {})
    return "  ".join(
        f"{name} {ratio:.3f} {sign} {bound}: {'reached' if _reaches(ratio, sign, bound) else 'missed'}"
        for name, (sign, bound) in GOALS.items()
        if (ratio := figures.get(name, {}).get("ratio")) is not None
    )


def _reaches(ratio: float, sign: str, bound: float) -> bool:
    return ratio <= bound if sign == "≤" else ratio >= bound
