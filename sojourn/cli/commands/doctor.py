"""`sojourn doctor` checks everything that a run needs, and prints what to do."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sojourn.cli.failure import FAILED, NO_SERVER, OK
from sojourn.cli.options import Json, add_connection_options, load_app, queue_for
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from rich.console import Console

    from sojourn.authoring.app import App
    from sojourn.checks import Check

__all__ = ["doctor"]

_MARKS: dict[bool | None, tuple[str, str]] = {True: ("✓", "green"), False: ("✗", "red"), None: ("·", "dim")}


@add_connection_options
def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:APP",
            help="Also load this app, and check its MCP servers, storage and task queues.",
            show_default=False,
        ),
    ] = None,
    fairness: Annotated[
        bool,
        typer.Option(
            "--fairness",
            help="Also check whether the server takes tenants in turn: it starts 25 workflows.",
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Check what runs need, and say what to do.

    Checks the server, the namespace, its search attributes, workers, the clock, settings and versions. With MODULE:APP, also the app.

    \b
    sojourn doctor worker:app
    """
    return asyncio.run(_main(target, fairness=fairness, as_json=as_json))


async def _main(target: str | None, *, fairness: bool, as_json: bool) -> int:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    made: list[Check] = []
    async for check in _checks(target, fairness=fairness):
        made.append(check)
        if not as_json:
            _show(console, check)
    wrong = [check.name for check in made if check.ok is False]
    code = NO_SERVER if "server" in wrong else FAILED if wrong else OK
    if as_json:
        print(
            json.dumps({"ok": code == OK, "exit_code": code, "checks": [check.to_json() for check in made]})
        )
    return code


async def _checks(target: str | None, *, fairness: bool) -> "AsyncIterator[Check]":
    from sojourn.checks import Check
    from sojourn.checks.application import check_app, check_model, check_storage, check_toolsets, check_vault
    from sojourn.checks.machine import (
        check_cli,
        check_cookies,
        check_extras,
        check_settings,
        check_versions,
    )
    from sojourn.connection import settings
    from sojourn.errors import DefinitionError, ServerUnavailable

    yield check_versions()
    if slow := check_cookies():
        yield slow
    yield check_extras()
    yield await check_cli()
    app = None
    if target is not None:
        try:
            app = load_app(target)
            yield check_app(app, target)
        except DefinitionError as error:
            yield Check("app", False, str(error), "fix that, then run doctor again")
    if app is not None:
        vault = await check_vault(app)
        for check in await check_toolsets(app) if vault is None or vault.ok else ():
            yield check
        yield await check_storage(app)
        if vault:
            yield vault
    yield check_model(app, is_named=target is not None)
    try:
        options = settings.connect_options()
        queue = queue_for(app, target) if app and target else settings.task_queue()
        yield check_settings(options, queue)
        async for check in _service_checks(options, queue, app, fairness=fairness):
            yield check
    except DefinitionError as error:
        yield Check("settings", False, str(error), "correct or unset that setting")
    except ServerUnavailable as error:
        found, _, mend = str(error).partition("; ")
        yield Check("server", False, found, mend)


async def _service_checks(
    options: dict[str, Any], queue: str | None, app: "App | None", *, fairness: bool
) -> "AsyncIterator[Check]":
    from temporalio.service import RPCError

    from sojourn.checks import Check
    from sojourn.checks.application import queues_of
    from sojourn.checks.service import (
        check_clock,
        check_fairness,
        check_namespace,
        check_search_attributes,
        check_server,
    )
    from sojourn.checks.workers import (
        check_agents,
        check_elsewhere,
        check_once,
        check_queue,
        check_runs,
        queues_in,
    )
    from sojourn.client.client import Client
    from sojourn.connection.announcements import read_workers
    from sojourn.connection.connect import connect
    from sojourn.connection.rpc_errors import translate_error

    client = await connect(options)
    try:
        yield await check_server(client)
        namespace = await check_namespace(client)
        yield namespace
        if namespace.ok is False:
            return
        yield await check_search_attributes(client)
        yield await check_clock(client)
        if fairness:
            yield await check_fairness(client)
        workers, tool_queues = await read_workers(client), queues_of(app) if app else []
        queues = [queue] if queue else queues_in(workers)
        if not queues:
            yield Check("workers", False, "none serves an agent", "sojourn worker MODULE:APP")
        for each in queues:
            yield await check_queue(client, each)
            yield check_agents(workers, each)
        if not queue and (twice := check_once(workers)):
            yield twice
        for each in tool_queues:
            yield await check_queue(client, each, activities_only=True)
        for each in queues:
            yield await check_runs(Client(client), each)
        if app or not queue:
            agents = app.list_agents() if app else []
            yield await check_elsewhere(Client(client), [*queues, *tool_queues], agents)
    except RPCError as error:
        raise translate_error(error, None) from error


def _show(console: "Console", check: "Check") -> None:
    from rich.text import Text

    mark, style = _MARKS[check.ok]
    line = Text()
    line.append(f"{mark} ", style=style)
    line.append(f"{plain(check.name)}: ", style="bold")
    line.append(plain(check.found, 2_000))
    console.print(line)
    if check.mend:
        console.print(Text(f"    → {plain(check.mend, 2_000)}", style="yellow"))
