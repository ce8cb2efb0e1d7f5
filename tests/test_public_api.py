"""The public face of the package: its names, what importing costs, and its errors."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sojourn
from sojourn import errors


def test_every_public_name_can_be_imported_and_nothing_else_is_promised() -> None:
    """`__all__` is sorted, without repetitions, and is just what `dir` and `from sojourn import ...` give."""
    assert sojourn.__all__ == sorted(set(sojourn.__all__))
    assert {name: hasattr(sojourn, name) for name in sojourn.__all__} == dict.fromkeys(sojourn.__all__, True)
    assert set(dir(sojourn)) == {*sojourn.__all__, "__version__"}


def test_a_name_comes_from_where_its_module_promises_it() -> None:
    """Each public name is in `__all__` of the module that holds it."""
    for module, names in sojourn._WHERE.items():
        found = importlib.import_module(module)
        for name in names:
            assert name in found.__all__, f"{module}.__all__ lacks {name}"
            assert getattr(sojourn, name) is getattr(found, name)
    assert sorted(sojourn._MODULE_OF) == sojourn.__all__


def test_type_checkers_see_the_same_names() -> None:
    """The imports that only type checkers read are those that are made on first use."""
    source = Path(sojourn.__file__).read_text()
    block = re.search(r"if TYPE_CHECKING:\n(.*?)\n_WHERE", source, re.DOTALL)[1]
    imported = re.findall(r"from (\S+) import (?:\(([^)]*)\)|(.*))", block)
    seen = {
        name.strip(): module
        for module, many, one in imported
        for name in (many or one).split(",")
        if name.strip()
    }
    assert seen == sojourn._MODULE_OF


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name is told as Python does."""
    with pytest.raises(AttributeError, match="module 'sojourn' has no attribute 'Agnet'"):
        getattr(sojourn, "Agnet")  # noqa: B009 - a plain attribute is no statement


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


def test_importing_the_package_costs_nothing() -> None:
    """`import sojourn` loads neither Temporal nor pydantic: the command line answers at once."""
    assert not loaded_by("import sojourn") & {
        "temporalio",
        "pydantic",
        "pydantic_core",
        "jsonschema",
        "asyncio",
    }


def test_declaring_needs_no_temporal() -> None:
    """Toolsets, agents and apps are declared, and tested, without loading the Temporal SDK."""
    loaded = loaded_by("from sojourn import Agent, App, Message, PlanResult, Toolset, ToolError")
    assert "pydantic" in loaded
    assert "temporalio" not in loaded


def test_the_tree_of_errors_is_what_the_docstring_draws() -> None:
    """The errors' own page shows each class once, under the class it derives from."""
    drawn, path = dict[str, str](), list[str]()
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"([│ ]*[├└]── )?(\w+)\b", line)
        if match and match[2] in errors.__all__:
            depth = len(match[1] or "") // 4
            del path[depth:]
            drawn[match[2]] = path[-1] if path else "Exception"
            path.append(match[2])
    assert drawn == {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}
    assert errors.__all__ == sorted(errors.__all__)


def test_every_error_is_public() -> None:
    """Whatever Sojourn raises can be caught by a name of the package."""
    assert set(errors.__all__) <= set(sojourn.__all__)
