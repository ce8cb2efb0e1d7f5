"""The composition root of the HTTP service: the API, and the pages of the console.

The console uses all of `sojourn.http`, which therefore does not know it. This module passes the pages in.
"""

from importlib.util import find_spec

from fastapi import FastAPI

from sojourn.authoring.app import App
from sojourn.client.client import Client
from sojourn.http.app import create_api
from sojourn.http.security.middleware import SecuritySettings
from sojourn.http.security.principals import Auth

__all__ = ["create_app"]


def create_app(
    app: App,
    *,
    client: Client | None = None,
    auth: Auth | None = None,
    prefix: str = "",
    security: SecuritySettings | None = None,
    console: bool = True,
    temporal_ui: str | None = None,
) -> FastAPI:
    """Return the HTTP service of an app, as an ASGI application to serve or mount.

    It connects when it starts, or with the first request if it is mounted and its lifespan does not
    run.

    Args:
        app: The app, whose agents the service offers.
        client: The client; by default one that the service makes from the standard Temporal settings.
        auth: Authenticates requests; without it, the service accepts only local connections, and lets them do everything.
        prefix: What all paths begin with, such as `/agents`; a mounted application does not need one.
        security: Hosts and origins that are accepted, and limits.
        console: Whether the pages of the console are served beside the API.
        temporal_ui: The address of Temporal's UI, to which the console then links: `https://temporal.example.org`.

    Raises:
        DefinitionError: A security setting, or the address, is invalid.
    """
    pages = None
    if console and find_spec("jinja2"):
        from sojourn.console.site import install as pages  # noqa: PLC0415 - it needs Jinja
    return create_api(
        app, client=client, auth=auth, prefix=prefix, security=security, pages=pages, temporal_ui=temporal_ui
    )
