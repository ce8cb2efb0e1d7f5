"""`sojourn deployment` says which version of an app gets runs, and changes it."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.client import with_client
from sojourn.cli.failure import OK, USAGE, CommandError
from sojourn.cli.options import Json, add_connection_options
from sojourn.cli.screen.text import local, plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.deployments import DeploymentVersion

__all__ = ["deployment"]

deployment = typer.Typer(
    name="deployment",
    help="The versions of an app's workers, and which of them gets new runs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str | None,
    typer.Option(
        "--deployment",
        metavar="NAME",
        help="Default: SOJOURN_DEPLOYMENT, else the only one of the namespace.",
    ),
]
BuildId = Annotated[
    str, typer.Argument(metavar="BUILD", help="The build id of the version.", show_default=False)
]


@deployment.command()
@add_connection_options
def status(name: Name = None, as_json: Json = False) -> int:
    """List the versions, the newest first, with the runs that are open on each.

    \b
    sojourn deployment status
    """

    async def main(client: "Client") -> int:
        from sojourn.client.deployments import read_deployment

        found = await read_deployment(client.temporal, await _name(client, name))
        for each in found.versions:
            print(json.dumps({"deployment": found.name, **_to_json(each)}) if as_json else _line(each))
        return OK

    return with_client(main)


@deployment.command()
@add_connection_options
def promote(build_id: BuildId, name: Name = None, as_json: Json = False) -> int:
    """Make a version the current one: new runs begin on it, and moving runs continue on it.

    \b
    sojourn deployment promote 2f6c1d
    """

    async def main(client: "Client") -> int:
        from sojourn.client import deployments

        chosen = await _name(client, name)
        await deployments.promote(client.temporal, chosen, build_id)
        return _done("current", chosen, build_id, as_json=as_json)

    return with_client(main)


@deployment.command()
@add_connection_options
def ramp(
    build_id: BuildId,
    percentage: Annotated[
        float, typer.Argument(metavar="PERCENT", min=0, max=100, help="0 to 100; 0 ends the ramp.")
    ],
    name: Name = None,
    as_json: Json = False,
) -> int:
    """Let a share of new runs begin on a version.

    \b
    sojourn deployment ramp 2f6c1d 10
    """

    async def main(client: "Client") -> int:
        from sojourn.client import deployments

        chosen = await _name(client, name)
        await deployments.ramp(client.temporal, chosen, build_id, percentage)
        return _done("ramping" if percentage else "not ramping", chosen, build_id, as_json=as_json)

    return with_client(main)


@deployment.command()
@add_connection_options
def rollback(name: Name = None, as_json: Json = False) -> int:
    """End the ramp, else make the version current that was so before.

    \b
    sojourn deployment rollback
    """

    async def main(client: "Client") -> int:
        from sojourn.client import deployments

        chosen = await _name(client, name)
        build_id = await deployments.rollback(client.temporal, chosen)
        return _done("current", chosen, build_id, as_json=as_json)

    return with_client(main)


async def _name(client: "Client", given: str | None) -> str:
    from sojourn.client.deployments import find_deployments
    from sojourn.connection import settings

    if named := given or settings.deployment():
        return named
    found = await find_deployments(client.temporal)
    if len(found) == 1:
        return found[0]
    there = f"there are {', '.join(map(plain, found[:10]))}" if found else "no worker has joined one"
    raise CommandError(f"name the deployment with --deployment; {there}", exit_code=USAGE)


def _to_json(version: "DeploymentVersion") -> dict[str, Any]:
    return {
        "build_id": version.build_id,
        "state": version.state,
        "percentage": version.percentage,
        "open_runs": version.open_runs,
        "created_at": version.created_at and version.created_at.isoformat(),
        "was_current_at": version.was_current_at and version.was_current_at.isoformat(),
    }


def _line(version: "DeploymentVersion") -> str:
    state = f"ramping {version.percentage:g} %" if version.state == "ramping" else version.state
    since = f", first seen {local(version.created_at)}" if version.created_at else ""
    return f"{plain(version.build_id)}: {state}, {version.open_runs:,} open{since}"


def _done(state: str, name: str, build_id: str, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"deployment": name, "build_id": build_id, "state": state}))
    else:
        print(f"{plain(build_id)} of {plain(name)} is {state}")
    return OK
