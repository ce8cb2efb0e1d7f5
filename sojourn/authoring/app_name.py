"""App name: the name of an app that was given none, by the module and the variable that hold it."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["APP_NAME", "declaring_module", "name_in_module"]

APP_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+-]{0,199}\Z")
"""The form of a given name: it is also the name of a task queue."""


def declaring_module() -> str:
    """Return the name of the module that is declaring an app: the innermost caller outside of this library."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller's globals
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "sojourn":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def name_in_module(app: object, module_name: str) -> str | None:
    """Return `module:variable`; None for an app that is no variable of the module, or in a notebook.

    The main program has the name by which others import it, so that each way to serve an app gives it the same name.
    """
    module = sys.modules.get(module_name)
    if module is None:
        return None
    variables: dict[str, Any] = vars(module)
    variable = next((name for name, value in variables.items() if value is app), None)
    called = _name_of_main(module) if module_name == "__main__" else module_name
    return f"{called}:{variable}" if called and variable else None


def _name_of_main(module: ModuleType) -> str | None:
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    file = getattr(module, "__file__", None)
    return Path(file).stem if file else None
