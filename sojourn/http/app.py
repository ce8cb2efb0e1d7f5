"""Assemble the application from routes, errors, middleware and OpenAPI document.

Its connection to Temporal is open while it serves.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema
from starlette.routing import Match, Route, compile_path
from starlette.types import Scope

from sojourn import __version__
from sojourn.authoring.app import App
from sojourn.client.client import Client
from sojourn.http import problems
from sojourn.http.granting import CALLBACK
from sojourn.http.metrics import MetricsMiddleware
from sojourn.http.protocols.a2a import endpoint as a2a_endpoint
from sojourn.http.protocols.a2a.endpoint import A2AEndpoint
from sojourn.http.protocols.agui import request as agui_request
from sojourn.http.protocols.agui import routes as agui
from sojourn.http.protocols.mcp import endpoint as mcp_endpoint
from sojourn.http.protocols.mcp.endpoint import MCPEndpoint
from sojourn.http.protocols.openai import request as openai_request
from sojourn.http.protocols.openai import routes as openai
from sojourn.http.protocols.openai.request import answer_of
from sojourn.http.protocols.vercel import request as vercel_request
from sojourn.http.protocols.vercel import routes as vercel
from sojourn.http.routes import attachments, codec, grants, runs, sessions, steering, waits
from sojourn.http.routes import service as own
from sojourn.http.security.file_bodies import FileBodies
from sojourn.http.security.middleware import OPEN_PATHS, PAGES, SecurityMiddleware, SecuritySettings
from sojourn.http.security.principals import Auth
from sojourn.http.security.requests import Site
from sojourn.http.service import Service

__all__ = ["Pages", "create_api"]

ABOUT = """Durable runs of agents that use tools. A run is started, followed and answered by its id alone, at any process of the
service; a client that vanishes and comes back loses nothing. Errors are problem details (RFC 9457) with a `code` and what to do
next, `then`."""

A2A = "/a2a/{agent_id}{rest:path}"

FILE_PATHS = {
    "/agui/": agui_request.FILE_PATHS,
    "/vercel/": vercel_request.FILE_PATHS,
    "/openai/": openai_request.FILE_PATHS,
    "/a2a/": a2a_endpoint.FILE_PATHS,
    "/mcp": mcp_endpoint.FILE_PATHS,
}
"""Where the data of files stands in the bodies of protocols, by the prefix of their paths."""

Pages = Callable[[FastAPI, Service, Auth | None, str], Site]
"""Adds pages to an application, and returns what the security middleware needs to know about them.

The arguments are the application, its service, how a visitor is authenticated, and the prefix of all paths.
"""


def create_api(
    app: App,
    *,
    client: Client | None = None,
    auth: Auth | None = None,
    prefix: str = "",
    security: SecuritySettings | None = None,
    pages: Pages | None = None,
    temporal_ui: str | None = None,
) -> FastAPI:
    """Return the HTTP service, as `sojourn.asgi.create_app` does, with these pages."""
    service = Service(app, client, temporal_ui, prefix)
    service.origins = tuple(security.origins) if security else ()
    service.has_pages = pages is not None

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None]:
        await service.open()
        try:
            yield
        finally:
            await service.close()

    web = FastAPI(
        title=f"Sojourn: {app.name}" if app.name else "Sojourn",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{prefix}/openapi.json",
        separate_input_output_schemas=False,
        redirect_slashes=False,
    )
    web.state.service = service
    api = (waits, steering, runs, sessions, own)
    routers = [
        attachments.routes,
        attachments.downloads,
        own.agents,
        own.caller,
        own.tenant,
        codec.routes,
        grants.routes,
        grants.callbacks,
        *(each.routes for each in (*api, agui, vercel, openai)),
    ]
    for router in routers:
        if prefix:
            web.include_router(router, prefix=prefix)
        else:  # share the routes between applications: analysing them takes longer than everything else here
            web.router.routes.extend(router.routes)
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    problems.install(web, [(compile_path(prefix + route.path)[0], route.methods or ()) for route in routes])
    web.router.routes.append(_MountedRoute(f"{prefix}/mcp", MCPEndpoint(service), methods=["POST"]))
    web.router.routes.append(_MountedRoute(prefix + A2A, A2AEndpoint(service), methods=["GET", "POST"]))
    site = pages(web, service, auth, prefix) if pages else None
    web.add_middleware(
        SecurityMiddleware,
        auth=auth,
        settings=security,
        open_paths=[prefix + path for path in (*OPEN_PATHS, *_callbacks(app))],
        pages=[prefix + path for path in PAGES],
        site=site,
        renderers={f"{prefix}/openai/": answer_of},
        files=FileBodies(
            {prefix + path: paths for path, paths in FILE_PATHS.items()}, app.attachment_limits.max_bytes
        ),
    )
    web.add_middleware(MetricsMiddleware, metrics=service.metrics, waiting=[f"{prefix}/mcp"])
    web.openapi = _document_of(web, is_locked=auth is not None)
    return web


def _callbacks(app: App) -> list[str]:
    """Return the paths to which issuers send browsers back, which have no key."""
    return [f"{CALLBACK}/{toolset}" for toolset in app.sign_in_servers()]


class _MountedRoute(Route):
    """A route of a protocol whose calls all have one path.

    The scope has it, as it has routes of FastAPI, so that requests are counted by it.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self} if match is Match.FULL else found


