"""An OAuth client for servers that the deployment does not trust.

The package finds out who issues tokens for an MCP server, asks for them, and keeps them. It decides which addresses a server's
metadata may name, and which tokens are good for which server. It waits for no person: what needs one begins and ends as two
calls. It uses the models and the pure functions of the MCP SDK, not its client, which holds a lock over each request and waits
for a person in memory. Of Sojourn it imports `network`, `errors` and values. Begin with `discovery.py`, then `tokens.py`.
"""

from sojourn.oauth.discovery import Authorization, discover
from sojourn.oauth.endpoints import Endpoints, OAuthRefused
from sojourn.oauth.tokens import OAuthClient, Token, request_token

__all__ = [
    "Authorization",
    "Endpoints",
    "OAuthClient",
    "OAuthRefused",
    "Token",
    "discover",
    "request_token",
]
