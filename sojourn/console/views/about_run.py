"""What a run was started with, as the head of its page shows it."""

from dataclasses import dataclass, field

__all__ = ["AboutRun"]


@dataclass(frozen=True, slots=True)
class AboutRun:
    """What a run was started with."""

    asked: str = ""
    """The beginning of its message."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    execution: str = ""
    """Its present execution, as Temporal calls it."""
