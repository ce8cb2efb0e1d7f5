"""Definition: the errors of declarations, apart from the others, since records of contracts raise them.

`sojourn.errors` is where users find them.
"""

__all__ = ["DefinitionError", "SojournError"]


class SojournError(Exception):
    """Base class of Sojourn's errors; the text says what happened and what to do about it."""

    __module__ = "sojourn.errors"


class DefinitionError(SojournError):
    """A toolset, agent, app or setting is invalid; the text names the place and the correction."""

    __module__ = "sojourn.errors"
