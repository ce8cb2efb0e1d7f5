"""What pytest does in a copy: it collects tests once, and runs them in a process of its own for each fault, which it is forked into.

The fault is put into the file, and into the functions that are loaded: what a worker's sandbox or a program imports has it, and so
has what this process has imported before. Nothing is imported or collected again, which would take most of the time.
"""

import contextlib
import gc
import json
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.mutants.faults import Fault

TASK = "SOJOURN_MUTANTS"
"""The variable with the path of the file that says what to do."""

_BROKEN = "broken: "

_GRACE = 10.0
"""Seconds that a process has to stop its servers."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> object:
    """Find for each fault a test that fails with it, and not without it."""
    if TASK not in os.environ:
        return None
    task: dict[str, Any] = json.loads(Path(os.environ[TASK]).read_text())
    tests = _Tests(session, task["limit"], task["reach"])
    for number, fields in enumerate(task["faults"]):
        _tell(task, {"fault": number, "test": tests.noticing(Fault(**fields), task["first"][number])})
    _tell(task, {"unsound": sorted(tests.unsound)})
    return True


class _Tests:
    """The collected tests, and which of them fail without a fault."""

    def __init__(self, session: pytest.Session, limit: float, reach: int) -> None:
        self._reach = reach
        self.unsound: set[str] = set()
        self._session = session
        self._limit = limit
        self._sound: set[str] = set()

    def noticing(self, fault: Fault, first: str) -> str:
        """The id of a test that fails with the fault, and not without it; empty if there is none."""
        order = _order(fault, first)
        left = [
            item
            for item in self._session.items
            if item.nodeid not in self.unsound and order(item)[-1] <= self._reach
        ]
        left.sort(key=order)
        while left and (failed := _forked(partial(_first_failure, self._session, left), self._limit, fault)):
            at = next(place for place, item in enumerate(left) if item.nodeid == failed)
            if failed not in self._sound:
                is_unsound = _forked(partial(_first_failure, self._session, [left[at]]), self._limit)
                (self.unsound if is_unsound else self._sound).add(failed)
            if failed in self._sound:
                return failed
            left = left[at + 1 :]
        return ""


def _tell(task: dict[str, Any], found: dict[str, Any]) -> None:
    with Path(task["found"]).open("a") as file:
        file.write(json.dumps(found) + "\n")


def _order(fault: Fault, first: str) -> Callable[[pytest.Item], tuple[Any, ...]]:
    """The order of the tests: the one that noticed the fault last; those without a server; those whose place is the nearest."""

    def rank(item: pytest.Item) -> tuple[Any, ...]:
        is_pure = item.get_closest_marker("pure") is not None
        return item.nodeid != first, not is_pure, fault.distance(item.nodeid.partition("::")[0])

    return rank


def _forked(work: Callable[[], str], limit: float, fault: Fault | None = None) -> str:
    """What a forked process finds, with the fault; a process that takes too long has found nothing."""
    path = Path(fault.file) if fault else None
    source = path.read_text() if path else ""
    reads, writes = os.pipe()
    if path and fault:
        _write(path, fault.applied(source))
    try:
        process = os.fork()
        if process == 0:
            os.setsid()
            try:
                if path and fault and path.suffix == ".py":
                    _swap(path, source, fault.applied(source))
                os.write(writes, work().encode())
            except BaseException:
                os.write(writes, f"{_BROKEN}{traceback.format_exc()}".encode())
            os._exit(0)
        os.close(writes)
        _wait(process, limit)
        with open(reads, "rb") as found:
            text = found.read().decode()
        if text.startswith(_BROKEN):
            raise RuntimeError(text)
        return text
    finally:
        if path:
            _write(path, source)


_written = int(time.time())


def _write(path: Path, text: str) -> None:
    global _written  # noqa: PLW0603 - no two states of a file may have one time, or the bytecode of one is taken for the other's
    path.write_text(text)
    _written += 1
    os.utime(path, (_written, _written))


def _wait(process: int, limit: float) -> None:
    """Wait for a process, and stop it and what it has started."""
    until, pause = time.monotonic() + limit, 0.002
    try:
        while not _is_over(process):
            if time.monotonic() >= until:
                os.kill(process, signal.SIGINT)
                until = time.monotonic() + _GRACE
                while not _is_over(process) and time.monotonic() < until:
                    time.sleep(0.1)
                return
            time.sleep(pause)
            pause = min(pause * 1.2, 0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)


def _is_over(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _swap(path: Path, before: str, after: str) -> None:
    """Give each function that is loaded from a file the code that it has in the changed source."""
    file = str(path.resolve())
    old, new = (dict(_functions(compile(source, file, "exec"))) for source in (before, after))
    changed = {code: new[name] for name, code in old.items() if name in new and new[name] != code}
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == file:
            each.__code__ = changed.get(each.__code__, each.__code__)


def _functions(code: CodeType, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], CodeType]]:
    """The functions in a code, with those inside them, each by its name and its number among those of this name."""
    counts = Counter[str]()
    for each in code.co_consts:
        if isinstance(each, CodeType):
            name = (*above, each.co_name, counts[each.co_name])
            counts[each.co_name] += 1
            yield name, each
            yield from _functions(each, name)


def _first_failure(session: pytest.Session, tests: Sequence[pytest.Item]) -> str:
    seen = _Seen()
    session.config.pluginmanager.register(seen)
    for item, following in zip(tests, [*tests[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if seen.failed:
            session._setupstate.teardown_exact(None)
            break
    return seen.failed


class _Seen:
    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first failure."""
        if report.failed:
            self.failed = self.failed or report.nodeid
