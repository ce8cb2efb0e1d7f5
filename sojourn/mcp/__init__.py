"""MCP servers as toolsets: one session a worker, tools as the server declares them.

This package decides what of an MCP server a run may see and do: which listed tools become tools, how a call goes out,
and what its answer, question or failure comes to. It may know contracts, the pure core, `sojourn.authoring`, the network
clients and `sojourn.serving`, and the official SDK, which alone knows the protocol and is imported when a toolset is
opened, not before; it knows neither Temporal nor a run. Begin with `toolset.py` and `tool.py`, then `connection.py`.

```python
from sojourn import mcp

everything = mcp.McpToolset("ops.everything", transport=mcp.Stdio("npx", "-y", "some-mcp-server"))
```
"""

from sojourn.mcp.tool import McpTool
from sojourn.mcp.toolset import McpToolset
from sojourn.mcp.transports import Http, Sse, Stdio, Transport

__all__ = ["Http", "McpTool", "McpToolset", "Sse", "Stdio", "Transport"]
