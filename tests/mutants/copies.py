"""Copies of the tree, in which a fault is put and tests are run."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from tests.mutants.faults import Fault

__all__ = ["ROOT", "Copy", "copied"]

ROOT = Path(__file__).parents[2]

_NONE_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

_GRACE = 20.0
"""Seconds that pytest has to stop its servers."""


class Copy:
    """A copy of the tree in a folder, whose code and no other the tests in it import."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_stopped = False
        self._written = int(time.time())
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = {**environment, "PYTHONPATH": str(root)}
        self._running: subprocess.Popen[bytes] | None = None

    def check(self) -> None:
        """Make sure that it is the copy's code that runs.

        Raises:
            RuntimeError: Python imports the package from somewhere else.
        """
        names = ["sojourn", "workflows.agent_run", "activities.plan", "tests.mutants"]
        code = f"import importlib\nfor each in {names}: print(importlib.import_module(each).__file__)"
        found = subprocess.run(
            [".venv/bin/python", "-c", code],
            cwd=self.root,
            env=self._environment,
            check=True,
            capture_output=True,
        )
        for path in found.stdout.decode().splitlines():
            if self.root not in Path(path).parents:
                raise RuntimeError(f"the copy at {self.root} imports {path}")

    @contextlib.contextmanager
    def having(self, fault: Fault) -> Generator[None]:
        """Put the fault in, and take it out again."""
        path = self.root / fault.file
        before = path.read_text()
        self._write(path, fault.applied(before))
        try:
            yield
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        self._written += 1  # a file of the same second and size would be taken from the bytecode of before
        os.utime(path, (self._written, self._written))

    def run(
        self, arguments: Sequence[str], seconds: float, chosen: Sequence[str] = (), record: Path | None = None
    ) -> list[str]:
        """Run pytest; return its lines about tests that failed, none where it took too long.

        Args:
            arguments: The arguments for pytest.
            seconds: The most that it may take.
            chosen: The ids of the tests to run, in order; all of them if empty.
            record: The file to which the time of each test is written.

        Raises:
            RuntimeError: Pytest could not run the tests.
        """
        if self.is_stopped:
            return []
        environment = self._environment
        if chosen:
            (self.root / ".chosen").write_text(json.dumps(chosen))
            environment = {**environment, "SOJOURN_CHOSEN": str(self.root / ".chosen")}
        if record:
            environment = {**environment, "SOJOURN_TIMES": str(record)}
        with tempfile.TemporaryFile() as output:
            self._running = subprocess.Popen(
                [".venv/bin/python", "-m", "pytest", "-p", "tests.mutants.plugin", *arguments],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = self._running.wait(seconds)
            except subprocess.TimeoutExpired:
                self._end(self._running)
                status = 0
            output.seek(0)
            lines = output.read().decode(errors="replace").splitlines()
        if self.is_stopped or status in _NONE_FAILED:
            return []
        failed = [line.split(" ", 1)[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
        if not failed:
            raise RuntimeError("\n".join([f"pytest ended with {status}:", *lines[-30:]]))
        return failed

    def stop(self) -> None:
        """Stop the pytest that runs, and what it has started; no other one begins."""
        self.is_stopped = True
        if self._running is not None:
            self._end(self._running)

    @staticmethod
    def _end(running: subprocess.Popen[bytes]) -> None:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@contextlib.contextmanager
def copied(reference: str | None) -> Generator[Copy]:
    """A copy of this tree, or of a commit of it, with the tests' programs of this one.

    Args:
        reference: The commit; None for the tree as it is now.
    """
    with tempfile.TemporaryDirectory(prefix="sojourn-mutants-", ignore_cleanup_errors=True) as folder:
        root = Path(folder).resolve()
        if reference:
            archive = subprocess.run(["git", "archive", reference], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        else:
            command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
            for name in filter(None, listed.split("\0")):
                if (ROOT / name).is_file():
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, root / name)
        own = Path(__file__).parent
        shutil.copytree(own, root / own.relative_to(ROOT), dirs_exist_ok=True)
        (root / ".venv").symlink_to(Path(sys.prefix).resolve(), target_is_directory=True)
        copy = Copy(root)
        try:
            yield copy
        finally:
            copy.stop()
