"""Server: the process that has imported Sojourn, and forks a process for each requested program.

A request is a line of JSON, sent with four descriptors: the program's three streams, and a pipe to which the server
writes the process id and, at the end, the exit status.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from tests.layers import STARTS

__all__ = ["fork", "number_in"]

IMPORTED = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.metrics.export",
    "sojourn.mcp",
    "sojourn.server",
    "sojourn.worker",
)
"""Imported before the first program, with every module of the command line.

Importing them opens no connection, starts no thread and reads no setting.
"""

SERVING = ("sojourn.asgi", "sojourn.http.server", "uvicorn.loops.auto", "uvicorn.protocols.http.auto")
"""Imported before the first program that serves HTTP."""

_PR_SET_PDEATHSIG = 1


def fork(
    arguments: Sequence[str],
    *,
    streams: tuple[int, int, int],
    cwd: Path,
    env: Mapping[str, str],
    imports: Sequence[str] = (),
    before: str = "",
) -> int:
    """Start a Python program; return the end of a pipe from which its process id and then its exit status are read.

    Args:
        arguments: The arguments of `python`: `-m MODULE`, `-c CODE` or the path of a script, and the program's own.
        streams: The descriptors of its standard input, output and error; the caller closes them.
        cwd: The working directory.
        env: The whole environment.
        imports: Further modules to import before this program and every later one.
        before: Code that runs in the process before the program.
    """
    sys.audit(STARTS, *arguments[:2])
    answers, reporting = os.pipe()
    request = {
        "arguments": list(arguments),
        "cwd": str(cwd),
        "env": dict(env),
        "imports": list(imports),
        "before": before,
    }
    _server().send(request, (*streams, reporting))
    os.close(reporting)
    return answers


def number_in(answer: bytes) -> int:
    """Return the process id or exit status in 8 bytes from the pipe."""
    return int.from_bytes(answer, signed=True, byteorder="big")


class _Server:
    """The server process, from the view of its clients."""

    def __init__(self) -> None:
        self._asking, answering = socket.socketpair()
        self._lock = threading.Lock()
        with answering:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.programs.server", str(answering.fileno())],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                pass_fds=[answering.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._asking.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def send(self, request: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Send a request for a program."""
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            sent = socket.send_fds(self._asking, [line], list(descriptors))
            self._asking.sendall(line[sent:])


@cache
def _server() -> _Server:
    """Return the server process, which is started for the first program."""
    return _Server()


def _serve(answering: socket.socket) -> None:
    """Fork a process that runs and reports each requested program, until the socket is closed."""
    signal.signal(signal.SIGCHLD, _reap)
    gc.disable()  # the programs enable it, and collect nothing that was imported here
    _import_everything()
    while answering.recv(1, socket.MSG_PEEK):
        line, descriptors, _, _ = socket.recv_fds(answering, 1 << 16, 4)
        while not line.endswith(b"\n"):
            line += answering.recv(1 << 16)
        request = json.loads(line)
        serves = {"serve", "dev", "uvicorn"} & set(request["arguments"][1:3])
        for module in (*request.pop("imports"), *(SERVING if serves else ())):
            importlib.import_module(module)
        gc.freeze()
        if os.fork() == 0:
            answering.close()
            _run_and_report(*descriptors, request)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(*_signal: Any) -> None:
    """Wait for forked processes that have ended: the time that they took counts as this process's only then."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _import_everything() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    import sojourn.cli

    for module in pkgutil.walk_packages(sojourn.cli.__path__, "sojourn.cli."):
        importlib.import_module(module.name)


def _run_and_report(
    reading: int, writing: int, failing: int, reporting: int, request: dict[str, Any]
) -> NoReturn:
    """Fork the program, and write its process id and exit status to the pipe."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end_with_parent()
    streams = (reading, writing, failing)
    if (pid := os.fork()) == 0:
        os.close(reporting)
        _end_with_parent()
        os.setsid()  # Ctrl-C in the terminal must reach only the tests
        _become(streams, **request)
    for stream in streams:
        os.close(stream)
    _report(reporting, pid)
    _, ended = os.waitpid(pid, 0)
    _report(reporting, os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _report(reporting: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the reader has closed the pipe
        os.write(reporting, number.to_bytes(8, signed=True, byteorder="big"))


def _end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _become(
    streams: Sequence[int], arguments: list[str], cwd: str, env: dict[str, str], before: str
) -> NoReturn:
    """Run the program in this process, which has only imported modules so far, and exit."""
    gc.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    _connect(streams)
    status = 0
    try:
        exec(before, {})
        _run(arguments, cwd)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the stream or its reader is closed
            stream.flush()
    os._exit(status)


def _run(arguments: list[str], cwd: str) -> None:
    """Run a module, code or a script, by the arguments of `python`."""
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    match arguments:
        case ["-m", module, *rest]:
            sys.argv[:] = [module, *rest]
            sys.path[:1] = [cwd, *folders]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv[:] = ["-c", *rest]
            sys.path[:1] = ["", *folders]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *rest]:
            path = Path(script).resolve()
            sys.argv[:] = [script, *rest]
            sys.path[:1] = [str(path.parent), *folders]
            runpy.run_path(str(path), run_name="__main__")


def _connect(streams: Sequence[int]) -> None:
    """Replace the standard streams by the program's, and open them again."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            os.fdopen(number, f"{mode}b", closefd=False),
            "utf-8",
            errors=errors,
            line_buffering=number == 2 or at_once or os.isatty(number),
        )
        for number, (mode, errors) in enumerate((("r", "strict"), ("w", "strict"), ("w", "backslashreplace")))
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
