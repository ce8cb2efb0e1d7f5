"""Language models as planners, on pydantic-ai's model layer: `pip install 'sojourn[models]'`.

Only this package imports pydantic-ai, which costs most of a second, so that only who names a model pays for it.
"""

from importlib.util import find_spec

from sojourn.errors import DefinitionError

if find_spec("pydantic_ai") is None:
    raise DefinitionError(
        "ModelPlanner needs pydantic-ai, which is not installed here: pip install 'sojourn[models]'"
    )

from sojourn.models.planner import ModelPlanner

__all__ = ["ModelPlanner"]
