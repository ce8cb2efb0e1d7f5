"""`sojourn keys` manages the API keys of the HTTP service."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import role_note
from sojourn.cli.failure import OK
from sojourn.cli.options import Json
from sojourn.cli.screen.text import local, plain

if TYPE_CHECKING:
    from sojourn.http.security.keys import Key

__all__ = ["keys"]

keys = typer.Typer(
    name="keys",
    help="Make, list and revoke keys to the HTTP service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path,
    typer.Option(
        "--file",
        metavar="FILE",
        help="The file of the keys. It has only their hashes.",
        show_default=False,
    ),
]


@keys.command()
def create(
    file: File,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The owner of the key: the subject of its principal.",
            show_default=False,
        ),
    ],
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            metavar="TENANT",
            help="The tenant whose runs it sees. Default: runs without a tenant. With --rotate: the present key's tenant.",
            show_default=False,
        ),
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option(
            "--role",
            metavar="ROLE",
            help="viewer, user, approver, operator, or a role of your own, such as one that a tool's approvers need. Can be given several times. Default: user.",
        ),
    ] = None,
    rotate: Annotated[
        bool,
        typer.Option(
            "--rotate",
            help="Add a key beside the present one of this name, with its tenant and roles. Both are valid.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Create a key, and print it alone on the last line, only this once.

    \b
    sojourn keys create --name ana --tenant acme --role user --role approver --file keys.json
    sojourn keys create --name ana --rotate --file keys.json
    """
    from sojourn.contracts.principal import ROLES
    from sojourn.contracts.record import suggestion
    from sojourn.http.security.keys import create_key, rotate_key

    if rotate and roles:
        raise typer.BadParameter("--rotate gives the new key the roles of the present one; leave out --role")
    if rotate:
        key, text = rotate_key(file, name, tenant=tenant)
    else:
        key, text = create_key(file, name, tenant=tenant or "", roles=roles or ["user"])
    if own := [role for role in key.roles if role not in ROLES]:
        print(f"sojourn: {role_note(own[0])}{suggestion(own[0], ROLES)}", file=sys.stderr)
    if as_json:
        print(json.dumps({**_fields(key), "key": text}, ensure_ascii=False))
        return OK
    of = f" of {plain(key.tenant)}" if key.tenant else ""
    print(f"{key.key_id}  {plain(key.name)}{of}  {plain(', '.join(key.roles))}")
    print("the key is printed only this once; send it as `Authorization: Bearer KEY`:")
    print(text)
    return OK


@keys.command(name="list")
def list_(file: File, as_json: Json = False) -> int:
    """List the keys, also revoked ones, without the secrets.

    \b
    sojourn keys list --file keys.json
    """
    from sojourn.http.security.keys import read_keys

    found = read_keys(file)
    if as_json:
        for key in found:
            print(json.dumps(_fields(key), ensure_ascii=False))
    elif found:
        _print_table(found)
    else:
        print("no keys found")
    return OK


@keys.command()
def revoke(
    which: Annotated[
        str,
        typer.Argument(metavar="KEY", help="The key's id, or the name of several keys.", show_default=False),
    ],
    file: File,
    older: Annotated[
        bool,
        typer.Option("--older", help="With a name: revoke all but the newest key, such as after a rotation."),
    ] = False,
    as_json: Json = False,
) -> int:
    """Revoke a key. Running services refuse it from the next request on.

    \b
    sojourn keys revoke ana --file keys.json
    sojourn keys revoke ana --older --file keys.json
    """
    from sojourn.http.security.keys import revoke_key

    revoked = revoke_key(file, which, older=older)
    if as_json:
        print(json.dumps({"revoked": [key.key_id for key in revoked]}))
    elif revoked:
        print(f"revoked {', '.join(key.key_id for key in revoked)}")
    else:
        print("there is no older valid key" if older else "the key was already revoked")
    return OK


def _fields(key: "Key") -> dict[str, Any]:
    return key.model_dump(mode="json", exclude={"digest"})


def _print_table(found: "list[Key]") -> None:
    rows = [
        (
            key.key_id,
            plain(key.name),
            plain(key.tenant) or "-",
            plain(", ".join(key.roles)),
            local(key.created_at),
            f"revoked {local(key.revoked_at)}" if key.revoked_at else "",
        )
        for key in found
    ]
    wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, wide, strict=True)).rstrip())
