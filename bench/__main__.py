"""`make bench`: measure all contenders in turn on one server; print a table and write all samples as JSON."""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import local
from bench.contenders import CONTENDERS, FLOOR, PEERS, Contender
from bench.measure import CALLS, LONG, Lane, Sample, lane, round_of
from sojourn.server import Server

RESULTS = Path(__file__).parent / "results"

VERSIONS = ("temporalio", "pydantic-ai-slim", "openai-agents", "temporalio-openai-agents")

BARS = {
    "latency": ("≤", 1.15),
    "runs_per_second": ("≥", 0.85),
    "events": ("≤", 1.02),
    "long_bytes": ("≤", 1.35),
}
"""The bound of a figure's ratio to the floor."""


def chosen_of(only: list[str]) -> list[Contender]:
    """The floor and the contenders named in `only`; with an empty `only`, all but the peers."""
    present = {name: peer for name, peer in PEERS.items() if peer}
    if absent := [name for name in only if name in PEERS and name not in present]:
        print(f"left out, since not installed: {', '.join(absent)}; see `make bench-peers`", file=sys.stderr)
    return (
        [c for c in [*CONTENDERS, *present.values()] if c is FLOOR or c.name in only] if only else CONTENDERS
    )


async def measure(rounds: int, chosen: list[Contender]) -> dict[str, list[Sample]]:
    """Measure the contenders in turn; return `rounds` samples of each, by name."""
    async with AsyncExitStack() as stack:
        # In memory, since flushes to a disk would hide the cost of the contenders themselves.
        server = await stack.enter_async_context(Server(attach=False, port=0, ui=False))
        lanes: list[Lane] = [await stack.enter_async_context(lane(c, server.address)) for c in chosen]
        await round_of(lanes, alone=2, batches=1)
        for one in lanes:
            one.samples.clear()
        for number in range(rounds):
            await round_of(lanes)
            for one in lanes:
                sample = one.samples[-1]
                print(
                    f"round {number + 1}/{rounds}  {one.contender.name:13} "
                    f"{sample.latency * 1000:6.0f} ms  {sample.runs_per_second:5.2f} runs/s",
                    file=sys.stderr,
                    flush=True,
                )
        return {one.contender.name: one.samples for one in lanes}


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution; None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def summarise(samples: dict[str, list[Sample]]) -> dict[str, Any]:
    """Medians of all figures, median ratios to the floor round by round, and the growth of bytes per call from 20 to 100 calls."""
    summary: dict[str, Any] = {}
    floor = samples[FLOOR.name]
    for name, own in samples.items():
        figures: dict[str, Any] = {}
        for figure in (f.name for f in fields(Sample)):
            values = [getattr(s, figure) for s in own]
            ratios = [getattr(s, figure) / getattr(f, figure) for s, f in zip(own, floor, strict=True)]
            figures[figure] = {"median": statistics.median(values), "ratio": statistics.median(ratios)}
        growth = [(s.long_bytes / LONG) / (s.bytes / CALLS) for s in own]
        figures["bytes_per_call_growth"] = {"median": statistics.median(growth)}
        summary[name] = figures
    return summary


def cost_of(name: str, samples: dict[str, list[Sample]]) -> dict[str, float]:
    """Median ratios of a contender to `sojourn`, round by round; empty unless both took part."""
    plain, other = samples.get("sojourn", []), samples.get(name, [])
    pairs = list(zip(plain, other, strict=True)) if plain and other else []
    return {
        figure: statistics.median(getattr(t, figure) / getattr(p, figure) for p, t in pairs)
        for figure in ("latency", "latency_together", "runs_per_second", "cpu_per_call", "bytes")
        if pairs
    }


def show(summary: dict[str, Any]) -> None:
    """Print a row for each figure: the median of each contender, then its ratio to the floor."""
    table = Table("figure", title="medians, and ratios to the floor")
    for name in summary:
        table.add_column(name, justify="right")
    for figure in [*(f.name for f in fields(Sample)), "bytes_per_call_growth"]:
        bar = " ".join(map(str, BARS.get(figure, ())))
        cells = [
            _short(of[figure]["median"]) + (f"  {ratio:.3f}" if (ratio := of[figure].get("ratio")) else "")
            for of in summary.values()
        ]
        table.add_row(f"{figure} {bar}".strip(), *cells)
    Console().print(table)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def main() -> None:
    """Measure, print the table, and write the samples to `bench/results/`."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--rounds", type=int, default=5)
    names = [c.name for c in CONTENDERS if c is not FLOOR]
    parser.add_argument(
        "--only", nargs="*", choices=[*names, *PEERS], default=[], help="measure only these, and the floor"
    )
    options = parser.parse_args()
    samples = asyncio.run(measure(options.rounds, chosen_of(options.only)))
    summary = summarise(samples)
    show(summary)
    if goals := local.judged(summary):
        print(f"{local.NAME} to the floor: {goals}")
    costs = {name: cost_of(name, samples) for name in ("traced", "encrypted")}
    for name, cost in costs.items():
        if cost:
            print(
                f"{name} to sojourn: " + "  ".join(f"{figure} {ratio:.3f}" for figure, ratio in cost.items())
            )
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version_of(name) for name in VERSIONS},
    }
    everything = {
        "machine": machine,
        "summary": summary,
        "costs": costs,
        "samples": {name: [asdict(s) for s in own] for name, own in samples.items()},
    }
    path.write_text(json.dumps(everything, indent=1))
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


if __name__ == "__main__":
    main()
