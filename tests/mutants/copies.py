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
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.faults import Fault
from tests.mutants.plugin import TASK

__all__ = ["ROOT", "Copy", "copied"]

ROOT = Path(__file__).parents[2]

_NONE_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

_OPTIONS = ("-q", "--tb=no", "--timeout=90", "-p", "no:cacheprovider", "-p", "no:xdist")

_GRACE = 20.0
"""Seconds that pytest has to stop its servers."""


class Copy:
    """A copy of the tree in a folder, whose code and no other the tests in it import."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.is_stopped = False
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

    def tried(
        self,
        faults: Sequence[Fault],
        first: Sequence[str],
        arguments: Sequence[str],
        limit: float,
        reach: int,
    ) -> Iterator[dict[str, Any]]:
        """Run the tests for each fault until one fails; see `plugin` for what it yields.

        Args:
            faults: The faults.
            first: For each, the id of the test to run first, or an empty text.
            arguments: The arguments by which pytest collects the tests.
            limit: The most seconds for one fault.
            reach: 0 for the tests that mirror a fault's file, 1 for those in their folder too, 2 for all that are collected.

        Raises:
            RuntimeError: Pytest could not run them.
        """
        task, found = self.root / ".task", self.root / ".found"
        fields = {
            "faults": [asdict(fault) for fault in faults],
            "first": first,
            "limit": limit,
            "reach": reach,
        }
        task.write_text(json.dumps({**fields, "found": str(found)}))
        found.write_text("")
        command = [".venv/bin/python", "-m", "pytest", "-p", "tests.mutants.plugin", *_OPTIONS, *arguments]
        with tempfile.TemporaryFile() as output, found.open() as lines:
            self._running = subprocess.Popen(
                command,
                cwd=self.root,
                env={**self._environment, TASK: str(task)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            is_over = False
            while not is_over:
                is_over = self._running.poll() is not None
                yield from map(json.loads, lines)
                time.sleep(0.1)
            output.seek(0)
            said = output.read().decode(errors="replace").splitlines()
        if not self.is_stopped and self._running.returncode not in _NONE_FAILED:
            raise RuntimeError("\n".join([f"pytest ended with {self._running.returncode}:", *said[-30:]]))

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
