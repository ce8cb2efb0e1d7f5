"""The errors of declarations, which users import from `sojourn.errors`.

Records raise them. The module is apart from the records, so that the help of the command line loads
no pydantic.
"""

__all__ = ["DefinitionError", "SojournError"]


class SojournError(Exception):
    """Base class of Sojourn's errors.

    The text says what happened and what to do about it.
    """

    __module__ = "sojourn.errors"


class DefinitionError(SojournError):
    """A toolset, agent, app or setting is invalid.

    The text names the place and the correction.
    """

    __module__ = "sojourn.errors"
