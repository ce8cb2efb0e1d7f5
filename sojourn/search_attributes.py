"""The search attributes of a run, and their registration in a namespace."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.definition import DefinitionError
from sojourn.contracts.wire_names import SEARCH_ATTRIBUTES

__all__ = [
    "AGENT",
    "AWAITING",
    "FORK_OF",
    "GAVE_UP",
    "HOW_TO_REGISTER",
    "IDLE",
    "NAMES",
    "PAUSED",
    "SESSION",
    "TENANT",
    "VISIBLE_TO",
    "attributes_of",
    "is_unknown",
    "register",
]

AGENT = SearchAttributeKey.for_keyword("SojournAgent")
SESSION = SearchAttributeKey.for_keyword("SojournSession")

AWAITING = SearchAttributeKey.for_keyword("SojournAwaiting")
"""The id of the oldest open wait, `PAUSED` or `IDLE`; unset for a run that does something."""

FORK_OF = SearchAttributeKey.for_keyword("SojournForkOf")

TENANT = SearchAttributeKey.for_keyword("SojournTenant")
"""The tenant of the run's starter. Unset for a run without one."""

VISIBLE_TO = SearchAttributeKey.for_keyword_list("SojournVisibleTo")
"""The marks of principals that may see the run, beside operators; unset if all its tenant may."""

GAVE_UP = SearchAttributeKey.for_keyword("SojournGaveUp")
"""The limit or safeguard that ended the run, as `RunOutput.reason`. Unset for every other run."""

IDLE = "(idle)"
PAUSED = "(paused)"
NAMES = tuple(SEARCH_ATTRIBUTES)
_PATIENCE = timedelta(seconds=5)

HOW_TO_REGISTER = (
    "this namespace does not have the search attributes of Sojourn; a worker registers them when it starts, "
    "or: temporal operator search-attribute create "
    + " ".join(f"--name {name} --type {kind}" for name, kind in SEARCH_ATTRIBUTES.items())
)


def attributes_of(
    agent_id: str, session_id: str, fork_of: str = "", tenant: str = "", visible_to: Sequence[str] = ()
) -> TypedSearchAttributes:
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


def is_unknown(error: RPCError) -> bool:
    """Return whether the server refused a start or a listing for these attributes."""
    return error.status == RPCStatusCode.INVALID_ARGUMENT and "search attribute" in str(error).lower()


async def register(client: Client) -> str | None:
    """Add the search attributes that the namespace lacks.

    A server that lists none to this caller, such as a managed one, may still have them.
    """
    service = client.operator_service
    try:
        known = await service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace), timeout=_PATIENCE
        )
    except RPCError as error:
        return f"{error.status.name.lower()}: {error.message}"
    missing = {name: kind for name, kind in SEARCH_ATTRIBUTES.items() if name not in known.custom_attributes}
    if not missing:
        return None
    kinds = {
        "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
        "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
    }
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes={name: kinds[kind] for name, kind in missing.items()},
    )
    try:
        await service.add_search_attributes(request)
    except RPCError as error:
        if error.status != RPCStatusCode.ALREADY_EXISTS:
            why = f"{error.status.name.lower()}: {error.message}"
            raise DefinitionError(f"{HOW_TO_REGISTER} (the worker may not: {why})") from error
    return None
