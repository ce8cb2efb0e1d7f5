"""A call that needs a sign-in of its principal first.

It stops as a call that asks for input does, with a form without fields. The run keeps what it had so far, such as a person's answers
of two weeks, in the state of that question. After the sign-in the call goes on with them. Only tools that a principal may see are
listed for it, in a session of its own: a server may list other tools for others, and write other descriptions.
"""

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from sojourn.connection import settings
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import (
    InputForm,
    InputRequired,
    SignInRequest,
    ToolCallMeta,
    ToolInput,
    ToolRequest,
)
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.boundary import MAX_REQUEST_STATE, refusal
from sojourn.mcp.errors import SignInRequired
from sojourn.mcp.limits import clean_text
from sojourn.values.text import plain

if TYPE_CHECKING:
    from sojourn.oauth.grants import SignInServer

__all__ = ["asked_before", "refused_sign_in", "sign_in_required"]

_KEY = "sign_in"
_MAX_SCOPES = 50
_MAX_SCOPE = 200
_MAX_URL = 2_000


def asked_before(tool_input: ToolInput | None) -> tuple[ToolInput | None, str | None]:
    """Return a call's own input, and what came of a sign-in that it asked for.

    That is `accept`, `decline` or `cancel`, or None if it asked for none. A server may ask for input by the same key: the head of our
    question has digests of no form.
    """
    answer = tool_input and tool_input.responses.get(_KEY)
    if tool_input is None or answer is None or tool_input.responses.keys() != {_KEY}:
        return tool_input, None
    head = json.loads((tool_input.request_state or "{}").partition("\n")[0])
    if head.get("asked") != {}:
        return tool_input, None
    own = head.get("input")
    return (ToolInput.model_validate(own) if own else None), str(answer.get("action"))


def _page(toolset: str, run_id: str, call_id: str) -> str:
    """Return the console's page for a sign-in, if it has a public address."""
    base = settings.public_url()
    query = urlencode({"run_id": run_id, "call": call_id})
    return f"{base}/grants/{quote(toolset)}?{query}" if base else ""


def refused_sign_in(call: ToolRequest, action: str) -> ToolResult | None:
    """Return the result of a call whose principal has not signed in, or None."""
    if action == "accept":
        return None
    is_declined = action == "decline"
    why = "the person declined to sign in" if is_declined else "nobody signed in in time"
    code = "sign_in_declined" if is_declined else "sign_in_required"
    return refusal(
        call, (ToolError.new(f"{call.name} needs access to its server, and {why}", code=code), None)
    )


def sign_in_required(
    call: ToolRequest,
    needed: SignInRequired,
    server: "SignInServer",
    meta: ToolCallMeta,
    own: ToolInput | None,
) -> ToolResult:
    """Return the result of a call that waits for a sign-in of its principal."""
    principal = meta.principal
    assert principal is not None
    title = plain(server.title or server.host, 100)
    request = SignInRequest(
        toolset=server.toolset,
        title=title,
        host=server.host,
        scopes=[plain(each, _MAX_SCOPE) for each in needed.scopes[:_MAX_SCOPES]],
        principal=Principal(subject=principal.subject, tenant=principal.tenant),
        resource_metadata=needed.resource_metadata
        if needed.resource_metadata and len(needed.resource_metadata) <= _MAX_URL
        else None,
        url=_page(server.toolset, meta.run_id, call.tool_call_id),
    )
    at = f" ({server.host})" if server.host != title else ""
    link = f": {request.url}" if request.url else "."
    form = InputForm(
        key=_KEY,
        message=clean_text(f"Sign in to {title}{at} as {plain(principal.subject, 200)}{link}", 2_000),
        form={"type": "object", "properties": {}},
        sign_in=request,
    )
    # An older worker reads the same head, and finds no state of a server in it.
    head: dict[str, Any] = {"state": False, "asked": {}}
    whole = json.dumps({**head, "input": own.model_dump(mode="json") if own else None})
    state = whole if len(whole) < MAX_REQUEST_STATE else json.dumps(head)
    return ToolResult(input_required=InputRequired(forms=[form], request_state=f"{state}\n"))
