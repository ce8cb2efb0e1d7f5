"""The table of runs at several widths."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from sojourn import RunStatus
from sojourn.cli.run_table import run_table

START = datetime(2026, 3, 2, 9, 14, 7, tzinfo=UTC)
LONG = f"clerk-5f0c2a9b1d3e/call_{'9a66a7172e6e' * 5}"


def run_of(run_id: str, status: str = "completed", awaiting: str = "") -> RunStatus:
    """A run of the clerk that began at `START`."""
    closed = START + timedelta(seconds=200) if status == "completed" else None
    return RunStatus(
        run_id=run_id,
        agent_id="desk.clerk",
        status=status,
        awaiting=awaiting,
        started_at=START,
        closed_at=closed,
    )


def drawn(runs: list[RunStatus], width: int, why: dict | None = None) -> list[str]:
    """The lines of the table on a terminal of this width."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(run_table(runs, why or {}, width), crop=False)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (100, ["RUN", "AGENT", "STATUS", "WAITS FOR", "STARTED", "TOOK"]),
        (80, ["RUN", "AGENT", "STATUS", "WAITS FOR", "STARTED"]),
        (60, ["RUN", "AGENT", "STATUS", "WAITS FOR"]),
        (45, ["RUN", "STATUS", "WAITS FOR"]),
    ],
)
def test_columns_give_way_to_the_id(width, titles):
    """The narrower the screen, the fewer columns; each line fits, and has a whole id."""
    runs = [run_of("clerk-5f0c2a9b1d3e", "waiting", "question"), run_of("clerk-77d1c0a4e9b2")]
    heading, *rows = drawn(runs, width)
    assert [each for each in heading.split("  ") if each] == titles or heading.split() == " ".join(
        titles
    ).split()
    assert [row.split()[0] for row in rows] == [run.run_id for run in runs]
    assert max(map(len, [heading, *rows])) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_an_id_without_room_has_a_line_of_its_own(width):
    """The id is whole, also where it is longer than the screen is wide; the rest is below it."""
    lines = drawn([run_of(LONG, "waiting", "question"), run_of("clerk-1")], width)
    assert lines[0::2] == [LONG, "clerk-1"]
    assert lines[1].split()[:3] == ["desk.clerk", "waiting", "question"]
    assert all(len(line) <= width for line in lines[1::2])


def test_a_long_reason_is_wrapped_and_the_id_is_not():
    """Why a run is stuck takes several lines beside its id."""
    stuck = {"attempt": 4, "since": None, "reason": "word " * 40, "next": "do this"}
    lines = drawn([run_of("clerk-5f0c2a9b1d3e", "running")], 70, {"clerk-5f0c2a9b1d3e": stuck})
    assert lines[0].split() == ["RUN", "AGENT", "STATUS", "STUCK", "BECAUSE"]
    assert "clerk-5f0c2a9b1d3e" in lines[1]
    assert len(lines) > 4
    assert max(map(len, lines)) <= 70


def test_hostile_texts_are_escaped():
    """Control characters and markup in ids and waits are text."""
    lines = drawn([run_of("a\x1b[31m", "waiting", "[bold]x\x07")], 100)
    assert r"a\u001b[31m" in lines[1]
    assert r"[bold]x\u0007" in lines[1]
