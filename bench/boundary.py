"""`python -m bench.boundary`: the cost of the boundary for one valid call of 1 KB, beside that of the libraries it uses."""

import json
import timeit
from collections.abc import Callable
from typing import Annotated, Any

from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

from sojourn import ToolCallMeta, ToolRequest, Toolset
from sojourn.core.payload import boundary

__all__: list[str] = []

BAR_US = 150
"""Most microseconds that the check of a valid payload of 1 KB may take."""


class Reading(BaseModel):
    """One row of a batch."""

    device: Annotated[str, Field(pattern=r"^d-\d+$")]
    at: Annotated[str, Field(min_length=10, max_length=30)]
    value: Annotated[float, Field(ge=-100, le=100)]
    unit: Annotated[str, Field(max_length=10)]


class Batch(BaseModel):
    """About 1 KB of JSON."""

    site: str
    readings: Annotated[list[Reading], Field(max_length=50)]
    note: str | None = None
    urgent: bool = False


PAYLOAD: dict[str, Any] = {
    "site": "s-7",
    "readings": [
        {"device": f"d-{n}", "at": f"2026-01-{n:02}T10:00:00Z", "value": n * 1.5, "unit": "kelvin"}
        for n in range(1, 12)
    ],
    "note": "x" * 80,
    "urgent": True,
}

tools = Toolset("bench.boundary")


@tools.tool
def store(batch: Batch) -> str:
    """Store readings."""
    return batch.site


def micros(work: Callable[[], Any]) -> float:
    """Microseconds of one execution: the least of seven timings, which other processes disturbed least."""
    work()
    return min(timeit.repeat(work, number=500, repeat=7)) / 500 * 1e6


def main() -> None:
    """Measure and print a table."""
    raw = json.dumps(PAYLOAD)
    meta = ToolCallMeta(run_id="r")
    call = ToolRequest(name=store.id, payload=PAYLOAD, tool_call_id="c")
    written = ToolRequest(name=store.id, raw=raw, tool_call_id="c")
    bound = store.source.bind(store, None)  # pyright: ignore[reportArgumentType] - a function needs nothing of an app
    plain: Any = Draft202012Validator(store.spec.payload.json_schema)
    rows: list[tuple[str, Callable[[], Any]]] = [
        ("pydantic, from JSON text", lambda: Batch.model_validate_json(raw)),
        ("jsonschema's own validator", lambda: plain.is_valid(PAYLOAD)),
        ("boundary: check a payload", lambda: boundary.check_payload(store.spec, store.validator, call)),
        (
            "boundary: parse and check raw text",
            lambda: boundary.check_payload(store.spec, store.validator, written),
        ),
        ("boundary: check, decode, ready to call", lambda: bound.prepare(_checked(call), call, meta)),
        (
            "boundary: result to JSON",
            lambda: bound.deliver(call, "s-7"),
        ),
    ]
    table = Table(title=f"one valid call of {len(raw):,} bytes")
    table.add_column("what")
    table.add_column("µs", justify="right")
    for name, work in rows:
        table.add_row(name, f"{micros(work):.0f}")
    Console().print(table)
    print(f"the bar for a valid payload is {BAR_US} µs")


def _checked(call: ToolRequest) -> dict[str, Any]:
    payload = boundary.check_payload(store.spec, store.validator, call)
    assert isinstance(payload, dict)
    return payload


if __name__ == "__main__":
    main()
