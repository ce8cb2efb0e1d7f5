"""Load an app or a codec that commands and settings name as `MODULE:NAME`."""

import importlib
import importlib.util
import os
import sys
from types import TracebackType
from typing import Any

from sojourn.contracts.record import declaration_fault
from sojourn.errors import DefinitionError

__all__ = ["check_target", "load_target"]

_LIBRARIES = (
    "sojourn",
    "pydantic",
    "pydantic_core",
    "importlib",
    "lazy_loader",
    "typing",
    "contextlib",
    "functools",
)


def check_target(target: str, what: str = "app") -> tuple[str, str]:
    """Return the names of the module and of the object, without importing it.

    Raises:
        DefinitionError: The target has another form, or there is no such module.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise DefinitionError(f"{target!r}: name the {what} as MODULE:{what.upper()}, such as worker:{what}")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    outermost = module_name.partition(".")[0]
    if not outermost or (outermost not in sys.modules and importlib.util.find_spec(outermost) is None):
        raise _no_module(target, outermost)
    return module_name, name


def load_target(target: str, what: str = "app") -> Any:
    """Import the module, and return its object, or None if it has none of this name.

    Raises:
        DefinitionError: The target has another form, there is no such module, or importing it fails.
    """
    module_name, name = check_target(target, what)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise _no_module(target, error.name) from error
        raise DefinitionError(f"{target}: it imports {error.name!r}, which is not installed") from error
    except DefinitionError as error:
        raise DefinitionError(f"{target}: {error}{_place(error.__traceback__)}") from error
    except Exception as error:
        if fault := declaration_fault(error):
            raise DefinitionError(f"{target}: {fault}{_place(error.__traceback__)}") from error
        raise DefinitionError(f"{target}: importing it raises {type(error).__name__}: {error}") from error
    return getattr(module, name, None)


def _no_module(target: str, name: str) -> DefinitionError:
    return DefinitionError(f"{target}: no module {name!r} in {os.getcwd()} or installed")


def _place(trace: TracebackType | None) -> str:
    """Return the innermost line of the app, outside libraries, of an exception."""
    place = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in _LIBRARIES:
            place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return place
