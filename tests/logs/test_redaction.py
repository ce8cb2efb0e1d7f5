"""No secret gets out: each path is given a secret, and all output is searched for it.

Beside each secret goes a public marker. Where a test finds the marker but not the secret, the secret was
masked; where the marker is missing too, the test has searched the wrong place and fails.
"""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from temporalio.common import RawValue

from sojourn import Run
from sojourn.server import ports

from .seeded import core_of
from .waiting import until

MCP_SERVER = Path(__file__).with_name("leaky_server.py")
WAYS = (
    *("returned", "nested", "as_json", "whole", "asks", "logs", "aside", "fails", "chains", "refuses"),
    *("is_limited", "is_away", "is_cut_off", "leaves", "bursts", "is_large", "slow", "prevented"),
)
TOOLS = ("filled", "filled_sync", "vault", "vault_sync", "near", "awkward", "awkward_sync")
INJECTED = (*TOOLS, "patient", "awkward/2", "awkward_sync/2")
SERVERS = ("env", "header", "bearer", "query", "basic")
MARKED = ("password", "key", "pin")

LOGGED = (
    "logs",
    "fails",
    "chains",
    "slow",
    "is_limited",
    "is_away",
    "is_cut_off",
    "leaves",
    "bursts",
    "prevented",
)
"""Ways whose marker is in the log."""

ON_CONSOLE = ("logs", "chains", "aside")
"""Ways that also run on the worker that logs for a console, whose log pipeline differs only in its last step."""

RECORDED = tuple(way for way in WAYS if way not in ("logs", "aside", "is_large", "slow", "asks"))
"""Ways whose marker is in the result."""


