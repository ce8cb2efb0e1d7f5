"""An app whose agent has a model inspect files, and asks before it does; its worker and service are programs of their own."""

import hashlib
import os
from pathlib import Path

from sojourn import Agent, App, Attachment, ModelPlanner, RunPolicy, Toolset
from sojourn.storage import FolderStorage

tools = Toolset("files.desk")


@tools.tool(destructive=True, confirmation="Inspect them?")
async def inspect(photo: Attachment, scan: Attachment) -> str:
    """Return name, size and digest of two files."""
    told = []
    for file in (photo, scan):
        digest = hashlib.sha256()
        async for chunk in file.chunks():
            digest.update(chunk)
        told.append(f"{file.name} {file.size} {digest.hexdigest()[:8]}")
    return ", ".join(told)


planner = ModelPlanner("anthropic:claude-haiku-4-5", settings={"max_tokens": 500})
agent = Agent("files.clerk", planner=planner, uses=[tools], policy=RunPolicy(interrupts_allowed=True))
app = App(agents=[agent], storage=FolderStorage(Path(os.environ.get("FILES_STORAGE", "storage"))))
