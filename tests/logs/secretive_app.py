"""An app whose tools output a secret, beside a public marker, in every way that a tool has.

The message names the way. Each tool is called with the way, with the marker `seen-WAY-TOOL` as the planner's
argument, and with an injected secret of its own: wherever the marker is found, the secret was sent too.
"""

import asyncio
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel, Field, SecretStr
from seeded import core_of, secret

from sojourn import (
    Agent,
    App,
    PlanResult,
    RateLimited,
    RetryHint,
    RunPolicy,
    ToolCallMeta,
    ToolFailed,
    ToolRequest,
    ToolResult,
    Toolset,
    ToolUnavailable,
    Turn,
    WithArtifacts,
    mcp,
    progress,
)
from sojourn.contracts import ToolTelemetry
from sojourn.contracts.tool_call import InputForm, InputRequired
from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_spec import Retry

HOLD = Path(os.environ["HOLD"])
"""Calls of the way `held` last while this file exists."""

log = structlog.get_logger("tell.tools")
standard = logging.getLogger("tell.standard")


class ToldError(Exception):
    """Has the secret in its text, in its arguments and in its code."""

    def __init__(self, both: str) -> None:
        super().__init__(both, {"both": both})
        self.code = both


def returned(both: str, _token: str) -> Any:
    return both


def nested(both: str, token: str) -> Any:
    return WithArtifacts({both: [both, {"token": token}]}, note=both)


def as_json(both: str, token: str) -> Any:
    return f"{json.dumps(both)} {both!r} {json.dumps({'token': token})}"


def whole(both: str, token: str) -> Any:
    telemetry = ToolTelemetry(model=both, extra={"both": both, "token": [token]})
    return ToolResult(result=both, telemetry=telemetry)


def asks(both: str, _token: str) -> Any:
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": both}}}
    return ToolResult(input_required=InputRequired(forms=[InputForm(key="k", message=both, form=schema)]))


def logs(both: str, token: str) -> Any:
    log.debug(both, token=token)
    log.info("told", both=both, token=token, nested={token: [token, {"t": token}]}, model=Shown(text=both))
    standard.warning("%s and %r", both, {"token": token}, extra={"token": token})
    standard.error("%d is no number", both)
    try:
        raise ToldError(both)
    except ToldError:
        log.exception("failed", both=both)
        standard.exception("failed")
    return "logged"


def aside(both: str, token: str) -> Any:
    """Raise in a thread and in a task that nothing awaits."""

    def fail() -> None:
        raise ToldError(f"{both} {token}")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return "aside"

    async def later() -> None:
        raise ToldError(f"{both} {token}")

    loop.create_task(later())  # noqa: RUF006 - nothing awaits it
    return "aside"


def fails(both: str, _token: str) -> Any:
    raise ToldError(both)


def chains(both: str, _token: str) -> Any:
    try:
        raise KeyError(both)
    except KeyError as error:
        raise ExceptionGroup(both, [ValueError(both)]) from error


def refuses(both: str, token: str) -> Any:
    issue = FieldIssue(field="/seen", constraint="rejected", expected_type=both, allowed=[both], pattern=both)
    given: dict[str, Any] = {"seen": both, "nested": [token]}
    raise ToolFailed(
        both,
        code=both,
        hint=RetryHint(
            reason="invalid_arguments",
            tool="",
            message=both,
            clarifying_question=both,
            prior_input=given,
            example_input=given,
            issues=[issue],
        ),
    )


def is_limited(both: str, _token: str) -> Any:
    raise RateLimited(both, retry_after=0.01)


def is_away(both: str, _token: str) -> Any:
    raise ToolUnavailable(both, retry_after=0.01)


def is_cut_off(both: str, _token: str) -> Any:
    raise ConnectionError(both)


def leaves(both: str, _token: str) -> Any:
    sys.exit(both)


class OwnEnd(BaseException):
    """A `BaseException` that is no `Exception`."""


def bursts(both: str, _token: str) -> Any:
    raise BaseExceptionGroup(both, [OwnEnd(both)]) from OwnEnd(both)


def is_large(both: str, _token: str) -> Any:
    return both * 40_000


WAYS: dict[str, Callable[[str, str], Any]] = {
    each.__name__: each
    for each in (
        returned,
        nested,
        as_json,
        whole,
        asks,
        logs,
        aside,
        fails,
        chains,
        refuses,
        is_limited,
        is_away,
        is_cut_off,
        leaves,
        bursts,
        is_large,
    )
}


class Shown(BaseModel):
    text: str


class Vault:
    """Injects the tokens that have no function of their own, and raises with the secret in the way `prevented`."""

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        tool = tools.tools.get(call.name.rsplit(".", 1)[-1])
        if tool is None or tool.spec.injected != ["token"]:
            return call
        if "token" not in call.payload:
            call = tool.inject(call, token=token_of(call.name))
        log.info("intercepted", call=call.model_dump())
        if call.payload["way"] == "prevented":
            raise ToldError(f"{call.payload['seen']} {call.payload['token']}")
        return call


def token_of(name: str) -> str:
    """Return a tool's secret; an awkward one is escaped differently in JSON, in Python and in URLs."""
    name = name.rsplit(".", 1)[-1]
    if "awkward" in name:
        return f'-----BEGIN "{core_of(name)}"\n\\{core_of(name + "/2")}\té/+-----'
    return secret(name)