@dataclass
class Campaign:
    """All output of the workers and their runs, by its place."""

    seed: str
    outputs: dict[str, str] = field(default_factory=dict)

    def found(self, names: tuple[str, ...], places: tuple[str, ...]) -> list[str]:
        """Return the secrets that outputs contain, each with the text around it."""
        cores = {name: core_of(name, self.seed) for name in names}
        return [
            f"{name} in {where}: ...{text[max(0, text.index(core) - 300) : text.index(core) + 100]}"
            for where in places
            for text in (self.outputs[where],)
            for name, core in cores.items()
            if core in text
        ]

    def missing(self, markers: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the outputs that lack a marker, each with the marker."""
        return sorted((where, marker) for where, marker in markers if marker not in self.outputs[where])


def as_text(value: Any) -> str:
    """Return all fields of a pydantic value as text."""
    return json.dumps(value.model_dump(mode="json", by_alias=True), ensure_ascii=False, default=repr)


async def collect(campaign: Campaign, run: Run) -> None:
    """Add all that the server has of a run to the outputs."""
    handle = run.client.temporal.get_workflow_handle(run.id)
    transcript = await handle.query("transcript", result_type=RawValue)
    history = [event.SerializeToString() async for event in handle.fetch_history_events()]
    outputs = {
        "history": b"".join(history).decode(errors="replace"),
        "events": "\n".join([as_text(event) async for event in run.events()]),
        "status": as_text(await run.status()),
        "transcript": transcript.payload.data.decode(),
        "described": str((await handle.describe()).raw_description),
    }
    for where, text in outputs.items():
        campaign.outputs[where] = campaign.outputs.get(where, "") + text + "\n"


async def heartbeat_of(run: Run) -> str:
    """Return the server's description of a run, once each of its calls in flight has sent a heartbeat with a note."""
    handle = run.client.temporal.get_workflow_handle(run.id)

    async def with_notes() -> str:
        described = (await handle.describe()).raw_description
        pending = described.pending_activities
        have_notes = pending and all(each.heartbeat_details.payloads for each in pending)
        return str(described) if have_notes else ""

    return await until(with_notes)


def free_port() -> int:
    """Return a free loopback port that no outgoing connection takes before the server starts."""
    return ports.pick(0, 0)


@pytest.fixture(scope="module")
async def campaign(temporal_address, tmp_path_factory, worker, worker_of):
    """Run every way at level debug on a worker that logs JSON, and some on one that logs for a console; collect all output."""
    made = Campaign(uuid.uuid4().hex)
    hold = tmp_path_factory.mktemp("hold") / "hold"
    hold.touch()
    port = str(free_port())
    environment = {"SEED": made.seed, "HOLD": str(hold), "MCP_SERVER": str(MCP_SERVER), "MCP_PORT": port}
    served = worker_of([str(MCP_SERVER), "http", port], **environment)

    async def play(log_format: str, ways: tuple[str, ...], *, with_held: bool) -> None:
        client, process = await worker(
            "secretive_app:app", level="debug", log_format=log_format, **environment
        )
        runs: list[Run] = []
        if with_held:
            runs += [await client.start("tell.agent", "held"), await client.start("tell.servers", "reports")]
            beats = await asyncio.gather(*map(heartbeat_of, runs))
            made.outputs["heartbeat"] = "".join(beats)
            hold.unlink()
            runs += [await client.start("tell.servers", "fails raises writes echo")]
        runs += [await client.start("tell.agent", way) for way in ways]
        await asyncio.gather(*(run.result() for run in runs))
        if log_format == "json":
            settings = {"TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
            for name, flags in (("command --json", ["--json"]), ("command", [])):
                command = worker_of(["-m", "sojourn", "run", "tell.agent", "fails", *flags], **settings)
                await until(lambda command=command: not command.is_running)
                made.outputs[name] = command.out + command.err
        for run in runs:
            await collect(made, run)
        assert process.stop() == 0
        made.outputs[f"{log_format} log"] = process.err
        made.outputs[f"{log_format} output"] = process.out

    await asyncio.gather(play("json", WAYS, with_held=True), play("console", ON_CONSOLE, with_held=False))
    served.kill()
    return made


LOGS = ("json log", "console log")
OUTPUTS = (*LOGS, "json output", "console output", "status", "described", "heartbeat")
EVERYWHERE = (*OUTPUTS, "history", "events", "transcript", "command --json", "command")


def test_no_injected_value_is_found(campaign):
    """No value that a function or an interceptor injects gets out, from async, sync and local tools, in any way."""
    assert campaign.found(INJECTED, EVERYWHERE) == []


def test_no_secret_of_an_mcp_server_is_found(campaign):
    """An MCP server's headers, environment, user and query do not get out, although the servers repeat them."""
    assert campaign.found(SERVERS, EVERYWHERE) == []


def test_no_marked_field_is_found(campaign):
    """A `SecretStr` of the payload is in the call, and so in the history, but in no other output."""
    assert campaign.found(MARKED, OUTPUTS) == []


def test_a_marked_field_is_only_in_the_call(campaign):
    """The call holds a marked field, but no error and no sentence of a hint does, although the tool's code repeats it."""
    events = [json.loads(line) for line in campaign.outputs["events"].splitlines()]
    results = [event["result"] for event in events if event["type"] == "tool_end"]
    for result in results:
        for kept in ("prior_input", "example_input", "template"):
            (result["retry_hint"] or {}).pop(kept, None)
    text = json.dumps(results)
    assert [name for name in MARKED if core_of(name, campaign.seed) in text] == []
    assert "seen-fails-login [password]" in text
    assert len(campaign.found(MARKED, ("events",))) == len(MARKED)


# The public markers.


def test_the_log_has_the_marker(campaign):
    """The log of each way has the marker, beside which the secret was logged."""
    logged = [("json log", way) for way in LOGGED]
    logged += [("console log", way) for way in LOGGED if way in ON_CONSOLE]
    markers = {(where, f"seen-{way}-{tool} [token]") for where, way in logged for tool in TOOLS}
    assert campaign.missing(markers) == []


def test_the_results_have_the_marker(campaign):
    """The result of each tool has the marker, beside which the secret was returned."""
    markers = {f"seen-{way}-{tool} [token]" for way in RECORDED for tool in TOOLS}
    places = ("history", "events", "transcript")
    assert campaign.missing({(where, marker) for where in places for marker in markers}) == []


def test_each_output_was_searched(campaign):
    """Each output has a text that must be in it."""
    markers = {
        ("heartbeat", "seen-held-patient [token]"),
        ("status", "seen-note-returned"),
        ("described", "tell.agent"),
        ("command --json", "seen-fails-vault [token]"),
        ("command", "seen-fails-vault [token]"),
        ("json log", "seen-slow-filled_sync [token]"),
        ("json log", "too late"),
        ("json log", '"event": "thread_failed"'),
        ("json log", '"event": "Task exception was never retrieved"'),
        ("json log", '"message": "(left out)"'),
        ("json log", "seen-writes-process ***"),
        ("json log", "seen-logs-login [password]"),
        ("heartbeat", "seen-reports-"),
        ("history", "seen-echo-process"),
        ("history", "seen-fails-process ***"),
        ("history", "seen-fails-remote"),
        ("history", "seen-raises-process ***"),
        ("transcript", "seen-raises-remote"),
    }
    assert campaign.missing(markers) == []
