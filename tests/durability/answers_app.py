"""An app whose agent answers messages while a call waits for an approval; each answer is recorded, and waits while it is held."""

from durable_app import record, recorded

from sojourn import Agent, App, ApprovalPolicy, PlanResult, RunPolicy, Toolset, Turn

tools = Toolset("answers.tools")


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    record("start", "wipe")
    return f"wiped {disk}"


async def plan(turn: Turn) -> PlanResult:
    """Wipe a disk, answer what is said meanwhile, and tell all of it in the end."""
    said = [message.text for message in turn.messages if message.role in ("user", "assistant")]
    if turn.finalize is not None:
        async with recorded("answers.plan"):
            return PlanResult.final(f"on {said[-1]}")
    if not turn.results:
        return PlanResult.calls(wipe.call(disk="a"))
    return PlanResult.final(" | ".join(filter(None, said)))


policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message="answer"))
app = App(agents=[Agent("answers.agent", planner=plan, uses=[tools], policy=policy)])
