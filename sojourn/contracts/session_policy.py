"""SessionPolicy: the limits of a conversation as a whole, beside those of `RunPolicy`, which count for each turn."""

from typing import Any, Literal

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

    acts_for: Literal["sender", "starter"] | None = None
    """For whom a turn acts: who sent its message, also when None; or `starter`, for whoever began the conversation, whoever sends.

    With `starter` everybody who may send a message acts with the starter's rights.
    """

    def tightened(self, other: "SessionPolicy") -> "SessionPolicy":
        """The stricter of both policies, field by field; only the first one, of the agent, may let turns act for the starter."""
        names = [name for name in type(self).model_fields if name != _ACTS_FOR]
        both = {name: (getattr(self, name), getattr(other, name)) for name in names}
        least: dict[str, Any] = {
            name: min((v for v in pair if v is not None), default=None) for name, pair in both.items()
        }
        if other.acts_for == "sender":
            least[_ACTS_FOR] = other.acts_for
        return self.model_copy(update=least)


_ACTS_FOR = "acts_for"
