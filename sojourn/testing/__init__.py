"""What tests of agents need: a planner that follows a script, and a real server.

The pytest plugin (`temporal_server`, `temporal_address`, `use_model`) is registered by
the installed package; nothing is imported or started until a test asks for it.
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
