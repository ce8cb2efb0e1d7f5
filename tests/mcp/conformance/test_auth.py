"""MCP's conformance suite for clients that sign people in, by real runs whose waits a service answers."""

import asyncio
import json
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from tests.http.conformance.test_server import HERE as PACKAGE
from tests.http.conformance.test_server import NODE
from tests.mcp.conformance.sign_in import sign_in_and_call
from tests.mcp.conformance.test_client import RELAY, checks_of
from tests.node_modules import installed

SCENARIOS = (
    "metadata-default",
    "metadata-var1",
    "metadata-var2",
    "metadata-var3",
    "basic-cimd",
    "scope-from-www-authenticate",
    "scope-from-scopes-supported",
    "scope-omitted-when-undefined",
    "scope-step-up",
    "scope-retry-limit",
    "token-endpoint-auth-basic",
    "token-endpoint-auth-post",
    "token-endpoint-auth-none",
    "resource-mismatch",
    "pre-registration",
    "offline-access-scope",
    "offline-access-not-supported",
    "authorization-server-migration",
    "iss-supported",
    "iss-not-advertised",
    "iss-supported-missing",
    "iss-wrong-issuer",
    "iss-unexpected",
    "iss-normalized",
    "metadata-issuer-mismatch",
)
"""Those of the revision 2026-07-28."""

OLDER = {
    "2025-11-25": (*SCENARIOS[:13], "pre-registration"),
    "2025-03-26": ("2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"),
}
"""The scenarios of earlier revisions, by revision."""

AT_ONCE = 3


@pytest.mark.usefixtures("processes")
async def test_a_run_signs_in_as_the_suite_wants(temporal_address, tmp_path) -> None:
    """Each scenario passes every check, with a person who opens the link of each wait."""
    await conforms(temporal_address, tmp_path, dict.fromkeys(SCENARIOS, "2026-07-28"))


@pytest.mark.usefixtures("campaigns")
async def test_a_run_signs_in_at_older_servers(temporal_address, tmp_path) -> None:
    """The same for the revisions before, down to servers without metadata."""
    for version, scenarios in OLDER.items():
        await conforms(temporal_address, tmp_path / version, dict.fromkeys(scenarios, version))


async def conforms(temporal_address: str, tmp_path: Path, scenarios: dict[str, str]) -> None:
    """Run scenarios, each by its revision, and check that the suite finds no fault."""
    program = await asyncio.to_thread(installed, PACKAGE) / "@modelcontextprotocol/conformance/dist/index.js"
    numbers = iter(range(1_000))

    async def call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            folder = tmp_path / f"vault-{next(numbers)}"
            await sign_in_and_call(temporal_address, folder, *json.loads(await reader.readline()))
        except Exception:
            writer.write(traceback.format_exc().encode())
        writer.close()

    turns = asyncio.Semaphore(AT_ONCE)

    async def run(scenario: str, version: str) -> str:
        async with turns:
            process = await asyncio.create_subprocess_exec(
                *(str(NODE), str(program), "client", "--scenario", f"auth/{scenario}"),
                *("--spec-version", version, "--timeout", "120000"),
                *("--command", f"{sys.executable} -IS {RELAY} {port}", "-o", str(tmp_path / scenario)),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            out, _ = await process.communicate()
            return out.decode()[-3_000:]

    async with await asyncio.start_server(call, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        told = await asyncio.gather(*map(run, scenarios, scenarios.values()))
    ends = dict(zip(scenarios, told, strict=True))
    checks = {scenario: checks_of(tmp_path / scenario) for scenario in scenarios}
    failing = {
        f"{scenario}: {check['id']}": ends[scenario]
        for scenario, found in checks.items()
        for check in found
        if check["status"] in ("FAILURE", "WARNING")
    }
    assert failing == {}
    assert {scenario for scenario, found in checks.items() if not found} == set(), ends
