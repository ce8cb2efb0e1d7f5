"""`sojourn serve` runs the HTTP service of an app."""

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Annotated

import typer

from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.oidc import oidc_of_settings, with_oidc
from sojourn.cli.options import Json, Target, connected, load_app

__all__ = ["serve"]


@with_oidc
@connected
def serve(
    target: Target,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The port. Default: 8460, or the next that is free."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Let in who has a key of this file."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name of the service; can be given several times."
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin", metavar="ORIGIN", help="A web origin whose pages may use it; can be repeated."
        ),
    ] = None,
    temporal_ui: Annotated[
        str | None,
        typer.Option(
            "--temporal-ui", metavar="URL", help="The address of Temporal's UI, to which the console links."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Serve an app over HTTP until SIGTERM or Ctrl-C: start, follow and answer its runs.

    \b
    sojourn serve worker:app --port 8460
    sojourn serve worker:app --host 0.0.0.0 --keys keys.json --allow-host agents.example.org
    sojourn serve worker:app --host 0.0.0.0 --oidc-issuer https://login.example.org --oidc-audience agents
    """
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise CommandError(
            "the HTTP service needs its packages: pip install 'sojourn[http]'", exit_code=USAGE
        )
    from sojourn.asgi import create_app
    from sojourn.http.listening import address_of, is_loopback, listen
    from sojourn.http.security.keys import ApiKeys
    from sojourn.http.security.middleware import SecuritySettings
    from sojourn.http.security.principals import FirstOf
    from sojourn.http.server import serve as serve_until_stopped
    from sojourn.logs import configure_logs

    tokens = oidc_of_settings()
    ways = [way for way in (ApiKeys(keys) if keys else None, tokens) if way is not None]
    if not is_loopback(host) and not ways:
        raise CommandError(
            f"--host {host}: everybody who reaches this address could start, answer and cancel runs; make keys with "
            "`sojourn keys create --name NAME --file FILE`, and serve with --keys FILE; or let in the tokens of a provider with "
            "--oidc-issuer and --oidc-audience; or serve it at 127.0.0.1",
            exit_code=USAGE,
        )
    app = load_app(target)
    configure_logs()
    web = create_app(
        app,
        auth=FirstOf(*ways) if ways else None,
        security=SecuritySettings(hosts=hosts, origins=origins or ()),
        temporal_ui=temporal_ui,
    )
    with listen(host, port) as listener:
        address = address_of(listener)
        line = f"serving {target} over HTTP at {address}   API {address}/openapi.json"
        told = json.dumps({"event": "http", "address": address}) if as_json else line
        asyncio.run(serve_until_stopped(web, listener, announce=lambda: print(told, flush=True)))
    return OK
