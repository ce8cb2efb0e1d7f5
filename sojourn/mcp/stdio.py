"""Run a server as a child process, log its stderr, and end its process group.

The SDK's own `stdio_client` is not used: it passes the worker's `HOME`, `USER` and more to every server,
lets the server write to the worker's terminal, and reads lines of any length. Import this module lazily: it
loads the SDK.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from sojourn.mcp.lenient_messages import read_line
from sojourn.mcp.limits import MAX_MESSAGE_BYTES, clean_text, longest_form, mask_secrets, mask_start
from sojourn.mcp.streams import Lines, Link, Overlong

__all__ = ["stdio_streams"]

_log = structlog.get_logger("sojourn.mcp")

_GRACE = 2.0
"""Seconds that a process has to end after its input closes, after SIGTERM, and after SIGKILL."""

_POLL = 0.05
_CHUNK = 65_536
_MAX_LOGGED = 500
_MAX_LINES = 200
_WINDOW = 60.0

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def stdio_streams(
    command: str, arguments: Sequence[str], env: Mapping[str, str], cwd: str | None, link: Link
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server and yield its streams, until its process group is ended."""
    env = {"PATH": os.environ.get("PATH", os.defpath), **env}
    program = shutil.which(command, path=env["PATH"])
    if program is None:
        raise FileNotFoundError(2, "no such program", command)
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    try:
        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process, incoming, link)
            tasks.start_soon(_write, process, outgoing, incoming)
            tasks.start_soon(_watch, process, incoming)
            tasks.start_soon(_log_errors, process, link)
            try:
                yield read, write
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        # Also after a cancellation, and for children that outlived the server.
        _signal(process, signal.SIGKILL)
        _transport_of(process).close()


async def _read(process: Process, incoming: _Incoming, link: Link) -> None:
    assert process.stdout
    lines = Lines(MAX_MESSAGE_BYTES)
    strange = 0
    async with incoming:
        while chunk := await process.stdout.read(_CHUNK):
            for line in lines.feed(chunk):
                messages = read_line(line)
                if messages is None:
                    strange += 1
                    if strange <= 3:
                        _log.warning(
                            "mcp_server_wrote_no_message", toolset=link.toolset_id, bytes=_size(line)
                        )
                try:
                    for message in messages or ():
                        await incoming.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


def _size(line: bytes | Overlong) -> int:
    return line.size if isinstance(line, Overlong) else len(line)


async def _write(process: Process, outgoing: _Outgoing, incoming: _Incoming) -> None:
    assert process.stdin
    async with outgoing:
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            except (ConnectionError, RuntimeError):
                # The server no longer reads: end the session, so that no call waits for an answer.
                await incoming.aclose()
                return


async def _watch(process: Process, incoming: _Incoming) -> None:
    """End the read stream with the server, whose children may hold its output."""
    while process.returncode is None:  # noqa: ASYNC110 - `wait()` waits for its pipes too
        await anyio.sleep(_POLL * 4)
    await anyio.sleep(_POLL * 4)
    await incoming.aclose()


async def _log_errors(process: Process, link: Link) -> None:
    assert process.stderr
    # Hold enough for a whole secret that begins in the logged part: half a secret cannot be masked.
    kept = 4 * (_MAX_LOGGED + longest_form(link.secrets))
    lines = Lines(kept, edge=kept)
    count, since = 0, time.monotonic()
    while chunk := await process.stderr.read(_CHUNK):
        if time.monotonic() - since > _WINDOW:
            count, since = 0, time.monotonic()
        for line in lines.feed(chunk):
            count += 1
            text = clean_text(_mask_line(line, link.secrets), _MAX_LOGGED)
            if text and count <= _MAX_LINES:
                _log.info("mcp_server_stderr", toolset=link.toolset_id, line=text)
            if count == _MAX_LINES:
                _log.warning("mcp_server_stderr_muted", toolset=link.toolset_id, seconds=_WINDOW)


def _mask_line(line: bytes | Overlong, secrets: Sequence[str]) -> str:
    if isinstance(line, Overlong):
        return mask_start(line.head.decode(errors="replace"), secrets)
    return mask_secrets(line.decode(errors="replace"), secrets)


async def _end(process: Process) -> None:
    assert process.stdin
    process.stdin.close()
    if not await _has_ended(process):
        _signal(process, signal.SIGTERM)
        await _has_ended(process)
    _signal(process, signal.SIGKILL)
    await _has_ended(process)


async def _has_ended(process: Process) -> bool:
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:  # noqa: ASYNC110 - `wait()` waits for its pipes too
            await anyio.sleep(_POLL)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    # The group keeps the leader's id even when only the leader's children still run.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _transport_of(process: Process) -> asyncio.SubprocessTransport:
    """Return asyncio's transport to close, even if a child still holds a pipe."""
    return process._transport  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - nothing public closes it
