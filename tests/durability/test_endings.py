"""A client program exits with its own exit code, however soon after its last answer."""

import asyncio
import sys
from pathlib import Path


async def test_short_programs_end_well(temporal_address):
    """No program aborts in the SDK's threads, as one in eight did on a busy machine."""
    script = Path(__file__).with_name("endings.py")
    counting = await asyncio.create_subprocess_exec(
        sys.executable, script, "32", temporal_address, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await counting.communicate()
    assert counting.returncode == 0, out.decode()
