"""`python -m tests.mutants`: put each fault into a copy of the tree, and see which test notices it."""

import argparse
import queue
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass

from tests.mutants.choice import Known, make_map, stages
from tests.mutants.copies import Copy, copied
from tests.mutants.faults import Fault, StaleError, read_faults

_FIRST = ["-q", "-x", "-n", "0", "--tb=no", "--timeout=90", "-p", "no:cacheprovider", "-rfE"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fault."""

    fault: Fault
    failed: str
    """What pytest says of the test that noticed it; empty if none did."""
    seconds: float

    @property
    def test(self) -> str:
        """The id of that test."""
        return self.failed.partition(" - ")[0]


def tried(fault: Fault, copy: Copy, known: Known, limit: float) -> Outcome:
    """Run the tests that may notice a fault, until one fails or the time is over."""
    begun = time.monotonic()
    with copy.having(fault):
        for stage in stages(fault, known, copy.root):
            left = limit - (time.monotonic() - begun)
            if left <= 0 or copy.is_stopped:
                break
            try:
                failed = copy.run([*_FIRST, *stage.arguments], left, stage.chosen)
            except RuntimeError as error:
                print(f"{fault.file}: {error}", file=sys.stderr)
                break
            if failed:
                return Outcome(fault, failed[0], time.monotonic() - begun)
    return Outcome(fault, "", time.monotonic() - begun)


def try_all(faults: Sequence[Fault], copies: Sequence[Copy], known: Known, limit: float) -> list[Outcome]:
    """Try each fault, as many at once as there are copies; print each outcome."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def with_copy(fault: Fault) -> Outcome:
        copy = free.get()
        try:
            return tried(fault, copy, known, limit)
        finally:
            free.put(copy)

    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(len(copies)) as threads:
        try:
            for done in as_completed([threads.submit(with_copy, fault) for fault in faults]):
                outcomes.append(outcome := done.result())
                place = f"[{len(outcomes)}/{len(faults)}] {outcome.fault.file} ({outcome.seconds:.0f} s)"
                print(f"{place}: {outcome.test or 'SURVIVED: ' + outcome.fault.harm}", flush=True)
                if outcome.failed:
                    known.caught[outcome.fault.key] = outcome.test
        except BaseException:
            for copy in copies:
                copy.stop()
            threads.shutdown(cancel_futures=True)
            raise
    return outcomes


def failing_without(outcomes: Sequence[Outcome], copy: Copy) -> set[str]:
    """The tests that have noticed a fault, and fail in a copy without one too."""
    tests = sorted({outcome.test for outcome in outcomes if outcome.failed})
    if not tests:
        return set()
    files = sorted({test.partition("::")[0] for test in tests})
    failed = copy.run([*(each for each in _FIRST if each != "-x"), *files], 3600, tests)
    return {line.partition(" - ")[0] for line in failed}


def report(outcomes: Sequence[Outcome], doubtful: set[str]) -> None:
    """Print how many faults of each package were caught, and those that were not."""
    caught = [each for each in outcomes if each.failed and each.test not in doubtful]
    print()
    for package in sorted({each.fault.package for each in outcomes}):
        of_it = [each for each in outcomes if each.fault.package == package]
        print(f"{package:12} {sum(each in caught for each in of_it):3} of {len(of_it):3}")
    print(f"{'caught':12} {len(caught):3} of {len(outcomes):3}, {len(caught) / len(outcomes):.0%}")
    for each in outcomes:
        if each not in caught:
            why = f" ({each.test} fails without the fault too)" if each.failed else ""
            print(f"\nsurvived{why}: {each.fault.harm}\n  {each.fault.file}: {each.fault.old.strip()}")


def main() -> int:
    """Read the command line, and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "only", nargs="?", default="", help="a part of the package or the file of the faults to try"
    )
    parser.add_argument("--at", metavar="COMMIT", help="try them in this commit instead of the tree as it is")
    parser.add_argument("--jobs", type=int, default=2, help="faults at once (default: %(default)s)")
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds for one fault (default: %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="list the faults, and try none")
    parser.add_argument(
        "--map",
        nargs="*",
        metavar="PATH",
        help="first find the tests that execute each fault's lines, in these paths",
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    known = Known.read()
    try:
        with ExitStack() as stack:
            copies = [stack.enter_context(copied(options.at)) for _ in range(options.jobs)]
            faults = read_faults(copies[0].root, options.only)
            if options.list:
                print("\n".join(f"{fault.file}: {fault.harm}" for fault in faults))
                return 0
            copies[0].check()
            if options.map is not None:
                known.tests |= make_map(copies[0], faults, ["-q", "-n", str(2 * options.jobs), *options.map])
                known.write()
            outcomes = try_all(faults, copies, known, options.limit)
            known.write()
            report(outcomes, failing_without(outcomes, copies[0]))
            return 0
    except StaleError as error:
        print(f"the list of faults is stale:\n{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        known.write()
        print("stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
