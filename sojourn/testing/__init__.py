"""Helpers for tests of agents.

The package decides how a test starts a server and workers, moves a run's clock, and replaces an agent's
planner, model or MCP server. Only `pytest_plugin` imports pytest; the installed package registers it, and
it starts nothing until a test uses one of its fixtures (`provider`, `replay_histories`, `serve`, `temporal_server`,
`temporal_address`, `use_mcp`, `use_model`). Begin with `ScriptedPlanner`; `sojourn.testing.models` replaces
models and records their responses, `sojourn.testing.providers` answers like a provider,
`sojourn.testing.mcp` replaces MCP servers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.testing.clock import skip_time
    from sojourn.testing.replay import replays
    from sojourn.testing.scripted import ScriptedPlanner, Step

__all__ = ["ScriptedPlanner", "Step", "replays", "skip_time"]

_HOMES = {"ScriptedPlanner": "scripted", "Step": "scripted", "replays": "replay", "skip_time": "clock"}


def __getattr__(name: str) -> Any:
    # pytest imports this package with the plugin, in every test run of a user, so the import must
    # be quick.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"sojourn.testing.{_HOMES[name]}"), name)
