"""The texts from outside that a run has read, such as web pages and mails.

A model cannot tell instructions in such a text from its user's. So the run remembers where the texts came
from, and an approval shows it. Nothing in a result, a listing or an argument ever removes a source.
"""

from datetime import datetime

from pydantic import NonNegativeInt

from sojourn.contracts.record import Record

__all__ = ["MAX_FIRST", "MAX_NEWEST", "Taint", "TaintSource"]

MAX_FIRST, MAX_NEWEST = 3, 5
"""How many sources a run names: the first ones, and the newest."""


class TaintSource(Record):
    """A call whose result may hold text from outside."""

    number: int = 0
    """The source's number in the run, from 1."""
    tool: str
    """The tool's id."""
    tool_call_id: str
    """The call."""
    run_id: str = ""
    """The child run that read the text, or the run in which a run began; empty for the run's own call."""
    reason: str
    """`open_world`: the tool is declared so. `untrusted_server`: the tool of an MCP server that is not trusted. An open set."""
    source: str = ""
    """Where the text came from, in words, if the tool said so."""
    at: datetime | None = None
    """When the call was answered."""


class Taint(Record):
    """The sources of text from outside that a run has read."""

    sources: list[TaintSource] = []
    """The first 3 sources and the newest 5, oldest first."""
    count: NonNegativeInt = 0
    """Number of all sources."""
    lifted: NonNegativeInt = 0
    """The sources up to this number no longer count, since a person said so."""

    @property
    def is_active(self) -> bool:
        """Whether a source counts."""
        return self.count > self.lifted

    @property
    def active_sources(self) -> list[TaintSource]:
        """The named sources that count."""
        return [source for source in self.sources if source.number > self.lifted]

    def adding(self, source: TaintSource) -> "Taint":
        """Return the taint with one more source, which gets the next number."""
        number = self.count + 1
        first, rest = self.sources[:MAX_FIRST], self.sources[MAX_FIRST:]
        known = [*first, *rest, source.model_copy(update={"number": number})]
        newest = known[MAX_FIRST:][-MAX_NEWEST:]
        return self.model_copy(update={"sources": [*known[:MAX_FIRST], *newest], "count": number})
