"""A conversation as it is named on the command line: `AGENT@SESSION`, of a tenant `AGENT:TENANT@SESSION`, which is its run id."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session

__all__ = ["named"]


def named(name: str, who: str | None) -> "Callable[[Client], Session]":
    """How a client finds a conversation by its name; one of a tenant's that does not exist yet is begun for `who`.

    Raises:
        CommandError: The text names no conversation.
    """
    from sojourn.client.conversation_id import is_session_digest
    from sojourn.contracts.principal import Principal

    first, at, session_id = name.partition("@")
    agent_id, colon, tenant = first.partition(":")
    if not (agent_id and at and session_id) or bool(colon) != bool(tenant):
        raise CommandError(
            f"{plain(name)!r} names no conversation: AGENT@SESSION, such as shop.clerk@desk-1; "
            "of a tenant AGENT:TENANT@SESSION",
            exit_code=USAGE,
        )
    if "+" in tenant:
        raise CommandError(
            f"the tenant of {plain(name)} is not in its name; a program can send to it: client.session(principal=...)",
            exit_code=USAGE,
        )
    if is_session_digest(session_id):
        raise CommandError(
            f"the session of {plain(name)} is not in its name; a program can send to it: client.session(AGENT, SESSION)",
            exit_code=USAGE,
        )
    principal = Principal(subject=who or "sojourn", tenant=tenant) if tenant else None
    return lambda client: client.session(agent_id, session_id, principal=principal)
