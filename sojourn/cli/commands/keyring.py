"""`sojourn keyring` manages the keys that encrypt what runs store."""

import asyncio
import json
import shlex
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.arguments import parse_duration
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json
from sojourn.cli.screen.text import local, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sojourn.crypto import KeyRing
    from sojourn.crypto.ring_file import RingKey

__all__ = ["keyring"]

keyring = typer.Typer(
    name="keyring",
    help="Make, rotate, list and erase the keys that encrypt what runs store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Ring = Annotated[
    str | None,
    typer.Option(
        "--ring",
        metavar="FILE",
        help="The key ring: a file, or MODULE:RING for one with a key service. Default: SOJOURN_KEYRING.",
    ),
]
Tenant = Annotated[
    str,
    typer.Option(
        "--tenant",
        metavar="TENANT",
        help="The tenant whose runs the key seals. Default: runs without a tenant.",
    ),
]
After = Annotated[
    str,
    typer.Option(
        "--after",
        metavar="DURATION",
        help="How long the key only reads, such as 1h, until every machine has the file. Default: it writes at once.",
    ),
]


@keyring.command()
def create(ring: Ring = None, tenant: Tenant = "", as_json: Json = False) -> int:
    """Create the first key of a ring, or of a tenant.

    \b
    sojourn keyring create --ring keyring.json
    sojourn keyring create --ring keyring.json --tenant acme
    """
    key = asyncio.run(_ring(ring).make_key(tenant))
    _print_done("created", [key], as_json=as_json)
    return OK


@keyring.command()
def rotate(
    ring: Ring = None,
    tenant: Tenant = "",
    every: Annotated[
        bool, typer.Option("--all", help="Rotate the keys of every tenant, and the one without.")
    ] = False,
    after: After = "0s",
    as_json: Json = False,
) -> int:
    """Add a newer key, which writes from now on. The older ones read.

    \b
    sojourn keyring rotate --ring keyring.json --after 1h
    sojourn keyring rotate --ring keyring.json --all
    """
    if every and tenant:
        raise CommandError("--all rotates the keys of every tenant; leave out --tenant", exit_code=USAGE)
    found, delay = _ring(ring), parse_duration(after)
    usable = (key.tenant for key in found.all_keys() if key.erased_at is None)
    tenants = dict.fromkeys(usable) if every else [tenant]
    made = [asyncio.run(found.make_key(each, rotate=True, after=delay)) for each in tenants]
    _print_done("created", made, as_json=as_json)
    return OK


@keyring.command(name="list")
def list_(ring: Ring = None, as_json: Json = False) -> int:
    """List the keys, also erased ones, without their secrets.

    \b
    sojourn keyring list --ring keyring.json
    """
    found = _ring(ring).all_keys()
    if as_json:
        for key in found:
            print(json.dumps(_fields(key), ensure_ascii=False))
        return OK
    rows = [
        (key.key_id, plain(key.tenant) or "-", local(key.created_at), _state(key, found)) for key in found
    ]
    wide = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, wide, strict=True)).rstrip())
    return OK


@keyring.command()
def erase(
    key_id: Annotated[
        str, typer.Argument(metavar="[KEY]", help="An older key, which nothing that is kept needs.")
    ] = "",
    ring: Ring = None,
    tenant: Annotated[
        str, typer.Option("--tenant", metavar="TENANT", help="All keys of this tenant, and so its data.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """Erase keys for ever. What they sealed cannot be read again.

    \b
    sojourn keyring erase --tenant acme --ring keyring.json
    sojourn keyring erase key_0123456789ab --ring keyring.json --yes
    """
    from sojourn.cli.screen.prompt import ask_yes
    from sojourn.crypto.ring_file import erase_keys

    if bool(key_id) == bool(tenant):
        raise CommandError("name a KEY, or --tenant TENANT", exit_code=USAGE)
    found = _ring(ring)
    if not yes:
        if as_json or not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask at; use --yes", exit_code=USAGE)
        what = f"all keys of {plain(tenant)}" if tenant else plain(key_id)
        if not asyncio.run(ask_yes(f"Erase {what}, and with it all that was sealed with it, for ever?")):
            print("nothing was changed")
            return OK
    erased = erase_keys(found.file, tenant=tenant, key_id=key_id)
    _print_done("erased", erased, as_json=as_json)
    if tenant and not as_json:
        query = shlex.quote(f'SojournTenant = "{tenant}" AND ExecutionStatus = "Running"')
        print(
            "Copies of the file have the keys still: erase them too. Open runs of the tenant cannot go on; end them:"
        )
        print(f"temporal workflow terminate --query {query}")
        print("Schedules of the tenant go on, and each of their runs fails; delete them:")
        print("temporal schedule list")
        print("sojourn schedule delete SCHEDULE")
    return OK


def _ring(target: str | None) -> "KeyRing":
    from sojourn.connection import settings
    from sojourn.crypto.key_ring import load_ring

    target = target or settings.key_ring()
    if not target:
        raise CommandError("name the key ring: --ring FILE, or SOJOURN_KEYRING", exit_code=USAGE)
    return load_ring(target)


def _print_done(done: str, keys: "list[RingKey]", *, as_json: bool) -> None:
    for key in keys:
        if as_json:
            print(json.dumps({"done": done, **_fields(key)}, ensure_ascii=False))
            continue
        of = f" of {plain(key.tenant)}" if key.tenant else ""
        later = f", writes from {local(key.active_at)} on" if key.active_at > key.created_at else ""
        print(f"{done} {key.key_id}{of}{later if done == 'created' else ''}")


def _fields(key: "RingKey") -> dict[str, Any]:
    return key.model_dump(mode="json", exclude={"secret"}, exclude_none=True)


def _state(key: "RingKey", keys: "Sequence[RingKey]") -> str:
    from sojourn.crypto.ring_file import writing_key

    if key.erased_at is not None:
        return f"erased {local(key.erased_at)}"
    of_tenant = [each for each in keys if each.tenant == key.tenant and each.erased_at is None]
    if writing_key(of_tenant) == key:
        return "writes"
    return "reads" if key.active_at == key.created_at else f"reads, active at {local(key.active_at)}"
