"""An operations desk whose runs have what a console shows: repairs, retries, child runs, approvals, questions, pictures, progress, live text."""

import asyncio
import base64
import struct
import zlib
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field

from sojourn import (
    Agent,
    AgentTool,
    App,
    AwaitClarification,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    ToolUnavailable,
    Turn,
    Usage,
    WithArtifacts,
    progress,
)
from sojourn.live import current_deltas


class Device(BaseModel):
    """A device in the field."""

    id: str
    site: str
    state: Literal["up", "down"]
    last_seen: str


class Reading(BaseModel):
    """What to read of which meter."""

    device: str
    hours: int = Field(ge=1, le=48)
    unit: Literal["kWh", "W"]


class Question(BaseModel):
    """What to ask the advisor."""

    text: str


devices = Toolset("ops.devices", description="Field devices")
orders = Toolset("ops.orders", description="Work orders")
gate = asyncio.Event()
"""What a roll-out, and a planner that writes, wait for."""


@devices.tool(title="List devices", read_only=True)
async def find(site: str) -> list[Device]:
    """List the devices of a site."""
    await asyncio.sleep(0.05)
    return [
        Device(
            id=f"d-{n}", site=site, state="down" if n % 3 == 0 else "up", last_seen=f"2027-03-2{n} 08:1{n}"
        )
        for n in range(1, 7)
    ]


@devices.tool(title="Read a meter", read_only=True)
async def read(reading: Reading) -> dict[str, Any]:
    """Read a meter."""
    return {"device": reading.device, "total": 18.4, "unit": reading.unit, "note": "within the usual band"}


@devices.tool(title="Ping a device", read_only=True)
async def ping(device: str, meta: ToolCallMeta) -> str:
    """Ping a device; the gateway answers the second time."""
    if meta.attempt == 1:
        raise ToolUnavailable("the gateway does not answer")
    return f"{device} answers in 21 ms"


@devices.tool(title="Measure the load", artifacts={"curve": list, "picture": dict})
async def measure(site: str) -> WithArtifacts[str]:
    """Measure the load of a site."""
    curve = [{"hour": n, "kW": round(3 + n % 7 * 1.3, 1)} for n in range(24)]
    picture = {"media_type": "image/png", "data": base64.b64encode(_png(curve)).decode()}
    return WithArtifacts(f"24 readings of {site}", curve=curve, picture=picture)


@devices.tool(title="Roll out firmware", timeout=timedelta(minutes=30))
async def roll_out(site: str) -> str:
    """Roll out firmware to the devices of a site."""
    progress(f"11 of 24 devices of {site}", done=11, total=24)
    await gate.wait()
    return "rolled out"


@orders.tool(
    title="Delete work orders", destructive=True, confirmation="Delete {count} work orders of {site}?"
)
async def delete(site: str, count: int, reason: str) -> str:
    """Delete work orders."""
    return f"deleted {count} of {site}: {reason}"


def _png(curve: list[dict[str, Any]]) -> bytes:
    """A picture of a curve."""
    rows = [
        b"\0" + b"".join(b"\x3f\x51\xc6" if each["kW"] * 5 > 60 - y else b"\xee\xf0\xf8" for each in curve)
        for y in range(60)
    ]

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(curve), 60, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def _used(read_tokens: int, written: int) -> Usage:
    cost = (read_tokens * 3 + written * 15) / 1_000_000
    return Usage(input_tokens=read_tokens, output_tokens=written, cost=cost, model="a-model")


async def advise(turn: Turn) -> PlanResult:
    """Look, then advise; asked about a fuse, ask back."""
    if turn.messages[-1].role == "user" and len(turn.messages) == 1:
        if "fuse" in turn.messages[0].text:
            return PlanResult.ask(AwaitClarification(question="Which fuse box, the old or the new one?"))
        return PlanResult.calls(find.call(site="s-9"))
    return PlanResult.final("Replace the gateway of **s-9**; its neighbours are fine.")


