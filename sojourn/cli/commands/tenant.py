"""`sojourn tenant` shows how much of its quota a tenant uses."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK
from sojourn.cli.options import Json, Target, add_connection_options, load_app
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.contracts.quota import QuotaUse

__all__ = ["tenant"]


@add_connection_options
def tenant(
    name: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant.")],
    target: Target,
    as_json: Json = False,
) -> int:
    """Show how much of its quota a tenant uses.

    \b
    sojourn tenant acme worker:app
    """
    app = load_app(target)
    quota = app.tenants.quota_of(name) if app.tenants else None

    async def main(client: "Client") -> int:
        from sojourn.client.quotas import read_quota_use
        from sojourn.contracts.quota import QuotaUse

        use = QuotaUse()
        if quota is not None:
            use = await read_quota_use(client.temporal, app.name, name, quota)
        if as_json:
            facts = {"tenant": name, "limited": quota is not None, **use.model_dump(mode="json")}
            print(json.dumps(facts, ensure_ascii=False))
        else:
            print(f"{plain(name, 200)}: {_sentence(use) if quota else 'no quota'}")
        return OK

    return with_client(main)


def _sentence(use: "QuotaUse") -> str:
    quota = use.quota
    parts = [
        f"{use.runs:,} of {quota.runs:,} runs at work" if quota.runs is not None else "",
        f"{use.starts:,} of {quota.starts_per_minute:,} starts in the last minute"
        if quota.starts_per_minute is not None
        else "",
        f"{use.waiting:,} waiting",
    ]
    return ", ".join(filter(None, parts))
