"""Read a run's message, labels and policy from arguments, files or standard input."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain
from sojourn.values.json_text import loads

if TYPE_CHECKING:
    from sojourn.contracts.run_policy import RunPolicyOverride

__all__ = ["MAX_READ", "read_labels", "read_policy", "read_text"]

MAX_READ = 1_000_000
"""Most bytes that are read from a file or from standard input; a run's opening has at most as many."""


def read_text(given: str) -> str:
    """Return the message, which is read from standard input if `given` is `-`.

    Its trailing line breaks are then removed.

    Raises:
        CommandError: Standard input is empty, too long or not UTF-8.
    """
    if given != "-":
        return given
    text = _read(Path("-")).rstrip("\r\n")
    if not text.strip():
        raise CommandError(
            "standard input is empty; the message to the agent is read from it", exit_code=USAGE
        )
    return text


def read_labels(pairs: Sequence[str]) -> dict[str, str]:
    """Return labels from `NAME=VALUE`.

    Raises:
        CommandError: A pair has no name or no `=`, or a name is given twice.
    """
    labels: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(f"--label {plain(pair)!r} is not NAME=VALUE", exit_code=USAGE)
        if name in labels:
            raise CommandError(f"--label {plain(name)!r} is given twice", exit_code=USAGE)
        labels[name] = value
    return labels


def read_policy(path: Path) -> "RunPolicyOverride":
    """Return the limits in a JSON file, or in standard input if the path is `-`.

    Raises:
        CommandError: The file cannot be read, is no JSON object, or a field is unknown or has an invalid value.
    """
    from pydantic import ValidationError

    from sojourn.contracts.run_policy import RunPolicyOverride

    place = "standard input" if str(path) == "-" else plain(str(path))
    try:
        value = loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{place} is not JSON: {plain(str(error))}", exit_code=USAGE) from error
    if not isinstance(value, dict):
        raise CommandError(
            f'{place} is no JSON object of limits, such as {{"max_tool_calls": 5}}', exit_code=USAGE
        )
    try:
        return RunPolicyOverride.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = plain(".".join(map(str, first["loc"])))
        if first["type"] == "extra_forbidden":
            known = ", ".join(RunPolicyOverride.model_fields)
            raise CommandError(
                f"{place}: {field} is no limit of a run; the limits are {known}", exit_code=USAGE
            ) from error
        raise CommandError(f"{place}: {field}: {plain(first['msg'])}", exit_code=USAGE) from error


def _read(path: Path) -> str:
    place = "standard input" if str(path) == "-" else plain(str(path))
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_READ + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_READ + 1)
    except OSError as error:
        raise CommandError(f"cannot read {place}: {error.strerror or error}", exit_code=USAGE) from error
    if len(data) > MAX_READ:
        raise CommandError(f"{place} has more than {MAX_READ:,} bytes", exit_code=USAGE)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{place} is not text in UTF-8", exit_code=USAGE) from error
