"""`python -m tests.mutants`: put each fault into a copy of the tree, and see which test notices it."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from queue import SimpleQueue

from tests.mutants.copies import ROOT, Copy, copied
from tests.mutants.faults import Fault, StaleError, read_faults

_QUICK = "pure or server or essential"
STAGES = (("pure", 1), (_QUICK, 0), (_QUICK, 2), (f"not ({_QUICK})", 2))
"""The tests to run in turn, with how far they are from the fault; see `Fault.distance`."""

_KEPT = ROOT / ".pytest_cache" / "mutants.json"
"""The test that has noticed each fault last, which git ignores."""


class Trial:
    """What the tests notice.

    Args:
        limit: The most seconds for one fault and one kind of tests.
        paths: Further tests to run, beside those of the fault's package.
        stages: How many of `STAGES` to run.
    """

    def __init__(self, limit: float, paths: Sequence[str], stages: int) -> None:
        self.noticed: dict[str, str] = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
        self.caught: dict[Fault, str] = {}
        self.tried: list[Fault] = []
        self._limit, self._paths, self._stages = limit, paths, stages

    def of_package(self, faults: Sequence[Fault], copy: Copy) -> None:
        """Try the faults of a package: with the tests that cost the least, and with others where none of those fails."""
        for layers, reach in STAGES[: self._stages]:
            if left := [fault for fault in faults if fault not in self.caught]:
                places = dict.fromkeys(place for fault in left for place in fault.places(copy.root, reach))
                if paths := [*places, *self._paths]:
                    self._try(left, copy, ["-m", layers, *paths], reach)
        if copy.is_stopped:
            return
        for fault in faults:
            self.tried.append(fault)
            if fault not in self.caught:
                print(f"SURVIVED {fault.file}: {fault.harm}", flush=True)

    def _try(self, faults: Sequence[Fault], copy: Copy, arguments: Sequence[str], reach: int) -> None:
        first = [self.noticed.get(fault.key, "") for fault in faults]
        tests: dict[Fault, str] = {}
        for found in copy.tried(faults, first, arguments, self._limit, reach):
            if test := found.get("test"):
                fault = faults[found["fault"]]
                tests[fault] = test
                print(f"caught {fault.file}: {test}", flush=True)
            for test in found.get("unsound", ()):
                print(f"fails without a fault too: {test}", flush=True)
        self.caught |= tests
        self.noticed |= {fault.key: test for fault, test in tests.items()}

    def keep(self) -> None:
        """Keep what was noticed for the next time."""
        _KEPT.parent.mkdir(exist_ok=True)
        kept = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
        _KEPT.write_text(json.dumps(kept | self.noticed))

    def report(self) -> None:
        """Print how many faults of each package were caught, and those that were not."""
        print()
        for package in sorted({fault.package for fault in self.tried}):
            of_it = [fault for fault in self.tried if fault.package == package]
            print(f"{package:12} {sum(fault in self.caught for fault in of_it):3} of {len(of_it):3}")
        count = sum(fault in self.caught for fault in self.tried)
        print(f"{'caught':12} {count:3} of {len(self.tried):3}, {count / max(len(self.tried), 1):.0%}")
        for fault in self.tried:
            if fault not in self.caught:
                print(f"\nsurvived: {fault.harm}\n  {fault.file}: {fault.old.strip()}")


def try_all(faults: Sequence[Fault], copies: Sequence[Copy], trial: Trial) -> None:
    """Try the faults of each package, as many packages at once as there are copies."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def with_copy(of_package: Sequence[Fault]) -> None:
        copy = free.get()
        try:
            trial.of_package(of_package, copy)
        finally:
            free.put(copy)

    packages = [
        [each for each in faults if each.package == name]
        for name in dict.fromkeys(each.package for each in faults)
    ]
    with ThreadPoolExecutor(len(copies)) as threads:
        try:
            for done in as_completed([threads.submit(with_copy, each) for each in packages]):
                done.result()
        except BaseException:
            for copy in copies:
                copy.stop()
            threads.shutdown(cancel_futures=True)
            raise


def main() -> int:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="PART", help="a part of the package or the file of the faults to try"
    )
    parser.add_argument("--at", metavar="COMMIT", help="try them in this commit instead of the tree as it is")
    parser.add_argument("--jobs", type=int, default=2, help="packages at once (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a fault (default: %(default)s)")
    parser.add_argument(
        "--tests",
        nargs="*",
        default=[],
        metavar="PATH",
        help="tests to run beside those of a fault's package",
    )
    parser.add_argument(
        "--stages",
        type=int,
        choices=range(1, len(STAGES) + 1),
        default=len(STAGES),
        help="1: tests without a server that are beside the fault; 2: those of `make test` that are named with it too; "
        "3: all of its package in `make test`; 4: all of its package (default)",
    )
    parser.add_argument("--list", action="store_true", help="list the faults, and try none")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    trial = Trial(options.limit, options.tests, options.stages)
    try:
        with ExitStack() as stack:
            copies = [stack.enter_context(copied(options.at)) for _ in range(options.jobs)]
            faults = read_faults(copies[0].root, options.only)
            if options.list:
                print("\n".join(f"{fault.file}: {fault.harm}" for fault in faults))
                return 0
            copies[0].check()
            try:
                try_all(faults, copies, trial)
            finally:
                trial.keep()
                trial.report()
    except StaleError as error:
        print(f"the list of faults is stale:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
