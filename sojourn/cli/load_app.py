"""Load `MODULE:APP`, with one readable line for everything that can be wrong with it."""

from sojourn.authoring.app import App
from sojourn.errors import DefinitionError
from sojourn.target import check_target, load_target

__all__ = ["check_target", "load_app"]


def load_app(target: str) -> App:
    """The app at `module:name`, looked for in the current folder first.

    Raises:
        DefinitionError: there is no such module or name, it is no App, or it is declared wrongly.
    """
    found = load_target(target)
    if not isinstance(found, App):
        name = target.partition(":")[2]
        raise DefinitionError(
            f"{target}: {name!r} is {'not there' if found is None else type(found).__name__}, not an App"
        )
    return found
