"""Start Python programs that need not import first: each is forked from a process that has imported Sojourn.

Half a second to two of a program's time is its imports. What is tested of a program here begins after
them; a test of what is imported, or of how a process starts, starts one itself.
"""

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path

__all__ = ["Program"]

IMPORTED = (
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk.metrics.export",
    "sojourn.cli.run_command",
    "sojourn.cli.worker_command",
    "sojourn.mcp",
    "sojourn.worker",
)
"""What is imported before the first program: nothing in it opens a connection, begins a thread or reads settings."""

_PR_SET_PDEATHSIG = 1


class Program:
    """A program as a process and session of its own; it ends, at the latest, with the process that started it."""

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], out: Path, err: Path, input: str = ""
    ) -> None:
        """Start it.

        Args:
            arguments: What would follow `python`: `-m MODULE`, `-c CODE` or the path of a script, and its own.
            cwd: Where it runs.
            env: Its environment, whole.
            out: The file to which its standard output is appended; it is there at once.
            err: That of its standard error; both may be one.
            input: What it reads on standard input.
        """
        out.touch()
        err.touch()
        self._process = _warm().Process(
            target=_play, args=(arguments, cwd, dict(env), out, err, input), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        """Its status, once it has ended; negative is the signal that ended it."""
        return self._process.exitcode

    def wait(self, timeout: float = 60) -> int:
        """Wait until it ends, and give its status."""
        self._process.join(timeout)
        status = self._process.exitcode
        assert status is not None, "the program did not end"
        return status

    def terminate(self) -> None:
        """Ask it to end."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; nothing when it has ended."""
        self._process.kill()
        self._process.join()


def _warm() -> ForkServerContext:
    """The process that has imported, which starts with the first program."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*IMPORTED, __name__])
    return context


def _play(
    arguments: tuple[str, ...], cwd: Path, env: dict[str, str], out: Path, err: Path, input: str
) -> None:
    """Become the program: in a fresh fork, nothing but imports has happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # a Ctrl-C in the terminal of the tests is for them
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    _connect(out, err, input)
    try:
        match arguments:
            case "-m", module, *rest:
                sys.argv[:] = [module, *rest]
                sys.path.insert(0, str(cwd))
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            case "-c", code, *rest:
                sys.argv[:] = ["-c", *rest]
                sys.path.insert(0, "")
                exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
            case script, *rest:
                path = Path(script).resolve()
                sys.argv[:] = [script, *rest]
                sys.path.insert(0, str(path.parent))
                runpy.run_path(str(path), run_name="__main__")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _connect(out: Path, err: Path, input: str) -> None:
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
