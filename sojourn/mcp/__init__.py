"""MCP servers as toolsets: one session a worker, tools as the server declares them.

```python
from sojourn import mcp

everything = mcp.McpToolset("ops.everything", transport=mcp.Stdio("npx", "-y", "some-mcp-server"))
```

The protocol itself is the official SDK's; it is imported when a toolset is opened, not before.
"""

from sojourn.mcp.tool import McpTool
from sojourn.mcp.toolset import McpToolset
from sojourn.mcp.transports import Http, Sse, Stdio, Transport

__all__ = ["Http", "McpTool", "McpToolset", "Sse", "Stdio", "Transport"]
