"""MCP's conformance suite, as the servers that a run's toolset talks to: each scenario in which no person signs in."""

import asyncio
import json
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tests.http.conformance.test_server import HERE as PACKAGE
from tests.http.conformance.test_server import NODE
from tests.mcp.conformance.client import call_tools
from tests.node_modules import installed

RELAY = Path(__file__).with_name("relay.py")

SCENARIOS = {
    "initialize": "2025-11-25",
    "sse-retry": "2025-11-25",
    "tools_call": "2025-11-25",
    "request-metadata": "2026-07-28",
    "sep-2322-client-request-state": "2026-07-28",
    "http-standard-headers": "2026-07-28",
    "http-custom-headers": "2026-07-28",
    "http-invalid-tool-headers": "2026-07-28",
    "json-schema-ref-no-deref": "2026-07-28",
    "json-schema-2020-12-preservation": "2026-07-28",
    "auth/client-credentials-basic": "2026-07-28",
    "auth/client-credentials-jwt": "2026-07-28",
    "auth/enterprise-managed-authorization": "2026-07-28",
    "auth/wif-jwt-bearer": "2026-07-28",
}
"""Each with the revision that it is run by."""

AT_ONCE = 3
"""Scenarios that run at the same time: each starts two programs, and the suite ends one after two minutes."""


@pytest.mark.usefixtures("processes")
async def test_a_run_conforms_as_a_client(temporal_address, tmp_path) -> None:
    """In each scenario an agent of a run calls the tools of the suite's server, and every check of the suite passes."""
    program = await asyncio.to_thread(installed, PACKAGE) / "@modelcontextprotocol/conformance/dist/index.js"

    async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await call_tools(temporal_address, *json.loads(await reader.readline()))
        except Exception:
            writer.write(traceback.format_exc().encode())
        writer.close()

    turns = asyncio.Semaphore(AT_ONCE)

    async def run(scenario: str, version: str) -> str:
        async with turns:
            return await run_alone(scenario, version)

    async def run_alone(scenario: str, version: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(str(NODE), str(program), "client", "--force", "--scenario", scenario),
            *("--spec-version", version),
            *("--command", f"{sys.executable} -IS {RELAY} {port}", "--timeout", "120000"),
            *("-o", str(tmp_path / scenario)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return out.decode()[-3_000:]

    async with await asyncio.start_server(call, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        told = await asyncio.gather(*map(run, SCENARIOS, SCENARIOS.values()))
    ends = dict(zip(SCENARIOS, told, strict=True))
    checks = {scenario: checks_of(tmp_path / scenario) for scenario in SCENARIOS}
    failing = {
        f"{scenario}: {check['id']}": ends[scenario]
        for scenario, found in checks.items()
        for check in found
        if check["status"] in ("FAILURE", "WARNING")
    }
    assert failing == {}
    assert all(any(check["status"] == "SUCCESS" for check in found) for found in checks.values())


def checks_of(folder: Path) -> list[dict[str, str]]:
    """What the suite has found in a scenario."""
    return [check for each in folder.glob("**/checks.json") for check in json.loads(each.read_text())]
