"""Helpers for tests of agents: a planner that follows a script, and a real server.

The package decides how a test starts a server and replaces an agent's planner or model. Only `pytest_plugin` imports
pytest; the installed package registers it, and it imports and starts nothing else until a test uses one of its fixtures
(`temporal_server`, `temporal_address`, `use_model`). Begin with `ScriptedPlanner`; `sojourn.testing.models` replaces
models, and records their responses.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.testing.scripted import ScriptedPlanner, Step

__all__ = ["ScriptedPlanner", "Step"]


def __getattr__(name: str) -> Any:
    # pytest imports this package with the plugin, in every test run of a user, so its import has to be quick.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sojourn.testing import scripted  # noqa: PLC0415

    return getattr(scripted, name)
