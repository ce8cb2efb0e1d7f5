"""Which tests may notice a fault: by the map of one run with coverage, else by their place."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coverage import CoverageData

from tests.mutants.copies import ROOT, Copy
from tests.mutants.faults import Fault

__all__ = ["QUICK", "Known", "Stage", "make_map", "stages"]

QUICK = "pure or server or essential"
"""The tests of `make test`."""

_KEPT = ROOT / ".pytest_cache" / "mutants.json"


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests to run together: all that the arguments select, or those of them that are chosen."""

    arguments: Sequence[str]
    chosen: Sequence[str] = ()


@dataclass
class Known:
    """What earlier runs have found, kept in a file that git ignores."""

    tests: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """For each fault: the quick tests that execute its lines, pure ones first, the quickest first."""
    caught: dict[str, str] = field(default_factory=dict[str, str])
    """For each fault: the test that has noticed it last."""

    @classmethod
    def read(cls) -> "Known":
        """What is kept."""
        return cls(**json.loads(_KEPT.read_text())) if _KEPT.exists() else cls()

    def write(self) -> None:
        """Keep it, with what other runs have found meanwhile."""
        present = self.read()
        whole = Known(present.tests | self.tests, present.caught | self.caught)
        _KEPT.parent.mkdir(exist_ok=True)
        _KEPT.write_text(json.dumps(vars(whole)))


def stages(fault: Fault, known: Known, root: Path) -> Iterator[Stage]:
    """The tests that may notice a fault, those first that are quick and likely to."""
    if test := known.caught.get(fault.key):
        yield from _stage([test], root)
    package, mirror = root / "tests" / _place(fault).parts[0], root / "tests" / _place(fault)
    if tests := known.tests.get(fault.key):
        yield from _stage(tests, root)
    else:
        files = [str(path) for path in sorted(mirror.parent.glob(f"test_{mirror.stem}*.py"))]
        folder = next(path for path in (mirror.parent, *mirror.parents) if path.is_dir())
        yield from (Stage(["-m", QUICK, *files]),) if files else ()
        yield from (Stage(["-m", layers, str(folder)]) for layers in ("pure", QUICK))
        yield Stage(["-m", QUICK, str(package)])
    yield Stage(["-m", f"not ({QUICK})", str(package)])


def _place(fault: Fault) -> Path:
    """The path below `tests/` that mirrors a file."""
    path = Path(fault.file)
    return path.relative_to("sojourn") if path.parts[0] == "sojourn" else path


def _stage(tests: Sequence[str], root: Path) -> Iterator[Stage]:
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    if here := [file for file in files if (root / file).exists()]:
        yield Stage(here, tests)


def make_map(
    copy: Copy, faults: Sequence[Fault], arguments: Sequence[str], hours: float = 3.0
) -> dict[str, list[str]]:
    """Run the quick tests once with coverage; return for each fault those that execute its lines.

    Args:
        copy: The copy to run them in.
        faults: The faults.
        arguments: Further arguments for pytest, such as how many processes there are.
        hours: The most that this may take.
    """
    settings, found, times = copy.root / ".coveragerc", copy.root / ".found", copy.root / ".times"
    files = sorted({fault.file for fault in faults if fault.file.endswith(".py")})
    listed = "".join(f"\n    {name}" for name in files)
    settings.write_text(
        f"[run]\ndata_file = {found}\ninclude ={listed}\ndisable_warnings = include-ignored, no-data-collected\n"
    )
    coverage = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    copy.run(["-m", QUICK, "--dist", "loadfile", *coverage, *arguments], hours * 3600, record=times)
    data = CoverageData(str(found))
    data.read()
    took: dict[str, Any] = json.loads(times.read_text())
    mapped: dict[str, list[str]] = {}
    for fault in faults:
        path = copy.root / fault.file
        contexts = data.contexts_by_lineno(str(path))
        tests = {
            test.partition("|")[0]
            for line in fault.lines(path.read_text())
            for test in contexts.get(line, ())
            if test
        }
        if tests:
            mapped[fault.key] = sorted(tests, key=lambda test: _rank(*took.get(test, ("", 0.0))))
    return mapped


def _rank(layer: str, seconds: float) -> tuple[bool, float]:
    return layer != "pure", seconds
