"""The search attributes of a run, and their registration in a namespace."""

import itertools
from collections.abc import Sequence
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.wire_names import SEARCH_ATTRIBUTES

__all__ = [
    "AGENT",
    "AWAITING",
    "FORK_OF",
    "HOW_TO_REGISTER",
    "IDLE",
    "NAMES",
    "PAUSED",
    "SESSION",
    "TENANT",
    "UNREGISTERED",
    "VISIBLE_TO",
    "attributes_of",
    "attributes_to_try",
    "is_unknown",
    "register",
]

AGENT = SearchAttributeKey.for_keyword("SojournAgent")
"""The agent's id."""

SESSION = SearchAttributeKey.for_keyword("SojournSession")
"""The session's id; unset for a run without a session."""

AWAITING = SearchAttributeKey.for_keyword("SojournAwaiting")
"""The id of the oldest open wait, `PAUSED` or `IDLE`; unset for a run that does something."""

FORK_OF = SearchAttributeKey.for_keyword("SojournForkOf")
"""The id of the run that a run was forked from; unset for a run that is no fork."""

TENANT = SearchAttributeKey.for_keyword("SojournTenant")
"""The tenant of who asked for the run; unset for a run without one."""

VISIBLE_TO = SearchAttributeKey.for_keyword_list("SojournVisibleTo")
"""The marks of those who may see the run, beside operators; unset for a run that all of its tenant may see."""

IDLE = "(idle)"
"""The value of `AWAITING` while a conversation waits for its next message."""

PAUSED = "(paused)"
"""The value of `AWAITING` while a run is paused."""

NAMES = tuple(SEARCH_ATTRIBUTES)
"""The names of all search attributes."""

UNREGISTERED = "sojourn_unregistered"
"""The extern function from which workflow code gets the names that the namespace lacks."""

HOW_TO_REGISTER = (
    "this namespace does not have the search attributes of Sojourn; a worker registers them when it starts, "
    "or: temporal operator search-attribute create "
    + " ".join(f"--name {name} --type {kind}" for name, kind in SEARCH_ATTRIBUTES.items())
)
"""The text of errors and logs where a namespace lacks the search attributes."""


def attributes_of(
    agent_id: str, session_id: str, fork_of: str = "", tenant: str = "", visible_to: Sequence[str] = ()
) -> TypedSearchAttributes:
    """Return the search attributes of a run's start."""
    pairs: list[SearchAttributePair[Any]] = [SearchAttributePair(AGENT, agent_id)]
    if session_id:
        pairs.append(SearchAttributePair(SESSION, session_id))
    if fork_of:
        pairs.append(SearchAttributePair(FORK_OF, fork_of))
    if tenant:
        pairs.append(SearchAttributePair(TENANT, tenant))
    if visible_to:
        pairs.append(SearchAttributePair(VISIBLE_TO, list(visible_to)))
    return TypedSearchAttributes(pairs)


def attributes_to_try(
    agent_id: str, session_id: str, fork_of: str = "", tenant: str = "", visible_to: Sequence[str] = ()
) -> list[TypedSearchAttributes]:
    """Return the search attributes of a run's start, and then what a namespace of an earlier version has of them."""
    tried = itertools.product(
        [fork_of, ""] if fork_of else [""],
        [tenant, ""] if tenant else [""],
        [visible_to, ()] if visible_to else [()],
    )
    return [attributes_of(agent_id, session_id, *each) for each in tried]


def is_unknown(error: RPCError) -> bool:
    """Whether a start or a listing was refused because the server does not know the attributes."""
    return error.status == RPCStatusCode.INVALID_ARGUMENT and "search attribute" in str(error).lower()


async def register(client: Client) -> str | None:
    """Register the missing search attributes; return why that is not possible, or None.

    Runs work without them; listings by agent, session or wait need them.
    """
    service = client.operator_service
    try:
        known = await service.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
        missing = [name for name in NAMES if name not in known.custom_attributes]
        if missing:
            kinds = {
                "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
                "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
            }
            await service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=client.namespace,
                    search_attributes={name: kinds[SEARCH_ATTRIBUTES[name]] for name in missing},
                )
            )
    except RPCError as error:
        if error.status == RPCStatusCode.ALREADY_EXISTS:
            return None
        return f"{error.status.name.lower()}: {error.message}"
    return None
