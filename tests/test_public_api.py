"""The public API of the package: its names, what an import loads, and its errors."""

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import sojourn
from sojourn import errors

PUBLIC = {
    "answers": [
        "Answer",
        "Answered",
        "Decision",
        "DecisionResult",
        "Declined",
        "Disclosure",
        "Results",
        "StatusView",
        "WaitContext",
        "WaitRef",
        "WaitView",
        "decide_each",
        "disclose",
        "event_line",
        "open_waits",
        "parse_event",
        "status_view",
        "submit",
        "wait_view",
    ],
    "crypto": ["KeyRefusedError", "KeyRing", "KeyService", "SealingCodec"],
    "errors": errors.__all__,
    "events": ["Cursor", "EventHandler", "subscribe"],
    "flows": ["ToolReference", "approvals"],
    "mail": ["Mail"],
    "mcp": ["McpToolset"],
    "models": ["Compaction"],
    "network": [
        "format_network_error",
        "http_client",
        "network_faults",
        "timeouts_for",
        "with_network_retry",
    ],
    "policy": ["Caps", "PolicyDecision", "PolicyEngine", "PolicyInput"],
    "process": ["Completed", "run_process"],
    "repair": ["RepairedPayload", "RepairingPlanner", "repair_calls", "repair_payload", "wait_or_substitute"],
    "storage": ["FolderStorage", "StorageDriver"],
    "timeline": [
        "Attempt",
        "Call",
        "End",
        "EntryChange",
        "Note",
        "OpenWait",
        "Plan",
        "Timeline",
        "TimelineTree",
        "TokenUsage",
        "UserMessage",
        "UserTurn",
        "WaitEnd",
        "WaitEntry",
    ],
    "webhook": ["Webhook"],
}
"""The names for users that are in none of `LAZY`, by the module that exports them."""

LAZY = (
    sojourn,
    *(importlib.import_module(f"sojourn.{name}") for name in ("authoring", "client", "contracts")),
)
"""The packages that load a module when one of its names is first used."""


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_every_public_name_can_be_imported_and_no_other_is_listed(package) -> None:
    """`__all__` is sorted, has no repetitions, names only attributes that exist, and equals `dir(package)`."""
    assert package.__all__ == sorted(set(package.__all__))
    assert {name: hasattr(package, name) for name in package.__all__} == dict.fromkeys(package.__all__, True)
    assert dir(package) == package.__all__


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_a_name_comes_from_a_module_that_exports_it(package) -> None:
    """Each public name is in `__all__` of the module from which `__init__.pyi` imports it."""
    listed = dict[str, str]()
    for node in ast.parse(Path(package.__file__).with_suffix(".pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            listed |= {alias.name: f"{package.__name__}.{node.module}" for alias in node.names}
    assert sorted(listed) == package.__all__
    for name, module in listed.items():
        found = importlib.import_module(module)
        assert name in found.__all__, f"{module}.__all__ lacks {name}"
        assert getattr(package, name) is getattr(found, name)


def test_the_root_has_what_is_needed_daily() -> None:
    """The root has at most 60 names, and `sojourn.contracts`, `authoring` and `client` repeat none of them."""
    assert len(sojourn.__all__) <= 60
    assert [name for package in LAZY[1:] for name in package.__all__ if name in sojourn.__all__] == []


def public_names() -> dict[str, object]:
    """Return the public names with their values."""
    named = {package.__name__: package.__all__ for package in LAZY}
    named |= {f"sojourn.{module}": names for module, names in PUBLIC.items()}
    return {
        name: getattr(importlib.import_module(module), name)
        for module, names in named.items()
        for name in names
    }


def undocumented(name: str, found: object) -> list[str]:
    """Which of a public name, its methods and its properties have no docstring."""
    if inspect.isroutine(found):
        return [] if inspect.getdoc(found) else [name]
    if not inspect.isclass(found):
        return []
    members = [each for each in vars(found) if not each.startswith("_")]
    behaviour = [each for each in members if isinstance(vars(found)[each], BEHAVIOUR)]
    lacking = [each for each in behaviour if not inspect.getdoc(getattr(found, each))]
    return [name] * (not found.__doc__) + [f"{name}.{each}" for each in lacking]


BEHAVIOUR = (types.FunctionType, classmethod, staticmethod, property)


def test_public_names_have_docstrings() -> None:
    """Each public class and function has a docstring, and so have a class's public methods and properties."""
    assert [each for name, found in public_names().items() for each in undocumented(name, found)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name raises an AttributeError that names it."""
    with pytest.raises(AttributeError, match="No sojourn attribute Agnet"):
        getattr(sojourn, "Agnet")  # noqa: B009 - a plain attribute is no statement


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a new interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import sojourn` loads neither Temporal, pydantic, jsonschema nor asyncio, so the command line starts fast."""
    assert not loaded_by("import sojourn") & {
        "temporalio",
        "pydantic",
        "pydantic_core",
        "jsonschema",
        "asyncio",
    }


@pytest.mark.essential
@pytest.mark.usefixtures("processes")
def test_declaring_needs_no_temporal() -> None:
    """The names that declare toolsets, agents and apps are imported without loading the Temporal SDK."""
    loaded = loaded_by("from sojourn import Agent, App, Message, PlanResult, Toolset, ToolError")
    assert "pydantic" in loaded
    assert "temporalio" not in loaded


def test_the_tree_of_errors_is_what_the_docstring_draws() -> None:
    """The docstring of `sojourn.errors` shows each class once, under the class it derives from."""
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
