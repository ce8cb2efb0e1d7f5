"""For whom a request to a server acts, and the credentials that it gets for that."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sojourn.contracts.tool_call import ToolCallMeta

if TYPE_CHECKING:
    from sojourn.vault.sealed import TokenVault

__all__ = ["Caller", "Credentials"]


@dataclass(slots=True)
class Caller:
    meta: ToolCallMeta | None = None
    """That of the call; None for listing, and for what the session of no call sends."""
    secrets: tuple[str, ...] = ()
    """The credentials that its requests had so far, to mask in what the server answers."""

    def note(self, secrets: Iterable[str]) -> None:
        self.secrets = tuple(dict.fromkeys((*self.secrets, *secrets)))


class Credentials(Protocol):
    """Credentials that differ by caller, or change while a session is open."""

    differs_by_caller: bool
    """Whether two principals get different ones, so that they share no session by default."""

    def bind(self, toolset_id: str, vault: "TokenVault | None") -> None:
        """Keep tokens for a toolset, in a vault for all processes, or in this one.

        Raises:
            DefinitionError: They need a vault, and there is none.
        """
        ...

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        """Return the headers of a request, and note in the caller what is secret of them.

        Raises:
            SojournError: There are none now; the request is not sent.
        """
        ...

    async def renew(self, caller: Caller, sent: Mapping[str, str], challenge: Mapping[str, str]) -> bool:
        """Return whether a request that got HTTP 401 can be sent with new headers.

        Args:
            caller: For whom the request acts.
            sent: The headers that `headers` gave for it.
            challenge: The headers of the server's answer.

        Raises:
            SojournError: There are no new ones.
        """
        ...

    async def refuse(
        self, caller: Caller, sent: Mapping[str, str], status: int, challenge: Mapping[str, str]
    ) -> bool:
        """Return whether a refused request can be sent once more.

        Its new headers got HTTP 401 too, or its headers got 403.

        Raises:
            SojournError: This says more than the status.
        """
        ...
