"""Tool schemas as model providers accept them.

The boundary judges every call by the tool's own schema. A model gets a projection of it, since providers refuse a whole
request for one schema that they do not take: a root that is a union or a reference, an array without `items`, a keyword of
an older draft, a key with a `$`. A projection may allow more than the schema, never less than a sensible call needs: what
it cannot say becomes a sentence of the tool's description, and the boundary refuses the rest with a hint.

One projection suits all providers, so that a transcript reads the same after a change of model.

`root.py` merges the rules for the arguments as a whole, `subschemas.py` copies the schemas below and spells regular
expressions, `projected.py` renames fields, puts all together and has the limits of each provider.
"""

from sojourn.models.projection.projected import Keys, Projection, ProviderLimits, limits_of, project

__all__ = ["Keys", "Projection", "ProviderLimits", "limits_of", "project"]
