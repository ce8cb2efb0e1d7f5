"""A server as a process of ours: its streams, its errors in our log, its end.

Not the SDK's own `stdio_client`: that one hands the worker's `HOME`, `USER` and more to every
server, lets it write to our terminal, and holds a line of any length. Imported lazily, since
it loads the SDK.
"""

import asyncio
import contextlib
import os
import re
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
from mcp_types import ErrorData, JSONRPCError, jsonrpc_message_adapter

from sojourn.mcp.errors import OVERSIZED
from sojourn.mcp.limits import MAX_MESSAGE_BYTES
from sojourn.mcp.streams import Lines, Link, Overlong
from sojourn.mcp.text import cleaned, masked

__all__ = ["stdio_streams"]

_log = structlog.get_logger("sojourn.mcp")

_GRACE = 2.0
"""Seconds to end after standard input closes, and again after SIGTERM."""

_POLL = 0.05
_CHUNK = 65_536
_MAX_LOGGED = 500
_MAX_LINES = 200
_WINDOW = 60.0
_ID_FIRST = re.compile(rb'\A\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')

_Incoming = MemoryObjectSendStream[SessionMessage | Exception]
_Outgoing = MemoryObjectReceiveStream[SessionMessage]


@asynccontextmanager
async def stdio_streams(
    command: str, arguments: Sequence[str], env: Mapping[str, str], cwd: str | None, link: Link
) -> AsyncGenerator[tuple[Any, Any]]:
    """Start a server and give its streams; as the context closes, its whole process group is ended.

    Args:
        command: The program: a path, or a name to look up in `PATH`.
        arguments: Its arguments.
        env: Its environment, to which the worker's `PATH` is added where it has none.
        cwd: Its working directory; the worker's when None.
        link: Whose streams they are.

    Raises:
        OSError: it cannot be started.
    """
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
        # Whatever cancelled us, and whoever of its children outlived it.
        _signal(process, signal.SIGKILL)
        _transport_of(process).close()


async def _read(process: Process, incoming: _Incoming, link: Link) -> None:
    assert process.stdout
    lines = Lines(MAX_MESSAGE_BYTES)
    strange = 0
    async with incoming:
        while chunk := await process.stdout.read(_CHUNK):
            for line in lines.feed(chunk):
                message = _message(line)
                if message is None:
                    strange += 1
                    if strange <= 3:
                        _log.warning(
                            "mcp_server_wrote_no_message", toolset=link.toolset_id, bytes=_size(line)
                        )
                    continue
                try:
                    await incoming.send(message)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return


def _size(line: bytes | Overlong) -> int:
    return line.size if isinstance(line, Overlong) else len(line)


def _message(line: bytes | Overlong) -> SessionMessage | None:
    """The message in a line; for one too long an error in its place, where its id is found at either end."""
    if isinstance(line, Overlong):
        found = _ID_FIRST.search(line.head) or _ID_LAST.search(line.tail)
        if found is None:
            return None
        error = ErrorData(code=OVERSIZED, message="the answer is too large", data=line.size)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(process: Process, outgoing: _Outgoing, incoming: _Incoming) -> None:
    assert process.stdin
    async with outgoing:
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
            except (ConnectionError, RuntimeError):
                # It no longer listens: what waits for an answer must learn so.
                await incoming.aclose()
                return


async def _watch(process: Process, incoming: _Incoming) -> None:
    """Notice the end of a server whose children keep its output open."""
    while process.returncode is None:  # noqa: ASYNC110 - `wait()` waits for its pipes too
        await anyio.sleep(_POLL * 4)
    await anyio.sleep(_POLL * 4)
    await incoming.aclose()


async def _log_errors(process: Process, link: Link) -> None:
    assert process.stderr
    lines = Lines(4 * _MAX_LOGGED)
    count, since = 0, time.monotonic()
    while chunk := await process.stderr.read(_CHUNK):
        if time.monotonic() - since > _WINDOW:
            count, since = 0, time.monotonic()
        for line in lines.feed(chunk):
            count += 1
            head = line.head if isinstance(line, Overlong) else line
            text = cleaned(masked(head.decode(errors="replace"), link.secrets), _MAX_LOGGED)
            if text and count <= _MAX_LINES:
                _log.info("mcp_server_stderr", toolset=link.toolset_id, line=text)
            if count == _MAX_LINES:
                _log.warning("mcp_server_stderr_muted", toolset=link.toolset_id, seconds=_WINDOW)


async def _end(process: Process) -> None:
    """Close its input, then SIGTERM, then SIGKILL, to the whole group."""
    assert process.stdin
    process.stdin.close()
    if not await _ended(process):
        _signal(process, signal.SIGTERM)
        await _ended(process)
    _signal(process, signal.SIGKILL)
    await _ended(process)


async def _ended(process: Process) -> bool:
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:  # noqa: ASYNC110 - `wait()` waits for its pipes too
            await anyio.sleep(_POLL)
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    # The group carries the leader's id, also when the leader is gone and its children are not.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _transport_of(process: Process) -> asyncio.SubprocessTransport:
    """The transport of asyncio, which warns at collection when a child that outlived the server holds a pipe."""
    return process._transport  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - nothing public closes it
