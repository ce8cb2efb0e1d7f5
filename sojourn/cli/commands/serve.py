"""`sojourn serve` serves an app over HTTP, and `sojourn worker` its runs."""

import asyncio
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.arguments import role_note
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import (
    Json,
    Target,
    add_connection_options,
    add_options,
    load_app,
    load_worker_app,
    queue_for,
)

if TYPE_CHECKING:
    from sojourn.http.security.oidc import Oidc

__all__ = ["VARIABLES", "oidc_of_settings", "serve", "with_oidc", "worker"]


_PREFIX = "SOJOURN_OIDC_"
_NAMES = ("issuer", "audience", "jwks_url", "subject_claim", "tenant_claim", "roles_claim", "role")
VARIABLES = tuple(_PREFIX + name.upper() for name in _NAMES)
"""The environment variables."""

_CLAIM = "its name, or a JSON pointer such as /realm_access/roles for a nested one"

Issuer = Annotated[
    str | None,
    typer.Option(
        "--oidc-issuer",
        metavar="URL",
        help="Accept tokens of this OpenID Connect provider. Default: SOJOURN_OIDC_ISSUER, else none.",
    ),
]
Audience = Annotated[
    list[str] | None,
    typer.Option(
        "--oidc-audience",
        metavar="NAME",
        help="An audience of its tokens. Can be given several times. Default: SOJOURN_OIDC_AUDIENCE, with spaces between.",
    ),
]
JwksUrl = Annotated[
    str | None,
    typer.Option(
        "--oidc-jwks-url",
        metavar="URL",
        help="The URL of its keys. Default: SOJOURN_OIDC_JWKS_URL, else that of its configuration.",
    ),
]
SubjectClaim = Annotated[
    str | None,
    typer.Option(
        "--oidc-subject-claim",
        metavar="CLAIM",
        help=f"The claim with the subject: {_CLAIM}. Default: SOJOURN_OIDC_SUBJECT_CLAIM, else sub.",
    ),
]
TenantClaim = Annotated[
    str | None,
    typer.Option(
        "--oidc-tenant-claim",
        metavar="CLAIM",
        help="The claim with the tenant. Each token then needs one. Default: SOJOURN_OIDC_TENANT_CLAIM, else no tenants.",
    ),
]
RolesClaim = Annotated[
    str | None,
    typer.Option(
        "--oidc-roles-claim",
        metavar="CLAIM",
        help="The claim with the roles. Default: SOJOURN_OIDC_ROLES_CLAIM, else roles.",
    ),
]
RoleName = Annotated[
    list[str] | None,
    typer.Option(
        "--oidc-role",
        metavar="NAME=ROLE",
        help="A role of this service for a role of the tokens. Can be given several times. Other roles then do not count. "
        "Default: SOJOURN_OIDC_ROLE, with semicolons between, else the roles of the tokens.",
    ),
]


