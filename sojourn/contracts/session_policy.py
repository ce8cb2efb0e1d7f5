"""SessionPolicy: the limits of a conversation as a whole, beside those of `RunPolicy`, which count for each turn."""

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveInt

from sojourn.contracts.declaration import Declaration, PositiveDuration

__all__ = ["SessionPolicy"]


class SessionPolicy(Declaration):
    """The limits of a conversation; None means no limit. A conversation that has reached one ends.

    A run that is no conversation counts as one of a single turn.
    """

    model_config = ConfigDict(extra="forbid")

    max_turns: PositiveInt | None = None
    """Turns of the conversation, failed and interrupted ones too."""
    max_tokens: NonNegativeInt | None = None
    """Tokens read and written by models, in all turns and their child runs."""
    max_cost: NonNegativeFloat | None = None
    """US dollars spent on models, in all turns and their child runs."""
    idle_timeout: PositiveDuration | None = None
    """Longest time between the end of a turn and the next message; a pause does not count."""

    def tightened(self, other: "SessionPolicy") -> "SessionPolicy":
        """The stricter of both policies, field by field."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in type(self).model_fields}
        least = {name: min((v for v in pair if v is not None), default=None) for name, pair in both.items()}
        return self.model_copy(update=least)
