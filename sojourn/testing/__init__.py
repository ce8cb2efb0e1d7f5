"""What tests of agents need: a planner that follows a script, and a real server.

The package decides how a test starts a server and puts another planner or model in an agent's place. It knows the
public face of Sojourn, and pytest in `pytest_plugin` alone (`temporal_server`, `temporal_address`, `use_model`), which the
installed package registers and which imports and starts nothing before a test asks. Begin at `ScriptedPlanner`;
`sojourn.testing.models` puts models in the place of others, and records what they answer.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.testing.scripted import ScriptedPlanner, Step

__all__ = ["ScriptedPlanner", "Step"]


def __getattr__(name: str) -> Any:
    # Every pytest run of a user imports this package for its plugin; it must cost nothing.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sojourn.testing import scripted  # noqa: PLC0415

    return getattr(scripted, name)
