"""The run id of a conversation: made of its agent, its tenant and its session, so that all programs find the same one.

No agent id has a colon, and no plain name of a tenant one either. So the conversations of two tenants are two, however they name
their sessions.
"""

import hashlib
import re

from sojourn.contracts.ids import RUN_ID

__all__ = ["conversation_id", "conversation_prefix", "is_conversation", "tenant_part"]

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\Z")
"""A tenant whose name is part of run ids as it is."""


def conversation_id(agent_id: str, session_id: str, tenant: str = "") -> str:
    """The run id of a tenant's conversation with an agent: equal for every program that names the same three."""
    prefix = conversation_prefix(agent_id, tenant)
    plain = prefix + session_id
    return plain if RUN_ID.match(plain) else prefix + _digest(session_id)


def conversation_prefix(agent_id: str, tenant: str = "") -> str:
    """What the run ids of a tenant's conversations with an agent begin with: `<agent>@`, or `<agent>:<tenant>@`."""
    return f"{agent_id}:{tenant_part(tenant)}@" if tenant else f"{agent_id}@"


def is_conversation(run_id: str, agent_id: str, session_id: str) -> bool:
    """Whether a run of an agent and a session has the id of their conversation, of whichever tenant."""
    prefix, at, rest = run_id.partition("@")
    agent, colon, part = prefix.partition(":")
    if not at or agent != agent_id or bool(colon) != bool(part):
        return False
    return rest == (session_id if RUN_ID.match(f"{prefix}@{session_id}") else _digest(session_id))


def tenant_part(tenant: str) -> str:
    """A tenant's name in run ids: its own, or a digest, which no other tenant is called, as it has a plus sign."""
    return tenant if _PLAIN.match(tenant) else f"t+{_digest(tenant)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