def _document_of(web: FastAPI, *, is_locked: bool) -> Callable[[], dict[str, Any]]:
    def document() -> dict[str, Any]:
        if web.openapi_schema is None:
            made = get_openapi(
                title=web.title,
                version=web.version,
                description=web.description,
                routes=web.routes,
                separate_input_output_schemas=False,
            )
            template = "#/components/schemas/{model}"
            _, schemas = models_json_schema([(problems.ProblemDetails, "validation")], ref_template=template)
            known = made.setdefault("components", {}).setdefault("schemas", {})
            known |= schemas["$defs"]
            for name in ("HTTPValidationError", "ValidationError"):
                known.pop(name, None)
            if not is_locked:
                _remove_security(made)
            _correct(made)
            _require_what_is_sent(made)
            web.openapi_schema = made
        return web.openapi_schema

    return document


def _remove_security(document: dict[str, Any]) -> None:
    document["components"].pop("securitySchemes", None)
    for operations in document["paths"].values():
        for operation in operations.values():
            operation.pop("security", None)


def _require_what_is_sent(document: dict[str, Any]) -> None:
    """Require every field of schemas that only responses have.

    Their defaults are always sent, so a typed client need not check whether a field is there.
    Events are the exception: they are written without their defaults.
    """
    schemas: dict[str, Any] = document["components"]["schemas"]
    sent, others = list[Any](), list[Any]()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            others.append(operation.get("requestBody"))
            for status, answer in operation.get("responses", {}).items():
                is_whole = status.startswith("2") and not path.endswith("/events")
                (sent if is_whole else others).append(answer)
    for name in _schemas_in(sent, schemas) - _schemas_in(others, schemas):
        if properties := schemas[name].get("properties"):
            schemas[name]["required"] = list(properties)
            for example in schemas[name].get("examples", ()):
                example |= {
                    each: None for each in properties if each not in example
                }  # restore the nulls that FastAPI drops


def _schemas_in(node: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of the schemas that a part needs, also indirectly."""
    found, left = set[str](), list[Any]([node])
    while left:
        each = left.pop()
        if isinstance(each, dict):
            fields = cast("dict[str, Any]", each)
            name = str(fields.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                left.append(schemas[name])
            left.extend(fields.values())
        elif isinstance(each, list):
            left.extend(cast("list[Any]", each))
    return found


def _correct(node: Any) -> None:
    """Correct schemas that the library generates inaccurately.

    A part of a message fits more than one kind, since any part fits that of newer versions. A duration is one of ISO 8601 with
    fractions of seconds, which the format of JSON Schema does not have.
    """
    if isinstance(node, dict):
        schema = cast("dict[str, Any]", node)
        if "oneOf" in schema and "discriminator" not in schema:
            schema["anyOf"] = schema.pop("oneOf")
        if schema.get("format") == "duration":
            del schema["format"]
            schema.setdefault("examples", ["PT0.5S"])
        for each in schema.values():
            _correct(each)
    elif isinstance(node, list):
        for each in cast("list[Any]", node):
            _correct(each)
