"""The run id of a conversation, and who may see a run.

Neither an agent id nor a plain name of a tenant has a colon. So two tenants never share a conversation, however they name their
sessions. If a session id cannot be part of a run id, the run id has a marked digest of it. The same is true of a session id that
looks like such a digest, so no two sessions share a run id.
"""

import hashlib
import re
from collections.abc import Sequence

from temporalio.client import WorkflowExecution

from sojourn.contracts import wire_names
from sojourn.contracts.ids import RUN_ID
from sojourn.contracts.tenant_ids import tenant_part
from sojourn.errors import RunUnreadable
from sojourn.search_attributes import VISIBLE_TO

__all__ = [
    "conversation_id",
    "conversation_prefix",
    "is_conversation",
    "is_session_digest",
    "tenant_prefix",
    "viewers_of",
]

_SESSION_DIGEST = re.compile(r"s\+[0-9a-f]{32}\Z")
"""The digest in place of a session id that cannot be part of a run id."""


def conversation_id(agent_id: str, session_id: str, tenant: str = "") -> str:
    """Return the run id of a tenant's conversation with an agent.

    It is equal for every program that names the same agent, session and tenant.
    """
    prefix = conversation_prefix(agent_id, tenant)
    return prefix + _session_part(prefix, session_id)


def conversation_prefix(agent_id: str, tenant: str = "") -> str:
    """Return the prefix of the run ids of a tenant's conversations with an agent.

    This is `<agent>@`, or `<agent>:<tenant>@`.
    """
    return f"{agent_id}:{tenant_part(tenant)}@" if tenant else f"{agent_id}@"


def tenant_prefix(tenant: str) -> str:
    """Return the prefix of ids that requests of a tenant choose for runs."""
    return f"{tenant_part(tenant)}=" if tenant else ""


def is_conversation(run_id: str, agent_id: str, session_id: str) -> bool:
    """Return whether a run has the id of its agent's and session's conversation.

    The conversation may be of any tenant.
    """
    prefix, at, rest = run_id.partition("@")
    agent, colon, part = prefix.partition(":")
    if not at or agent != agent_id or bool(colon) != bool(part):
        return False
    return rest == _session_part(f"{prefix}@", session_id)


def is_session_digest(part: str) -> bool:
    """Return whether the part of a run id after its `@` is a session's digest."""
    return bool(_SESSION_DIGEST.match(part))


def _session_part(prefix: str, session_id: str) -> str:
    """No other session has the digest of an id as its own id."""
    is_plain = RUN_ID.match(prefix + session_id) and not is_session_digest(session_id)
    return session_id if is_plain else f"s+{_digest(session_id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


async def viewers_of(found: WorkflowExecution) -> Sequence[str]:
    """Return the marks of the viewers of a run. Empty if the run names none."""
    listed = found.typed_search_attributes.get(VISIBLE_TO)
    if listed:
        return listed
    try:
        return await found.memo_value(wire_names.VISIBLE_TO, list[str](), type_hint=list[str])
    except Exception as error:  # a memo is untrusted, and a codec may raise anything
        raise RunUnreadable(f"who may see run {found.id} cannot be read here", run_id=found.id) from error
