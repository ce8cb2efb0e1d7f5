"""Language models as planners, on pydantic-ai's model layer.

Install it by `pip install 'sojourn[models]'`.

The package makes the requests to a model, makes a plan of its response, and decides which failures of a provider are repeated.
Only this package and `sojourn.testing.models` import pydantic-ai, which takes most of a second. It may import the contracts,
the core and the network, but no workflows or activities. Begin at `planner`; the docstrings of `outcome` and
`provider_errors` hold the tables of their decisions.
"""

from importlib.util import find_spec

from sojourn.errors import DefinitionError

if find_spec("pydantic_ai") is None:
    raise DefinitionError(
        "ModelPlanner needs pydantic-ai, which is not installed here: pip install 'sojourn[models]'"
    )

from sojourn.models.compaction import Compaction, Summarize
from sojourn.models.planner import ModelPlanner
from sojourn.models.price import Price

__all__ = ["Compaction", "ModelPlanner", "Price", "Summarize"]
