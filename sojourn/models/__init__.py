"""Language models as planners, on pydantic-ai's model layer: `pip install 'sojourn[models]'`.

The package decides what a model is sent, what plan its response comes to, and which failure of a provider is repeated.
It alone, with `sojourn.testing.models`, knows pydantic-ai, which costs most of a second to import; it knows the contracts,
the core and the network, and nothing of workflows or activities. Begin at `planner`: `outcome` and `provider_errors` begin
with the tables of its verdicts.
"""

from importlib.util import find_spec

from sojourn.errors import DefinitionError

if find_spec("pydantic_ai") is None:
    raise DefinitionError(
        "ModelPlanner needs pydantic-ai, which is not installed here: pip install 'sojourn[models]'"
    )

from sojourn.models.planner import ModelPlanner

__all__ = ["ModelPlanner"]
