"""ApprovalPolicy: which calls run, which a person is asked about, and which are denied."""

from collections.abc import Collection, Sequence
from typing import Any, Literal, TypeVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.awaits import Expiry
from sojourn.contracts.declaration import Declaration
from sojourn.contracts.ids import matches_any

__all__ = ["ApprovalPolicy", "ApprovalRule", "Asks", "StopAsking", "in_both"]

T = TypeVar("T")

Asks = Literal["nothing", "marked", "changes", "everything"]
"""How many calls a person is asked about, from the fewest to all."""

_STRICTNESS: dict[Asks, int] = {"nothing": 0, "marked": 1, "changes": 2, "everything": 3}


StopAsking = Literal["turn", "run", "never"]
"""How long an approval of a whole tool counts: to the end of the turn, to the end of the run, or not at all."""

_PATIENCE: dict[StopAsking, int] = {"never": 0, "turn": 1, "run": 2}


class ApprovalRule(Declaration):
    """Who approves the calls of some tools. A person is asked about each of them, unless the policy lets it run."""

    tools: list[str] = []
    """Tools by id, a whole toolset as `ops.devices.*`, or `*` for all."""
    tags: list[str] = []
    """Tags of tools."""
    approvers: list[str] = []
    """Roles of which whoever decides needs one; empty leaves it to the tool, else to the role `approver`."""
    four_eyes: bool = False
    """Whether whoever asked for a call may not approve it."""
    narrows: bool = False
    """Whether the rule comes from an override, so that its roles only narrow who may decide without it."""

    def fits(self, tool: str, tags: Collection[str]) -> bool:
        """Whether the rule is about a tool."""
        return matches_any(tool, self.tools) or any(tag in self.tags for tag in tags)


class ApprovalPolicy(Declaration):
    """Who decides before a call runs. The rules apply in this order, and the first that fits decides.

    Denied tools and tags; read-only tools run; named tools and tags run; what the policy engine
    decides; else `asks_for` decides whether a person is asked. A tool is named by its id, a whole
    toolset as `ops.devices.*`.
    """

    denied_tools: list[str] = []
    """Tools whose calls are denied."""
    denied_tags: list[str] = []
    """Tags whose tools' calls are denied."""
    read_only_runs: bool = True
    """Whether a tool declared `read_only` runs without asking a person."""
    run_tools: list[str] = []
    """Tools that run without asking a person, regardless of their annotations."""
    run_tags: list[str] = []
    """Tags whose tools run without asking a person."""
    asks_for: Asks = "marked"
    """Which other calls a person is asked about: `nothing`; `marked`: tools declared `destructive` or with a
    `confirmation`; `changes`: tools not declared `read_only`; `everything`.
    """
    asks: bool = True
    """Whether a person may be asked at all; False denies the call instead."""
    expires_after: Expiry | None = None
    """How long to wait for a decision before the call is denied; None waits without limit."""

    rules: list[ApprovalRule] = []
    """Who approves the calls of which tools; every rule that fits a call counts."""
    stop_asking: StopAsking = "turn"
    """How long a person may stop the asking about a tool: `turn` until the turn ends, `run` until the run ends, `never`.

    It never covers a call about which the policy engine asks, nor one that the person who stopped the asking may not approve.
    """

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write every field, defaults too: a later default never changes a recorded policy."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @classmethod
    def unattended(cls) -> "ApprovalPolicy":
        """A policy that asks nobody: every call runs."""
        return cls(asks_for="nothing")

    @classmethod
    def supervised(cls) -> "ApprovalPolicy":
        """A policy that asks a person about every tool not declared `read_only`."""
        return cls(asks_for="changes")

    @classmethod
    def read_only(cls) -> "ApprovalPolicy":
        """A policy that denies every tool not declared `read_only`."""
        return cls(asks_for="changes", asks=False)

    def tightened(self, other: "ApprovalPolicy | None") -> "ApprovalPolicy":
        """The stricter of both policies, rule by rule: what either denies is denied; what runs unasked runs so in both."""
        if other is None:
            return self
        limits = [item for item in (self.expires_after, other.expires_after) if item is not None]
        return ApprovalPolicy(
            denied_tools=_union(self.denied_tools, other.denied_tools),
            denied_tags=_union(self.denied_tags, other.denied_tags),
            read_only_runs=self.read_only_runs and other.read_only_runs,
            run_tools=in_both(self.run_tools, other.run_tools),
            run_tags=[item for item in self.run_tags if item in other.run_tags],
            asks_for=other.asks_for
            if _STRICTNESS[other.asks_for] > _STRICTNESS[self.asks_for]
            else self.asks_for,
            asks=self.asks and other.asks,
            expires_after=min(limits, default=None),
            rules=_union(self.rules, [self._narrowing(rule) for rule in other.rules]),
            stop_asking=min(self.stop_asking, other.stop_asking, key=_PATIENCE.__getitem__),
        )

    def _narrowing(self, rule: ApprovalRule) -> ApprovalRule:
        """A rule of an override; one that this policy has itself is its own."""
        return rule if rule in self.rules else rule.model_copy(update={"narrows": True})

    def rules_for(self, tool: str, tags: Collection[str]) -> list[ApprovalRule]:
        """The rules that are about a tool."""
        return [rule for rule in self.rules if rule.fits(tool, tags)]


def in_both(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """The tool patterns that both lists cover; a pattern is a tool's id, a toolset as `ops.devices.*`, or `*` for all."""
    narrower = [pattern for pattern in left if _covered(pattern, right)]
    return list(dict.fromkeys([*narrower, *(pattern for pattern in right if _covered(pattern, left))]))


def _covered(pattern: str, by: Sequence[str]) -> bool:
    """Whether one pattern of `by` covers every tool that `pattern` covers."""
    return any(
        other in (pattern, "*") or (other.endswith(".*") and pattern.startswith(other[:-1])) for other in by
    )


def _union(left: list[T], right: list[T]) -> list[T]:
    return [
        *left,
        *(each for place, each in enumerate(right) if each not in left and each not in right[:place]),
    ]
