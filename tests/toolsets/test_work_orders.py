import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import chdir, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp.server.mcpserver.exceptions import ToolError

from sojourn import ToolCallMeta, ToolResult
from sojourn.mcp import McpToolset
from tests.programs import Program
from toolsets.devices import get_device
from toolsets.sites import get_site, list_sites
from toolsets.work_orders import transport
from toolsets.work_orders_server import WorkOrder, list_work_orders, open_work_order

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 31, 6, tzinfo=UTC)


@pytest.fixture(scope="module")
def shared_database(made_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the database, for the server of `opened`."""
    return Path(shutil.copy(made_database, tmp_path_factory.mktemp("shared") / "ops.db"))


@pytest.fixture(scope="module")
async def opened(shared_database: Path) -> AsyncIterator[McpToolset]:
    """Open the toolset from a folder that is not the project's."""
    with chdir(shared_database.parent):
        toolset = McpToolset("ops.work_orders", transport=transport(Path(shared_database.name)))
        await toolset.open()
    yield toolset
    await toolset.close()


async def answer(toolset: McpToolset, name: str, **payload: Any) -> ToolResult:
    """Call a tool of the server."""
    return await toolset[name].prepare({}, toolset.call(name, **payload), ToolCallMeta(run_id="r"))()


def every_order() -> list[WorkOrder]:
    """Read the work orders of all sites."""
    return [order for site in list_sites().sites for order in list_work_orders(site.site_id).work_orders]


def servers_on(database: Path) -> list[psutil.Process]:
    """Find the server processes on a database."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "toolsets.work_orders_server" in command and str(database) in command:
            found.append(process)
    return found


def test_work_fits_the_sites():
    """Work on a device is at the site of that device, and closed work lies before the current time of the data."""
    orders = every_order()
    assert len({order.work_order_id for order in orders}) == len(orders) > 10
    for order in orders:
        for device_id in re.findall(r"d-\d{4}", order.summary):
            device = get_device(device_id=device_id)
            assert device.site_id == order.site_id
        assert order.opened_at < NOW
        assert (order.closed_at is not None) is (order.status == "closed")
        assert order.closed_at is None or order.opened_at < order.closed_at < NOW
        assert (order.starts_at is None) is (order.ends_at is None)


def test_a_planned_power_cut_is_under_way_at_the_dark_site():
    """The grid operator cut the power of s-7 hours before its gateway fell silent, and has not ended yet."""
    site = get_site(site_id="s-7")
    last = get_device(device_id=site.gateway_id).last_seen
    cut = next(order for order in list_work_orders("s-7", "open").work_orders if order.cuts == "power")
    assert cut.starts_at
    assert cut.ends_at
    assert last
    assert timedelta(hours=9) < last - cut.starts_at < timedelta(hours=14)
    assert cut.ends_at > site.as_of


def test_status_and_limit():
    """A list has one status or all, the latest work order first; a truncated list says so."""
    orders = list_work_orders("s-3")
    assert [order.status for order in orders.work_orders] == ["open", "open", "closed"]
    assert list_work_orders("s-3", "closed").work_orders == orders.work_orders[2:]
    cut = list_work_orders("s-3", limit=1)
    assert (cut.returned, cut.total, cut.truncated) == (1, 3, True)
    assert cut.work_orders == orders.work_orders[:1]
    assert cut.refinement_hint
    assert (orders.returned, orders.total, orders.truncated, orders.refinement_hint) == (3, 3, False, None)


def test_one_summary_is_open_once_at_a_site():
    """A work order that is opened again, in upper or lower case, stays as it was; another site has its own."""
    first = open_work_order("s-7", "Replace the gateway battery", "high")
    assert (first.created, first.priority, first.opened_at) == (True, "high", NOW)
    again = open_work_order("s-7", "replace the GATEWAY battery", "low")
    assert again == first.model_copy(update={"created": False})
    assert open_work_order("s-16", "Replace the gateway battery").created
    assert list_work_orders("s-7", "open").total == 2


def test_work_that_was_done_can_be_asked_for_again():
    """A closed work order does not stand in the way of a new one with its summary."""
    done = list_work_orders("s-7", "closed").work_orders[0]
    assert open_work_order("s-7", done.summary).created


def test_unknown_site_opens_nothing():
    """A site that does not exist is refused."""
    for call in (list_work_orders, lambda site_id: open_work_order(site_id, "Mow")):
        with pytest.raises(ToolError, match="there is no site s-70"):
            call("s-70")


@pytest.mark.usefixtures("processes")
async def test_tools_say_what_they_take_answer_and_do(opened: McpToolset):
    """The server describes each argument and each field of its answers, and what its tools change."""
    specs = {name: tool.spec for name, tool in opened.tools.items()}
    assert set(specs) == {"list_work_orders", "open_work_order"}
    assert specs["list_work_orders"].annotations.read_only
    assert specs["open_work_order"].annotations.idempotent
    for spec in specs.values():
        for shape in (spec.payload, spec.result):
            assert set(shape.json_schema["properties"]) <= set(shape.field_descriptions)


@pytest.mark.usefixtures("processes")
async def test_process_answers_from_any_folder(
    opened: McpToolset, shared_database: Path, monkeypatch: pytest.MonkeyPatch
):
    """The server is found wherever the worker was started, and reads and writes the worker's own file."""
    monkeypatch.setenv("SOJOURN_OPS_DB", str(shared_database))
    result = await answer(opened, "list_work_orders", site_id="s-7", status="open")
    assert result.result == list_work_orders("s-7", "open").model_dump(mode="json")
    made = await answer(opened, "open_work_order", site_id="s-7", summary="Check the fuse")
    with closing(sqlite3.connect(shared_database)) as connection:
        latest = connection.execute("SELECT summary FROM work_orders ORDER BY order_no DESC").fetchone()
    assert latest == (made.result["summary"],) == ("Check the fuse",)


@pytest.mark.usefixtures("processes")
async def test_refusals_reach_the_planner(opened: McpToolset):
    """A call that breaks the schema is answered with a hint, without the server; an error of the server reaches the planner."""
    short = await answer(opened, "open_work_order", site_id="s-7", summary="x")
    assert short.retry_hint
    assert [issue.field for issue in short.retry_hint.issues] == ["/summary"]
    unknown = await answer(opened, "list_work_orders", site_id="s-70")
    assert unknown.error
    assert "there is no site s-70" in unknown.error.message


@pytest.mark.usefixtures("processes")
async def test_process_ends_with_its_toolset(ops_database: Path):
    """A toolset that is closed leaves no server behind."""
    toolset = McpToolset("ops.work_orders", transport=transport(ops_database))
    await toolset.open()
    (server,) = servers_on(ops_database)
    await toolset.close()
    assert not server.is_running()


@pytest.mark.usefixtures("processes")
async def test_process_ends_with_a_killed_worker(ops_database: Path, tmp_path: Path, until):
    """A worker that is killed takes its server with it, since the server's input ends."""
    code = (
        "import asyncio\n"
        "from worker import app\n"
        "async def main():\n"
        "    await app.open()\n"
        "    print(app.unavailable(), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    output = tmp_path / "output"
    worker = Program("-c", code, cwd=ROOT, env=os.environ, out=output, err=tmp_path / "errors")
    await until(lambda: output.read_text() or worker.poll() is not None)
    assert output.read_text() == "[]\n"
    (server,) = servers_on(ops_database)
    worker.kill()
    _, alive = psutil.wait_procs([server], timeout=60)
    assert not alive


@pytest.mark.usefixtures("processes")
def test_deployment_stands_without_the_extra(ops_database: Path):
    """Without MCP's SDK the app opens all the same, and says which toolset is unavailable."""
    code = (
        "import asyncio, sys\n"
        "sys.modules['mcp'] = sys.modules['mcp_types'] = None\n"
        "from worker import app\n"
        "async def main():\n"
        "    await app.open()\n"
        "    print(app.unavailable(), list(app.tools_of('ops.assistant')))\n"
        "    await app.close()\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    printed = done.stdout.splitlines()[-1]
    assert "toolset ops.work_orders is unavailable" in printed
    assert "ops.sites.get_site" in printed


@pytest.mark.usefixtures("processes")
def test_process_needs_a_database(tmp_path: Path):
    """A server that is started without a database prints its usage."""
    out, err = tmp_path / "out", tmp_path / "err"
    command = ("-m", "toolsets.work_orders_server")
    status = Program(*command, cwd=ROOT, env=os.environ, out=out, err=err).wait()
    assert (status, out.read_text()) == (1, "")
    assert "usage: python -m toolsets.work_orders_server DATABASE" in err.read_text()
