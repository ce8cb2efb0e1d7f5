"""The old names of `sojourn.testing.providers`, for tests that are on their way."""

import sys

from sojourn.testing import providers
from sojourn.testing.providers import *  # noqa: F403
from sojourn.testing.providers import ProviderProcess as StandinProcess  # noqa: F401
from sojourn.testing.providers import ProviderServer as Standin  # noqa: F401
from sojourn.testing.providers import clients, request, script, server, tool_rules, wire

wire.KEY = clients.KEY
for name, module in {
    "sdk": clients,
    "request": request,
    "reply": script,
    "server": server,
    "tool_refusals": tool_rules,
    "wire": wire,
}.items():
    sys.modules[f"{__name__}.{name}"] = module
del providers
