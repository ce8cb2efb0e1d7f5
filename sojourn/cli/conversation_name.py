"""Parse the names of conversations and agents on the command line.

A conversation is `AGENT@SESSION`, or `AGENT:TENANT@SESSION` for a tenant's, which is also its run
id. An agent is the part before the `@`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session
    from sojourn.contracts.principal import Principal

__all__ = ["agent_of", "named"]


def agent_of(name: str, who: str | None) -> "tuple[str, Principal | None]":
    """Return the agent of `AGENT` or `AGENT:TENANT`, and the principal of its runs.

    The principal is `who` in the tenant, or None without a tenant.

    Raises:
        CommandError: The text names no agent.
    """
    found = _read(name, who)
    if found is None:
        raise CommandError(
            f"{plain(name)!r} names no agent: AGENT, such as shop.clerk; of a tenant AGENT:TENANT",
            exit_code=USAGE,
        )
    return found


def _read(name: str, who: str | None) -> "tuple[str, Principal | None] | None":
    from sojourn.contracts.principal import Principal

    agent_id, colon, tenant = name.partition(":")
    if not agent_id or bool(colon) != bool(tenant):
        return None
    return agent_id, Principal(subject=who or "sojourn", tenant=tenant) if tenant else None


def named(name: str, who: str | None) -> "Callable[[Client], Session]":
    """Return a function that finds the conversation of this name with a client.

    If a tenant's conversation does not exist yet, it is started for `who`.

    Raises:
        CommandError: The text names no conversation.
    """
    from sojourn.client.conversation_id import is_session_digest

    first, at, session_id = name.partition("@")
    found = _read(first, who)
    if not (found and at and session_id):
        raise CommandError(
            f"{plain(name)!r} names no conversation: AGENT@SESSION, such as shop.clerk@desk-1; "
            "of a tenant AGENT:TENANT@SESSION",
            exit_code=USAGE,
        )
    agent_id, principal = found
    if principal and "+" in principal.tenant:
        raise CommandError(
            f"the tenant of {plain(name)} is not in its name; a program can send to it: client.session(principal=...)",
            exit_code=USAGE,
        )
    if is_session_digest(session_id):
        raise CommandError(
            f"the session of {plain(name)} is not in its name; a program can send to it: client.session(AGENT, SESSION)",
            exit_code=USAGE,
        )
    return lambda client: client.session(agent_id, session_id, principal=principal)