tools = Toolset("tell.tools")


def declare(name: str, *, sync: bool = False, filled: bool = False, local: bool = False) -> None:
    """Declare a tool that outputs its secret."""

    async def tell(way: str, seen: str, token: str) -> Any:
        """Tell."""
        both = f"{seen} {token}"
        progress(both)
        if way == "slow":
            log.info("slow", both=both)
            await asyncio.sleep(60)
        while way == "held" and HOLD.exists():
            progress(both)
            await asyncio.sleep(0.1)
        return WAYS[way](both, token) if way in WAYS else "done"

    def tell_in_thread(way: str, seen: str, token: str) -> Any:
        """Tell, sync."""
        both = f"{seen} {token}"
        progress(both)
        if way == "slow":
            log.info("slow", both=both)
            time.sleep(4)
            log.info("too late", both=both)
            raise ToldError(both)
        while way == "held" and HOLD.exists():
            progress(both)
            time.sleep(0.1)
        return WAYS[way](both, token) if way in WAYS else "done"

    tools.tool(
        name=name,
        inject={"token": (lambda meta: token_of(name)) if filled else None},
        idempotent=True,
        local=local,
        timeout=timedelta(seconds=3) if name != "patient" else timedelta(seconds=60),
        retry=Retry(max_attempts=2, initial_interval=timedelta(seconds=0.01)),
        artifacts={"note": str},
    )(tell_in_thread if sync else tell)


declare("filled", filled=True)
declare("filled_sync", filled=True, sync=True)
declare("vault")
declare("vault_sync", sync=True)
declare("near", local=True)
declare("awkward", filled=True)
declare("awkward_sync", sync=True)
declare("patient", filled=True)


class Login(BaseModel):
    seen: str
    way: str
    password: SecretStr = Field(min_length=6)


class Keys(BaseModel):
    seen: str
    keys: list[SecretStr]
    pin: SecretStr | None = Field(default=None, max_length=4)


marked = Toolset("tell.marked")


@marked.tool(retry=Retry(max_attempts=2, initial_interval=timedelta(seconds=0.01)))
def login(args: Login) -> Any:
    """Take a secret from the planner as a `SecretStr`, and output its value."""
    log.info("login", args=args, both=f"{args.seen} {args.password.get_secret_value()}")
    if args.way in ("fails", "chains", "is_limited", "is_away", "is_cut_off", "leaves", "bursts", "logs"):
        return WAYS[args.way](f"{args.seen} {args.password.get_secret_value()}", "none")
    return args


@marked.tool
def store(args: Keys) -> str:
    """Take secrets in a list, and a pin, which the schema refuses when it is too long."""
    raise ToldError(f"{args.seen} {args.keys[0].get_secret_value()}")


async def plan(turn: Turn) -> PlanResult:
    """Call every tool in the way that the message names."""
    way = turn.messages[0].text
    if turn.tool_results:
        return PlanResult.final(f"seen-final-{way}")
    calls = [
        ToolRequest(name=tool.id, payload={"way": way, "seen": f"seen-{way}-{name}"})
        for name, tool in tools.tools.items()
        if (name == "patient") == (way == "held")
    ]
    if way != "held":
        password = {"password": secret("password")}
        calls += [login.call(**{"way": way, "seen": f"seen-{way}-login", **password})]
    if way == "fails":
        keys = {"seen": "seen-fails-store", "keys": [secret("key")]}
        calls += [ToolRequest(name=store.id, payload=keys)]
        calls += [ToolRequest(name=store.id, payload={**keys, "pin": secret("pin")})]
    return PlanResult.calls(*calls).model_copy(update={"notes": [f"seen-note-{way}"]})


async def plan_servers(turn: Turn) -> PlanResult:
    """Call the tools of the MCP servers that repeat their secrets."""
    if turn.tool_results:
        return PlanResult.final("seen-final-servers")
    names = turn.messages[0].text.split()
    toolsets = {"process": process, "remote": remote}
    return PlanResult.calls(
        *(
            ToolRequest(name=f"{toolset.id}.{name}", payload={"seen": f"seen-{name}-{where}"})
            for where, toolset in toolsets.items()
            for name in names
        )
    )


process = mcp.McpToolset(
    "tell.process",
    transport=mcp.Stdio(
        sys.executable, os.environ["MCP_SERVER"], "stdio", env={"TOKEN": secret("env"), "HOLD": str(HOLD)}
    ),
)
remote = mcp.McpToolset(
    "tell.remote",
    transport=mcp.Http(
        f"http://user:{secret('basic')}@127.0.0.1:{os.environ['MCP_PORT']}/mcp?key={secret('query')}",
        headers={"X-Token": secret("header"), "X-Other": f"Bearer {secret('bearer')}"},
    ),
)
policy = RunPolicy(max_consecutive_failed_tool_calls=1_000)
app = App(
    agents=[
        Agent("tell.agent", planner=plan, uses=[tools, marked], policy=policy),
        Agent("tell.servers", planner=plan_servers, uses=[process, remote], policy=policy),
    ],
    interceptors=[Vault()],
)