def with_oidc(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of an OIDC provider, which set the variables of `oidc_of_settings`."""

    def apply(
        issuer: str | None = None,
        audience: list[str] | None = None,
        jwks_url: str | None = None,
        subject_claim: str | None = None,
        tenant_claim: str | None = None,
        roles_claim: str | None = None,
        role: list[str] | None = None,
    ) -> None:
        given = {
            "issuer": issuer,
            "audience": " ".join(audience) if audience else None,
            "jwks_url": jwks_url,
            "subject_claim": subject_claim,
            "tenant_claim": tenant_claim,
            "roles_claim": roles_claim,
            "role": ";".join(role) if role else None,
        }
        os.environ.update({_variable(name): value for name, value in given.items() if value is not None})

    hints = (Issuer, Audience, JwksUrl, SubjectClaim, TenantClaim, RolesClaim, RoleName)
    return add_options(command, apply, {name: (hint, None) for name, hint in zip(_NAMES, hints, strict=True)})


def oidc_of_settings() -> "Oidc | None":
    """Return the authentication by the OIDC provider in the settings, or None."""
    given = {name: text for name in _NAMES if (text := os.environ.get(_variable(name), "").strip())}
    if not given:
        return None
    for needed in ("issuer", "audience"):
        if needed not in given:
            raise CommandError(
                f"{_option_of(next(iter(given)))} is set, but {_option_of(needed)} is not: the service accepts tokens of one issuer, "
                "for one audience",
                exit_code=USAGE,
            )
    from sojourn.http.security.oidc import Oidc

    return Oidc(
        given["issuer"],
        given["audience"].split(),
        jwks_url=given.get("jwks_url"),
        subject=_claim("subject_claim", given.get("subject_claim", "sub")),
        tenant=_claim("tenant_claim", given["tenant_claim"]) if "tenant_claim" in given else None,
        roles=_claim("roles_claim", given.get("roles_claim", "roles")),
        role_names=_role_names(given["role"]) if "role" in given else None,
    )


def _claim(name: str, text: str) -> str | list[str]:
    """Return a claim's name, or the path of a JSON pointer (RFC 6901).

    The names of claims may be URLs, with dots and slashes.
    """
    if not text.startswith("/"):
        return text
    parts = [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]
    if not all(parts):
        raise CommandError(f"{_option_of(name)}: {text!r} is not {_CLAIM}", exit_code=USAGE)
    return parts


def _role_names(text: str) -> dict[str, list[str]]:
    """Parse the map from roles of tokens to roles of this service.

    A provider's role names may have any character but a semicolon. Roles of this service have no `=`.
    """
    from sojourn.contracts.principal import ROLES, Principal, principal_fault

    found: dict[str, list[str]] = {}
    for pair in filter(None, map(str.strip, text.split(";"))):
        name, equals, role = (part.strip() for part in pair.rpartition("="))
        fault = principal_fault(Principal(subject="anybody", roles=[role]))
        if not equals or not name or not role or fault:
            raise CommandError(
                f"{_option_of('role')}: {pair!r} is not NAME=ROLE, such as crew-leads=approver",
                exit_code=USAGE,
            )
        if role not in ROLES:
            print(f"sojourn: {role_note(role)}", file=sys.stderr)
        found.setdefault(name, []).append(role)
    return found


def _variable(name: str) -> str:
    return _PREFIX + name.upper()


def _option_of(name: str) -> str:
    return f"--oidc-{name.replace('_', '-')} ({_variable(name)})"


@with_oidc
@add_connection_options
def serve(
    target: Target,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, help="The port. Default: 8460, or the next free one."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Accept the keys of this file."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A host name of the service. Can be given several times."
        ),
    ] = None,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            metavar="ORIGIN",
            help="A web origin whose pages may use the service. Can be given several times.",
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            "--audit",
            metavar="FILE",
            help="Append a line of JSON for each request, reads included.",
        ),
    ] = None,
    temporal_ui: Annotated[
        str | None,
        typer.Option(
            "--temporal-ui", metavar="URL", help="The URL of Temporal's UI, for links in the console."
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
    from sojourn.http.security.audit import AuditFile
    from sojourn.http.security.keys import ApiKeys
    from sojourn.http.security.middleware import SecuritySettings
    from sojourn.http.security.principals import FirstOf
    from sojourn.http.server import serve as serve_until_stopped
    from sojourn.logs import configure_logs

    tokens = oidc_of_settings()
    ways = [way for way in (ApiKeys(keys) if keys else None, tokens) if way is not None]
    if not is_loopback(host) and not ways:
        raise CommandError(
            f"--host {host}: every client that reaches this address could start, answer and cancel runs; make keys with "
            "`sojourn keys create --name NAME --file FILE`, and serve with --keys FILE; or accept the tokens of a provider with "
            "--oidc-issuer and --oidc-audience; or serve on 127.0.0.1",
            exit_code=USAGE,
        )
    app = load_app(target)
    configure_logs()
    web = create_app(
        app,
        auth=FirstOf(*ways) if ways else None,
        security=SecuritySettings(
            hosts=hosts, origins=origins or (), audit=AuditFile(audit) if audit else None
        ),
        temporal_ui=temporal_ui,
    )
    with listen(host, port) as listener:
        address = address_of(listener)
        line = f"serving {target} over HTTP at {address}   API {address}/openapi.json"
        told = json.dumps({"event": "http", "address": address}) if as_json else line
        asyncio.run(serve_until_stopped(web, listener, announce=lambda: print(told, flush=True)))
    return OK


@add_connection_options
def worker(
    target: Target,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            "--metrics-port",
            metavar="[HOST:]PORT",
            help="Serve the Temporal SDK's metrics for Prometheus. Default: SOJOURN_METRICS_PORT, else off.",
        ),
    ] = None,
    health_port: Annotated[
        str | None,
        typer.Option(
            "--health-port",
            metavar="[HOST:]PORT",
            help="Answer at /live and /ready for supervisors. Default: SOJOURN_HEALTH_PORT, else off.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Log JSON, one object a line, on a terminal too.")
    ] = False,
) -> int:
    """Serve the runs of an app until SIGTERM or Ctrl-C, then drain.

    \b
    sojourn worker worker:app --task-queue support
    """
    from sojourn.worker import serve

    if as_json:
        os.environ["SOJOURN_LOG_FORMAT"] = "json"
    app = load_worker_app(target)
    serve(app, task_queue=queue_for(app, target), metrics_port=metrics_port, health_port=health_port)
    return OK
