"""Everything that an answer is bound to, and the tokens that name it for clients."""

import hashlib
import json
from dataclasses import dataclass

__all__ = ["WaitRef"]

_DIGEST = 64
"""Characters of the digest of a call's arguments, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class WaitRef:
    """A wait as displayed. An answer to one that has changed fits no open wait."""

    run_id: str
    """The run that waits: the one that a client follows, or a child run of it."""
    await_id: str
    """The wait."""
    digest: str = ""
    """For an approval, the digest of the displayed arguments."""
    call_id: str = ""
    """For a wait for results, the id of the call."""

    def token(self, root: str) -> str:
        """Return the id of the wait for a client that follows the run `root`.

        It is unique among the waits of that run and of its child runs.

        `confirm-c1@/c0#DIGEST` is the approval `confirm-c1` of the child run that answers the call `c0`.
        """
        below = self.run_id.removeprefix(root)
        of = f"{self.await_id}@{below}" if below else self.await_id
        bound = self.digest or self.call_id
        return f"{of}#{bound}" if bound else of

    @property
    def code(self) -> str:
        """A short code that names the call as displayed, for a person to type.

        It has twelve characters, and is empty if the wait has no digest.
        """
        if not self.digest:
            return ""
        bound = json.dumps([self.run_id, self.await_id, self.digest])
        return hashlib.sha256(bound.encode()).hexdigest()[:12]

    @classmethod
    def parse(cls, token: str, root: str) -> "WaitRef":
        """Read a token of a client that follows the run `root`.

        The run is certain. Ids of waits and of calls may have the token's own marks, so an answer to an open wait is
        matched by comparing tokens, not by what is parsed here.
        """
        await_id, mark, below = token.rpartition("@/")
        if mark:
            path, _, bound = below.partition("#")
            return cls(f"{root}/{path}", await_id, *_bound(bound))
        await_id, mark, bound = token.rpartition("#")
        if not mark or bound.isdigit():  # `question#2` is the second wait with that name
            return cls(root, token)
        return cls(root, await_id, *_bound(bound))


def _bound(text: str) -> tuple[str, str]:
    is_digest = len(text) == _DIGEST and set(text) <= set("0123456789abcdef")
    return (text, "") if is_digest else ("", text)
