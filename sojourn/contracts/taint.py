"""The texts from outside that a run has read, such as web pages and mails.

A model cannot tell instructions in such a text from its user's. So the run remembers where the texts came
from, and an approval shows it. Nothing in a result, a listing or an argument ever removes a source.
"""

from datetime import datetime
from typing import Generic, TypeVar

from pydantic import NonNegativeInt

from sojourn.contracts.record import Record

__all__ = ["MAX_FIRST", "MAX_NEWEST", "MAX_SOURCE", "FromOutside", "Taint", "TaintSource"]

MAX_FIRST, MAX_NEWEST = 3, 5
"""How many sources a run names: the first ones, and the newest."""

MAX_SOURCE = 200
"""Most characters of a source in words."""

R = TypeVar("R")


class FromOutside(Generic[R]):
    """A result with text from outside, of a tool that does not always read such text.

    A tool that always does is declared with `open_world=True`. Files that the call attaches have the mark too.

    Args:
        result: The result, for the planner; also a `WithArtifacts` or a `WithMemory`.
        source: Where the text came from, in words, such as `mail from ana@example.org`; approvers read it.
    """

    __slots__ = ("result", "source")

    def __init__(self, result: R, /, source: str = "") -> None:
        self.result = result
        self.source = source


class TaintSource(Record):
    """A call whose result, or a message whose file, may hold text from outside."""

    number: int = 0
    """The source's number in the run, from 1."""
    tool: str
    """The tool's id; empty for a file of a message."""
    tool_call_id: str
    """The call; empty for a file of a message."""
    run_id: str = ""
    """The child run that read the text, or the run in which a run began; empty for the run's own call."""
    reason: str
    """`open_world`: the tool is declared so. `untrusted_server`: the tool of an MCP server that is not trusted. `outside`: the tool
    said so of this result. `attachment`: a file of a message, which a tool made of such text. `unknown_tool`: the run began with a
    result of a tool that its agent does not have. An open set.
    """
    source: str = ""
    """Where the text came from, in words, if the tool said so; or the name of the file."""
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

    def found_in(self, run_id: str) -> "Taint":
        """Return the taint as another run names it: each source has the run that read it."""
        sources = [each.model_copy(update={"run_id": each.run_id or run_id}) for each in self.sources]
        return self.model_copy(update={"sources": sources})

    def since(self, count: int) -> "Taint | None":
        """Return the taint of the sources after the first ones, or None if there are none."""
        if self.count <= count:
            return None
        if count == 0:
            return self
        sources = [each for each in self.sources if each.number > count]
        return Taint(sources=sources, count=self.count - count)

    def lifting(self, count: int) -> "Taint":
        """Return the taint in which the first sources no longer count."""
        lifted = max(self.lifted, min(count, self.count))
        return self.model_copy(update={"lifted": lifted})

    def joining(self, other: "Taint", at: datetime | None) -> "Taint":
        """Return the taint with all sources of another one.

        What is lifted there counts here.
        """
        left_out = max(other.count - len(other.sources), 0)
        joined = self.model_copy(update={"count": self.count + left_out})
        for source in other.sources:
            joined = joined.adding(source.model_copy(update={"at": source.at or at}))
        return joined

    def adding(self, source: TaintSource) -> "Taint":
        """Return the taint with one more source, which gets the next number."""
        number = self.count + 1
        first, rest = self.sources[:MAX_FIRST], self.sources[MAX_FIRST:]
        known = [*first, *rest, source.model_copy(update={"number": number})]
        newest = known[MAX_FIRST:][-MAX_NEWEST:]
        return self.model_copy(update={"sources": [*known[:MAX_FIRST], *newest], "count": number})
