"""An app whose agents inspect files, and ask before they do: one with a model, one without; its worker and service are programs of their own."""

import hashlib
import os
from pathlib import Path

from sojourn import Agent, App, Attachment, ModelPlanner, PlanResult, RunPolicy, Toolset, Turn
from sojourn.storage import FolderStorage

tools = Toolset("files.desk")


@tools.tool(destructive=True, confirmation="Inspect them?")
async def inspect(photo: Attachment, scan: Attachment) -> str:
    """Return name, type, size and digest of two files."""
    told = []
    for file in (photo, scan):
        digest = hashlib.sha256()
        async for chunk in file.chunks():
            digest.update(chunk)
        told.append(f"{file.name} {file.media_type} {file.size} {digest.hexdigest()[:8]}")
    return ", ".join(told)


async def plan(turn: Turn) -> PlanResult:
    """Inspect both files, once both are there, and tell what the tool says."""
    if turn.tool_results:
        return PlanResult.final(str(turn.tool_results[0].result))
    ids = {file.name: file.id for message in turn.messages for file in message.attachments}
    if len(ids) < 2:
        return PlanResult.final("I see one file.")
    return PlanResult.calls(inspect.call(photo=ids["photo.jpg"], scan=ids["scan.pdf"]))


policy = RunPolicy(interrupts_allowed=True)
model = ModelPlanner("anthropic:claude-haiku-4-5", settings={"max_tokens": 500})
app = App(
    agents=[
        Agent("files.clerk", planner=model, uses=[tools], policy=policy),
        Agent("files.porter", planner=plan, uses=[tools], policy=policy),
    ],
    storage=FolderStorage(Path(os.environ.get("FILES_STORAGE", "storage"))),
)
