"""The name that was most likely meant by a misspelt one."""

from collections.abc import Sequence
from difflib import get_close_matches

__all__ = ["closest_name"]

_CLOSE = 0.75


def closest_name(name: str, names: Sequence[str]) -> str | None:
    """The name that was most likely meant: case, dashes and underscores count for nothing."""
    by_letters = {_letters(each): each for each in reversed(names)}
    found = get_close_matches(_letters(name), list(by_letters), n=1, cutoff=_CLOSE)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").casefold()
