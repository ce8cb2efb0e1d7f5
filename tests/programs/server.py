"""The process that has imported Sojourn, and forks each program that is asked for.

A request is a line of JSON with four descriptors beside it: the program's three streams, and a pipe that gets its
process id, and its status when it has ended.
"""

import atexit
import contextlib
import ctypes
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
    """Start what would follow `python`; gives the end of a pipe on which its process id comes, and then its status.

    Args:
        arguments: `-m MODULE`, `-c CODE` or the path of a script, and its own.
        streams: What it reads and writes; the caller closes them.
        cwd: Where it runs.
        env: Its environment, whole.
        imports: Modules that are imported before it too, and before every later program.
        before: Code that runs in its process before it.
    """
    answers, telling = os.pipe()
    request = {
        "arguments": list(arguments),
        "cwd": str(cwd),
        "env": dict(env),
        "imports": list(imports),
        "before": before,
    }
    _server().send(request, (*streams, telling))
    os.close(telling)
    return answers


def number_in(answer: bytes) -> int:
    """A process id or status, as it comes on the pipe."""
    return int.from_bytes(answer, signed=True, byteorder="big")


class _Server:
    """The process, as who asks it sees it."""

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
        atexit.register(self._asking.close)

    def send(self, request: dict[str, Any], descriptors: Sequence[int]) -> None:
        """Ask for a program."""
        line = json.dumps(request).encode() + b"\n"
        with self._lock:
            sent = socket.send_fds(self._asking, [line], list(descriptors))
            self._asking.sendall(line[sent:])


@cache
def _server() -> _Server:
    """The process, which starts with the first program."""
    return _Server()


def _serve(answering: socket.socket) -> None:
    """Fork a keeper for each program that is asked for, until nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    _import_everything()
    while answering.recv(1, socket.MSG_PEEK):
        line, descriptors, _, _ = socket.recv_fds(answering, 1 << 16, 4)
        while not line.endswith(b"\n"):
            line += answering.recv(1 << 16)
        request = json.loads(line)
        for module in request.pop("imports"):
            importlib.import_module(module)
        if os.fork() == 0:
            answering.close()
            _keep(*descriptors, request)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_everything() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    import sojourn.cli

    for module in pkgutil.walk_packages(sojourn.cli.__path__, "sojourn.cli."):
        importlib.import_module(module.name)


def _keep(reading: int, writing: int, failing: int, telling: int, request: dict[str, Any]) -> NoReturn:
    """Fork the program, and tell how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _leash()
    streams = (reading, writing, failing)
    if (pid := os.fork()) == 0:
        os.close(telling)
        _leash()
        os.setsid()  # a Ctrl-C in the terminal of the tests is for them
        _be(streams, **request)
    for stream in streams:
        os.close(stream)
    _tell(telling, pid)
    _, ended = os.waitpid(pid, 0)
    _tell(telling, os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _tell(telling: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits any more
        os.write(telling, number.to_bytes(8, signed=True, byteorder="big"))


def _leash() -> None:
    """Have the kernel kill this process with the one that forked it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _be(streams: Sequence[int], arguments: list[str], cwd: str, env: dict[str, str], before: str) -> NoReturn:
    """Become the program: so far nothing but imports has happened in this process."""
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
        with contextlib.suppress(OSError, ValueError):  # closed, or nobody reads
            stream.flush()
    os._exit(status)


def _run(arguments: list[str], cwd: str) -> None:
    """Run what follows `python`."""
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
    """Put the program's streams in place of the standard ones, and open these anew."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(
            os.fdopen(number, f"{mode}b", closefd=False),
            "utf-8",
            errors=errors,
            line_buffering=number == 2 or at_once,
        )
        for number, (mode, errors) in enumerate((("r", "strict"), ("w", "strict"), ("w", "backslashreplace")))
    )


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
