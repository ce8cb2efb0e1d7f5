"""MCP servers as toolsets, with tools as the server declares them.

A worker keeps one session to each server that lists the tools. The package decides which listed tools
become tools of a run, how a call is sent, and how the server's answer, elicitation or error becomes a
result. It imports contracts, the core, `sojourn.authoring`, `sojourn.network`, `sojourn.serving` and, only
when a toolset opens, `sojourn.oauth` and the official SDK; nothing of a run's workflow. Begin with `toolset.py` and `tool.py`,
then `connection.py`.

```python
from sojourn import mcp

everything = mcp.McpToolset("ops.everything", transport=mcp.Stdio("npx", "-y", "some-mcp-server"))
```
"""

from sojourn.mcp.auth import ClientCredentials, IdentityAssertion, SignIn
from sojourn.mcp.tool import McpTool
from sojourn.mcp.toolset import McpToolset
from sojourn.mcp.transports import Http, Sse, Stdio, Transport

__all__ = [
    "ClientCredentials",
    "Http",
    "IdentityAssertion",
    "McpTool",
    "McpToolset",
    "SignIn",
    "Sse",
    "Stdio",
    "Transport",
]
