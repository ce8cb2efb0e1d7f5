"""Load `MODULE:APP`, with one readable line for everything that can be wrong with it."""

import importlib
import os
import sys

from sojourn.app import App
from sojourn.errors import DefinitionError

__all__ = ["load_app"]


def load_app(target: str) -> App:
    """The app at `module:name`, looked for in the current folder first.

    Raises:
        DefinitionError: there is no such module or name, it is no App, or it is declared wrongly.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise DefinitionError(f"{target!r}: name the app as MODULE:APP, such as worker:app")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise DefinitionError(f"{target}: no module {error.name!r} in {folder} or installed") from error
        raise DefinitionError(f"{target}: it imports {error.name!r}, which is not installed") from error
    except DefinitionError as error:
        raise DefinitionError(f"{target}: {error}") from error
    except Exception as error:
        raise DefinitionError(f"{target}: importing it raises {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not isinstance(found, App):
        raise DefinitionError(
            f"{target}: {name!r} is {'not there' if found is None else type(found).__name__}, not an App"
        )
    return found
