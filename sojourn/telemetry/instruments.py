"""Instruments: the metrics, each by its name and unit; docs/observability.md lists the same, and a test compares."""

from dataclasses import dataclass
from typing import Final

from opentelemetry.metrics import Counter, Histogram, Meter

__all__ = ["METRICS", "Instruments"]

METRICS: Final = {
    "sojourn.runs.started": ("{run}", "Runs begun"),
    "sojourn.runs.ended": ("{run}", "Runs that completed, failed or were canceled"),
    "gen_ai.invoke_agent.duration": ("s", "From a run's start to its end, waiting included"),
    "sojourn.plan.duration": ("s", "One turn of a planner"),
    "gen_ai.client.token.usage": ("{token}", "Tokens that a plan used of a model"),
    "sojourn.tool.calls": ("{call}", "Calls answered, each once"),
    "sojourn.tool.errors": ("{call}", "Calls answered with an error"),
    "sojourn.tool.repairs": (
        "{call}",
        "Calls that succeeded after one of the same tool had failed with a hint",
    ),
    "gen_ai.execute_tool.duration": ("s", "One execution of a tool by a worker"),
    "sojourn.awaits": ("{await}", "Waits begun for somebody"),
    "sojourn.await.duration": ("s", "How long a wait was open"),
}
"""Name to unit and description."""

_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 300, 3600)
_LONG = (1, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800, 2_592_000)
_TOKENS = tuple(float(4**power) for power in range(14))


@dataclass(frozen=True, slots=True)
class Instruments:
    """All of them, made once."""

    runs_started: Counter
    runs_ended: Counter
    run_duration: Histogram
    plan_duration: Histogram
    tokens: Histogram
    calls: Counter
    errors: Counter
    repairs: Counter
    tool_duration: Histogram
    awaits: Counter
    await_duration: Histogram

    @classmethod
    def of(cls, meter: Meter) -> "Instruments":
        """The instruments of a meter."""

        def counter(name: str) -> Counter:
            unit, description = METRICS[name]
            return meter.create_counter(name, unit, description)

        def histogram(name: str, boundaries: tuple[float, ...]) -> Histogram:
            unit, description = METRICS[name]
            return meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=boundaries
            )

        return cls(
            runs_started=counter("sojourn.runs.started"),
            runs_ended=counter("sojourn.runs.ended"),
            run_duration=histogram("gen_ai.invoke_agent.duration", _SECONDS),
            plan_duration=histogram("sojourn.plan.duration", _SECONDS),
            tokens=histogram("gen_ai.client.token.usage", _TOKENS),
            calls=counter("sojourn.tool.calls"),
            errors=counter("sojourn.tool.errors"),
            repairs=counter("sojourn.tool.repairs"),
            tool_duration=histogram("gen_ai.execute_tool.duration", _SECONDS),
            awaits=counter("sojourn.awaits"),
            await_duration=histogram("sojourn.await.duration", _LONG),
        )
