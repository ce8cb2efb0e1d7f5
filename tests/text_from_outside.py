"""Tools for tests of taint: one reads text from outside, and one destroys something."""

from sojourn import Toolset

__all__ = ["disks", "read", "web", "wipe"]

web = Toolset("outside.web")
disks = Toolset("outside.disks")


@web.tool(read_only=True, open_world=True)
async def read() -> str:
    """Read a page."""
    return ""


@disks.tool(destructive=True)
async def wipe() -> str:
    """Wipe a disk."""
    return ""
