"""Spent: the tokens and the money of models, summed."""

from dataclasses import dataclass

from sojourn.contracts.plan import Usage
from sojourn.contracts.tool_result import ToolTelemetry

__all__ = ["Spent"]


@dataclass(frozen=True, slots=True)
class Spent:
    """What was used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None while nothing has told a cost."""

    @classmethod
    def of(cls, used: Usage | ToolTelemetry) -> "Spent":
        """What a record tells."""
        return cls(used.input_tokens, used.output_tokens, used.cost)

    def plus(self, used: Usage | ToolTelemetry | None) -> "Spent":
        """This and what a record tells."""
        if used is None:
            return self
        cost = self.cost if used.cost is None else (self.cost or 0.0) + used.cost
        return Spent(self.input_tokens + used.input_tokens, self.output_tokens + used.output_tokens, cost)

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.input_tokens + self.output_tokens
