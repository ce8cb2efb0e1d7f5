"""Start Python programs that need not import first: each is forked from a process that has imported Sojourn.

Half a second to two of a program's time is its imports. What is tested of a program here begins after
them; a test of what is imported, or of how a process starts, starts one itself.
"""

import atexit
import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["Program"]

IMPORTED = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.metrics.export",
    "sojourn.cli.commands.run",
    "sojourn.cli.commands.worker",
    "sojourn.mcp",
    "sojourn.worker",
)
"""What is imported before the first program: nothing in it opens a connection, begins a thread or reads settings."""

_PR_SET_PDEATHSIG = 1
_WIDTH = 8
"""Bytes of a process id or status on its way."""


class Program:
    """A program as a process and session of its own; it ends, at the latest, with the process that started it."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
        input: str = "",
        imports: tuple[str, ...] = (),
    ) -> None:
        """Start it.

        Args:
            arguments: What would follow `python`: `-m MODULE`, `-c CODE` or the path of a script, and its own.
            cwd: Where it runs.
            env: Its environment, whole.
            out: The file to which its standard output is appended; it is there at once.
            err: That of its standard error; both may be one.
            input: What it reads on standard input.
            imports: Modules that are imported before it too, and before every later program.
        """
        out.touch()
        err.touch()
        self._told, telling = os.pipe()
        files = {"cwd": str(cwd), "out": str(out), "err": str(err)}
        _warm().start(telling, arguments=arguments, env=dict(env), input=input, imports=imports, **files)
        os.close(telling)
        self._status: int | None = None
        self.pid = self._hear()
        """Its process id."""

    def poll(self) -> int | None:
        """Its status, once it has ended; negative is the signal that ended it."""
        return self._ended(0)

    def wait(self, timeout: float = 60) -> int:
        """Wait until it ends, and give its status."""
        status = self._ended(timeout)
        assert status is not None, "the program did not end"
        return status

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; nothing when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def _ended(self, timeout: float) -> int | None:
        if self._status is None and select.select([self._told], [], [], timeout)[0]:
            self._status = self._hear()
            os.close(self._told)
        return self._status

    def _hear(self) -> int:
        return int.from_bytes(os.read(self._told, _WIDTH), signed=True, byteorder="big")


class _Warm:
    """The process that has imported, and how it is asked for programs."""

    def __init__(self) -> None:
        self._asking, answering = socket.socketpair()
        self._lock = threading.Lock()
        with answering:
            command = [sys.executable, "-m", "tests.warm", str(answering.fileno())]
            self._process = subprocess.Popen(
                command,
                cwd=Path(__file__).parents[1],
                stdin=subprocess.DEVNULL,
                pass_fds=[answering.fileno()],
                start_new_session=True,
            )
        atexit.register(self._asking.close)

    def start(self, telling: int, **program: Any) -> None:
        """Start a program, of which `telling` gets its process id, and its status when it has ended."""
        asked = json.dumps(program).encode() + b"\n"
        with self._lock:
            sent = socket.send_fds(self._asking, [asked], [telling])
            self._asking.sendall(asked[sent:])


@cache
def _warm() -> _Warm:
    """Return the process that has imported, which starts with the first program."""
    return _Warm()


def _serve(answering: socket.socket) -> None:
    """Fork each program that is asked for, until nobody asks any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for module in IMPORTED:
        importlib.import_module(module)
    while answering.recv(1, socket.MSG_PEEK):
        asked, (telling,), _, _ = socket.recv_fds(answering, 1 << 16, 1)
        while not asked.endswith(b"\n"):
            asked += answering.recv(1 << 16)
        program = json.loads(asked)
        for module in program.pop("imports"):
            importlib.import_module(module)
        if os.fork() == 0:
            answering.close()
            _keep(telling, program)
        os.close(telling)


def _keep(telling: int, program: dict[str, Any]) -> NoReturn:
    """Fork the program, and tell how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _leash()
    if (pid := os.fork()) == 0:
        os.close(telling)
        _leash()
        os.setsid()  # a Ctrl-C in the terminal of the tests is for them
        _play(**program)
    _tell(telling, pid)
    _, ended = os.waitpid(pid, 0)
    _tell(telling, os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _tell(telling: int, number: int) -> None:
    os.write(telling, number.to_bytes(_WIDTH, signed=True, byteorder="big"))


def _leash() -> None:
    """Have the kernel kill this process with the one that forked it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _play(arguments: list[str], cwd: str, env: dict[str, str], out: str, err: str, input: str) -> NoReturn:
    """Become the program: so far nothing but imports has happened in this process."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    _connect(out, err, input)
    status = 0
    try:
        _run(arguments, cwd)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _run(arguments: list[str], cwd: str) -> None:
    """Run what follows `python`."""
    match arguments:
        case ["-m", module, *rest]:
            sys.argv[:] = [module, *rest]
            sys.path[0] = cwd
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv[:] = ["-c", *rest]
            sys.path[0] = ""
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case [script, *rest]:
            path = Path(script).resolve()
            sys.argv[:] = [script, *rest]
            sys.path[0] = str(path.parent)
            runpy.run_path(str(path), run_name="__main__")


def _connect(out: str, err: str, input: str) -> None:
    """Put files in place of the standard streams, and open these anew: how they buffer depends on what they are."""
    reading, writing = os.pipe()
    os.write(writing, input.encode())
    os.close(writing)
    os.dup2(reading, 0)
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.close(reading)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, buffering=1)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1, errors="backslashreplace")  # noqa: SIM115


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
