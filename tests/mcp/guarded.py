"""An MCP server that may ask for tokens, with the authorization server that issues them, in the process of a test."""

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from tests.http.conftest import listening

__all__ = ["Guarded", "guarded"]


@dataclass
class Given:
    """What the authorization server knows of an access token."""

    subject: str
    scope: str
    until: float


@dataclass
class Guarded:
    """The servers' state, and what they have seen."""

    asks_for_token: bool = True
    tool_scope: str = ""
    """The scope that calls need, beside a token."""
    lifetime: float = 3_600.0
    metadata_path: str = "/.well-known/oauth-protected-resource/mcp"
    url: str = ""
    origin: str = ""
    subject: str = "ana"
    """Who signs in at the authorization server next."""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    """The `Authorization` and the session of each request of the MCP server."""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """The `Authorization` and the item of each call that was carried out."""
    token_requests: list[dict[str, str]] = field(default_factory=list)
    registrations: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Given] = field(default_factory=dict)
    refreshable: dict[str, Given | None] = field(default_factory=dict)
    """By refresh token; None once it was used."""
    reused: int = 0
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    """Fields of the authorization server's metadata to replace."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the authorization server may answer requests for tokens."""

    def __post_init__(self) -> None:
        self.gate.set()

    def revoke(self) -> None:
        """Let no access token be good any more."""
        self.known.clear()

    # The MCP server.

    async def list_tools(self, _context: Any, _params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"item": {"type": "string"}}}
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=schema) for name in ("put", "fail")]
        )

    async def call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        token = context.request.headers.get("authorization", "")
        if params.name == "fail":
            return types.CallToolResult(content=[types.TextContent(text=f"no {token}")], is_error=True)
        item = (params.arguments or {}).get("item", "")
        self.calls.append((token, item))
        known = self.known.get(token.removeprefix("Bearer "))
        content = {"token": token, "item": item, "subject": known.subject if known else ""}
        return types.CallToolResult(content=[types.TextContent(text="put")], structured_content=content)

    def refusal(self, request: Request, body: bytes) -> Response | None:
        """Return the refusal of a request, or None."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = self.known.get(token) if scheme == "Bearer" else None
        where = f'resource_metadata="{self.origin}{self.metadata_path}"'
        if given is None or given.until < time.time():
            return Response(status_code=401, headers={"www-authenticate": f"Bearer {where}"})
        if b'"tools/call"' in body and self.tool_scope not in (*given.scope.split(), ""):
            challenge = f'Bearer error="insufficient_scope", scope="{self.tool_scope}", {where}'
            return Response(status_code=403, headers={"www-authenticate": challenge})
        return None

    # The authorization server.

    async def resource_metadata(self, _request: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.origin]})

    async def server_metadata(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.origin,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "registration_endpoint": f"{self.origin}/register",
                "revocation_endpoint": f"{self.origin}/revoke",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
                "authorization_response_iss_parameter_supported": True,
                **self.metadata,
            }
        )

    async def register(self, request: Request) -> Response:
        wanted = await request.json()
        self.registrations.append(wanted)
        client_id = f"client-{len(self.registrations)}"
        self.clients[client_id] = {**wanted, "client_id": client_id}
        return JSONResponse(self.clients[client_id], status_code=201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        if asked["redirect_uri"] not in self.clients.get(asked["client_id"], {}).get("redirect_uris", []):
            return Response("unknown redirect address", status_code=400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**asked, "subject": self.subject}
        answer = urlencode({"code": code, "state": asked["state"], "iss": self.origin})
        return RedirectResponse(f"{asked['redirect_uri']}?{answer}", status_code=302)

    async def token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        self.token_requests.append(form)
        await self.gate.wait()
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        match form["grant_type"]:
            case "client_credentials":
                return self._issue("the client", form.get("scope", ""), with_refresh=False)
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                if not form["assertion"].startswith("assertion of "):
                    return JSONResponse({"error": "invalid_grant"}, status_code=400)
                return self._issue(form["assertion"].removeprefix("assertion of "), "", with_refresh=False)
            case "authorization_code":
                asked = self.codes.pop(form["code"], None)
                verifier = hashlib.sha256(form["code_verifier"].encode()).digest()
                challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
                if asked is None or asked["code_challenge"] != challenge:
                    return JSONResponse({"error": "invalid_grant"}, status_code=400)
                return self._issue(asked["subject"], asked.get("scope", ""))
            case "refresh_token":
                given = self.refreshable.get(form["refresh_token"])
                self.reused += given is None
                if given is None:
                    return JSONResponse({"error": "invalid_grant"}, status_code=400)
                self.refreshable[form["refresh_token"]] = None
                return self._issue(given.subject, given.scope)
        return JSONResponse({"error": "unsupported_grant_type"}, status_code=400)

    async def revoke_token(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        if not self._is_client(request, form):
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        self.known.pop(form["token"], None)
        self.refreshable.pop(form["token"], None)
        return Response()

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        scheme, _, basic = request.headers.get("authorization", "").partition(" ")
        client_id, secret = form.get("client_id", ""), form.get("client_secret")
        if scheme == "Basic":
            client_id, _, secret = map(unquote, base64.b64decode(basic).decode().partition(":"))
        client = self.clients.get(client_id)
        return client is not None and client.get("client_secret") == secret

    def _issue(self, subject: str, scope: str, *, with_refresh: bool = True) -> Response:
        given = Given(subject, scope, time.time() + self.lifetime)
        token = f"at-{secrets.token_urlsafe(24)}"
        self.known[token] = given
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.lifetime)}
        if scope:
            answer["scope"] = scope
        if with_refresh:
            refresh = answer["refresh_token"] = f"rt-{secrets.token_urlsafe(24)}"
            self.refreshable[refresh] = given
        return JSONResponse(answer)


@contextlib.asynccontextmanager
async def guarded(kind: str = "http", **options: Any) -> AsyncIterator[Guarded]:
    """Serve both, the MCP server over streamable HTTP or `sse`."""
    state = Guarded(**options)
    server: Any = Server("guarded", on_list_tools=state.list_tools, on_call_tool=state.call_tool)
    transport = SseServerTransport("/messages/")

    async def events(request: Request) -> Response:
        async with transport.connect_sse(request.scope, request.receive, request._send) as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return Response()

    served: Any = (
        Starlette(
            routes=[Route("/sse", events), Mount("/messages/", app=transport.handle_post_message)],
        )
        if kind == "sse"
        else server.streamable_http_app()
    )
    issuing = Starlette(
        routes=[
            Route(state.metadata_path, state.resource_metadata),
            Route("/.well-known/oauth-authorization-server", state.server_metadata),
            Route("/register", state.register, methods=["POST"]),
            Route("/authorize", state.authorize),
            Route("/token", state.token, methods=["POST"]),
            Route("/revoke", state.revoke_token, methods=["POST"]),
        ]
    )

    async def web(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(("/mcp", "/sse", "/messages")):
            await (served if scope["type"] == "lifespan" else issuing)(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        session = request.headers.get("mcp-session-id", "") or request.query_params.get("session_id", "")
        state.requests.append((request.headers.get("authorization", ""), session))
        if state.asks_for_token and (refusal := state.refusal(request, body)):
            await refusal(scope, receive, send)
            return
        left = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return left.pop() if left else await receive()

        await served(scope, again, send)

    async with listening(web) as origin:
        state.origin, state.url = origin, f"{origin}/{kind.replace('http', 'mcp')}"
        yield state
