"""Configure the OIDC provider whose tokens `sojourn serve` accepts.

The settings are options, or the environment variables that they set.
"""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.acting import own_role
from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.options import extended

if TYPE_CHECKING:
    from sojourn.http.security.oidc import Oidc

__all__ = ["VARIABLES", "oidc_of_settings", "with_oidc"]

_PREFIX = "SOJOURN_OIDC_"
_NAMES = ("issuer", "audience", "jwks_url", "subject_claim", "tenant_claim", "roles_claim", "role")
VARIABLES = tuple(_PREFIX + name.upper() for name in _NAMES)
"""The environment variables."""

_CLAIM = "a name, or for one in another claim a JSON pointer such as /realm_access/roles"

Issuer = Annotated[
    str | None,
    typer.Option(
        "--oidc-issuer",
        metavar="URL",
        help="Let in who has a token of this OpenID Connect provider. Default: SOJOURN_OIDC_ISSUER, else none.",
    ),
]
Audience = Annotated[
    list[str] | None,
    typer.Option(
        "--oidc-audience",
        metavar="NAME",
        help="Whom its tokens are for; can be repeated. Default: SOJOURN_OIDC_AUDIENCE, with spaces between.",
    ),
]
JwksUrl = Annotated[
    str | None,
    typer.Option(
        "--oidc-jwks-url",
        metavar="URL",
        help="Where its keys are. Default: SOJOURN_OIDC_JWKS_URL, else what its configuration says.",
    ),
]
SubjectClaim = Annotated[
    str | None,
    typer.Option(
        "--oidc-subject-claim",
        metavar="CLAIM",
        help=f"The claim that says who: {_CLAIM}. Default: SOJOURN_OIDC_SUBJECT_CLAIM, else sub.",
    ),
]
TenantClaim = Annotated[
    str | None,
    typer.Option(
        "--oidc-tenant-claim",
        metavar="CLAIM",
        help="The claim with the tenant, which each token then needs. Default: SOJOURN_OIDC_TENANT_CLAIM, else no tenants.",
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
        help="A role of the tokens that is this role here; can be repeated, and no others count then. "
        "Default: SOJOURN_OIDC_ROLE, with semicolons between, else roles as they are called.",
    ),
]


def with_oidc(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of an OIDC provider to a command.

    They set environment variables, which `oidc_of_settings` reads.
    """

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
    return extended(command, apply, {name: (hint, None) for name, hint in zip(_NAMES, hints, strict=True)})


def oidc_of_settings() -> "Oidc | None":
    """Return the authentication by the OIDC provider in the settings, or None.

    None if no setting is given.

    Raises:
        CommandError: A setting needs another one, or cannot be read.
        DefinitionError: An address is not one of HTTPS.
    """
    given = {name: text for name in _NAMES if (text := os.environ.get(_variable(name), "").strip())}
    if not given:
        return None
    for needed in ("issuer", "audience"):
        if needed not in given:
            raise CommandError(
                f"{_told(next(iter(given)))} is set, but {_told(needed)} is not: a token is accepted of one issuer, and for "
                "this service",
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
    """Return a claim's name, or the path that a JSON pointer (RFC 6901) names.

    The names of claims may be URLs, with dots and slashes.
    """
    if not text.startswith("/"):
        return text
    parts = [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]
    if not all(parts):
        raise CommandError(f"{_told(name)}: {text!r} is not {_CLAIM}", exit_code=USAGE)
    return parts


def _role_names(text: str) -> dict[str, list[str]]:
    """Parse the setting that maps roles of tokens to roles of this service.

    A provider's role names may have any character but a semicolon. Roles of this service have no
    `=`.
    """
    from sojourn.contracts.principal import ROLES, Principal, principal_fault

    found: dict[str, list[str]] = {}
    for pair in filter(None, map(str.strip, text.split(";"))):
        name, equals, role = (part.strip() for part in pair.rpartition("="))
        fault = principal_fault(Principal(subject="anybody", roles=[role]))
        if not equals or not name or not role or fault:
            raise CommandError(
                f"{_told('role')}: {pair!r} is not NAME=ROLE, such as crew-leads=approver", exit_code=USAGE
            )
        if role not in ROLES:
            print(f"sojourn: {own_role(role)}", file=sys.stderr)
        found.setdefault(name, []).append(role)
    return found


def _variable(name: str) -> str:
    return _PREFIX + name.upper()


def _told(name: str) -> str:
    """Return the name of a setting as the user knows it."""
    return f"--oidc-{name.replace('_', '-')} ({_variable(name)})"
