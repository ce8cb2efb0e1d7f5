"""ApprovalPolicy: which calls run, which a person is asked about, and which are denied."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from sojourn.contracts.awaits import Expiry
from sojourn.contracts.record import Input

__all__ = ["ApprovalPolicy", "Asks", "in_both"]

Asks = Literal["nothing", "marked", "changes", "everything"]
"""From the least asked about to the most."""

_STRICTNESS: dict[Asks, int] = {"nothing": 0, "marked": 1, "changes": 2, "everything": 3}


class ApprovalPolicy(Input):
    """Who decides before a call runs; the first rule that fits, in the order of the fields.

    Denied tools and tags; read-only tools run; named tools and tags run; what the policy engine
    says; else `asks_for` decides whether a person is asked. A tool is named by its id, or with
    others as `ops.devices.*`.
    """

    denied_tools: list[str] = []
    """Calls of these are answered as denied."""
    denied_tags: list[str] = []
    """The same, by a tool's tags."""
    read_only_runs: bool = True
    """Whether a tool declared `read_only` runs unasked."""
    run_tools: list[str] = []
    """These run unasked, whatever they do."""
    run_tags: list[str] = []
    """The same, by a tool's tags."""
    asks_for: Asks = "marked"
    """What else a person is asked about: `nothing`; `marked`: tools declared `destructive` or with a
    `confirmation`; `changes`: all that is not declared `read_only`; `everything`."""
    asks: bool = True
    """Whether a person may be asked at all; False denies in place of asking."""
    expires_after: Expiry | None = None
    """How long to wait for a decision; the call is denied then. None waits for as long as it takes."""

    @model_serializer(mode="wrap")
    def _in_full(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Every field, defaults too: a later default never changes a recorded policy."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    @classmethod
    def unattended(cls) -> "ApprovalPolicy":
        """Nobody is asked: every call runs."""
        return cls(asks_for="nothing")

    @classmethod
    def supervised(cls) -> "ApprovalPolicy":
        """A person is asked about whatever is not declared `read_only`."""
        return cls(asks_for="changes")

    @classmethod
    def read_only(cls) -> "ApprovalPolicy":
        """What is not declared `read_only` is denied."""
        return cls(asks_for="changes", asks=False)

    def tightened(self, other: "ApprovalPolicy | None") -> "ApprovalPolicy":
        """The stricter of the two, rule by rule: what either denies is denied, and only what both run runs unasked."""
        if other is None:
            return self
        limits = [one for one in (self.expires_after, other.expires_after) if one is not None]
        return ApprovalPolicy(
            denied_tools=_union(self.denied_tools, other.denied_tools),
            denied_tags=_union(self.denied_tags, other.denied_tags),
            read_only_runs=self.read_only_runs and other.read_only_runs,
            run_tools=in_both(self.run_tools, other.run_tools),
            run_tags=[one for one in self.run_tags if one in other.run_tags],
            asks_for=other.asks_for
            if _STRICTNESS[other.asks_for] > _STRICTNESS[self.asks_for]
            else self.asks_for,
            asks=self.asks and other.asks,
            expires_after=min(limits, default=None),
        )


def in_both(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """What two lists both name of tools, which stand there by id, as `ops.devices.*`, or `*` for all."""
    narrower = [one for one in left if _covered(one, right)]
    return list(dict.fromkeys([*narrower, *(one for one in right if _covered(one, left))]))


def _covered(pattern: str, by: Sequence[str]) -> bool:
    """Whether all that a pattern names is named by one of the others too."""
    return any(one in (pattern, "*") or (one.endswith(".*") and pattern.startswith(one[:-1])) for one in by)


def _union(left: list[str], right: list[str]) -> list[str]:
    return list(dict.fromkeys([*left, *right]))