advisor = Agent("ops.advisor", planner=advise, uses=[devices], policy=RunPolicy(interrupts_allowed=True))
advice = advisor.export("ops.advice", tools=[AgentTool("ask", args=Question, user="{text}")])


def _ask(text: str) -> ToolRequest:
    return advice.tools["ask"].call(Question(text=text))


REPORT = """\
**Site s-4** has two devices down, `d-3` and `d-6`.

| device | last seen | load |
|---|---|---|
| d-3 | 23 March | 18.4 kWh |
| d-6 | 26 March | none |

1. The gateway answers, so the devices themselves are off.
2. Their meters stopped at the same minute.

I would send somebody to the *fuse box* first."""

STEPS: list[Any] = [
    lambda: PlanResult.calls(
        find.call(site="s-4"), measure.call(site="s-4"), ping.call(device="d-3"), usage=_used(2_400, 180)
    ),
    lambda: PlanResult.calls(
        ToolRequest(name=read.id, payload={"device": "d-3", "hours": 72, "unit": "kilowatt"}),
        usage=_used(3_100, 90),
    ),
    lambda: PlanResult.calls(read.call(Reading(device="d-3", hours=48, unit="kWh")), usage=_used(3_300, 90)),
    lambda: PlanResult.calls(_ask("What should we do about s-9?"), usage=_used(3_600, 70)),
    lambda: PlanResult.final(REPORT, usage=_used(4_200, 310)),
]


async def plan(turn: Turn) -> PlanResult:
    """Do what the first word of the message names; by default look into it in five plans."""
    present = turn.messages[turn.turn_start :]
    first = present[0].text
    word, rounds = first.split(" ")[0], sum(message.role == "tool" for message in present)
    answers = [message for message in present[1:] if message.role == "user"]
    if word == "Delete" and rounds < 2:
        arguments = {"site": "s-4", "count": 412, "reason": "older than a year"}
        call = find.call(site="s-4") if not rounds else ToolRequest(name=delete.id, payload=arguments)
        return PlanResult.calls(call, usage=_used(2_100, 80))
    if word == "Roll" and not rounds:
        return PlanResult.calls(roll_out.call(site="s-2"), usage=_used(900, 40))
    if word == "Which" and not answers:
        return PlanResult.ask(AwaitClarification(question="Which meter: the one in the hall, or outside?"))
    if word == "Fuse" and not rounds:
        return PlanResult.calls(_ask("Is it the fuse?"))
    if word == "Break":
        return PlanResult.fail("the price list has no column `net`")
    if word == "Count":
        return _count(int(first.split(" ")[1]), rounds)
    if word == "Write":
        return await _write() if answers else PlanResult.ask(AwaitClarification(question="Now?"))
    if word == "Echo":
        return PlanResult.final(first.partition(" ")[2])
    if word == "Why":
        return STEPS[rounds]()
    return PlanResult.final(f"Done: {present[-1].text or present[-1].role}")


def _count(wanted: int, rounds: int) -> PlanResult:
    """Ping so many devices, fifty a plan."""
    left = wanted - 50 * rounds
    if left <= 0:
        return PlanResult.final(f"{wanted} calls")
    return PlanResult.calls(*[find.call(site=f"s-{50 * rounds + n}") for n in range(min(50, left))])


async def _write() -> PlanResult:
    deltas = current_deltas()
    if deltas:
        await deltas.text("The site is ")
        await gate.wait()
        await deltas.text("dark.")
    return PlanResult.final("The site is dark.")


assistant = Agent(
    "ops.assistant",
    description="Looks after the devices in the field.",
    planner=plan,
    uses=[devices, orders, advice],
    policy=RunPolicy(
        interrupts_allowed=True,
        max_tool_calls=20_000,
        max_tool_rounds=1_000,
        max_calls_per_step=64,
        max_cost=5.0,
    ),
)
app = App(agents=[assistant, advisor], name="ops")
