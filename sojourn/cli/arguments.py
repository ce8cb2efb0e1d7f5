"""Parse messages, labels, policies, periods and names that a user types."""

import codecs
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain
from sojourn.values.json_text import loads

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.client.session import Session
    from sojourn.contracts.principal import Principal
    from sojourn.contracts.run_policy import RunPolicyOverride

__all__ = [
    "MAX_READ",
    "answerer",
    "decode",
    "find_last_message",
    "parse_agent",
    "parse_conversation",
    "parse_duration",
    "parse_principal",
    "parse_since",
    "read_file",
    "read_labels",
    "read_lines",
    "read_policy",
    "read_text",
    "role_note",
]


MAX_READ = 1_000_000
"""Most bytes that are read from a file or from standard input; a run's opening has at most as many."""


def read_text(given: str) -> str:
    """Return the text, from standard input if `given` is `-`."""
    if given != "-":
        return given
    text = read_file("-").rstrip("\n")
    if not text.strip():
        raise CommandError("standard input is empty; the text is read from it", exit_code=USAGE)
    return text


def read_labels(pairs: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise CommandError(f"--label {plain(pair)!r} is not NAME=VALUE", exit_code=USAGE)
        if name in labels:
            raise CommandError(f"--label {plain(name)!r} is given twice", exit_code=USAGE)
        labels[name] = value
    return labels


def read_policy(path: str) -> "RunPolicyOverride":
    """Return the limits in a JSON file, or in standard input if the path is `-`."""
    from pydantic import ValidationError

    from sojourn.contracts.run_policy import RunPolicyOverride

    place = _place(path)
    try:
        value = loads(read_file(path))
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


def read_file(path: str, *, limit: int = MAX_READ) -> str:
    """Return the text of a file, or of standard input if the path is `-`."""
    place = _place(path)
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        raise CommandError(f"cannot read {place}: {error.strerror or error}", exit_code=USAGE) from error
    if len(data) > limit:
        raise CommandError(f"{place} has more than {limit:,} bytes", exit_code=USAGE)
    return decode(data, place)


def read_lines(path: str) -> list[tuple[int, str]]:
    """Return the lines of a file, or of standard input, each with its number.

    Blank lines are left out. Only a line feed ends a line, since a text in JSON may have Unicode's other line ends as they are.
    """
    lines = enumerate(read_file(path).split("\n"), 1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def _place(path: str) -> str:
    return "standard input" if path == "-" else plain(path)


def decode(data: bytes, place: str, *, line: int = 1) -> str:
    r"""Decode UTF-8, without a byte order mark, and with `\n` at the end of each line.

    Other encodings are refused: a guess could send something else than what was written. `line` is the number of
    the first line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise _wrong_encoding(place, "it begins as UTF-16", "UTF-16") from error
        line += data.count(b"\n", 0, error.start)
        fault = f"byte 0x{data[error.start]:02x} in line {line}"
        raise _wrong_encoding(place, fault, "WINDOWS-1252") from error
    if "\0" in text:
        raise _wrong_encoding(place, "it has zero bytes, as UTF-16 has", "UTF-16LE")
    return text.replace("\r\n", "\n")


def _wrong_encoding(place: str, fault: str, source: str) -> CommandError:
    return CommandError(
        f"{place} is not text in UTF-8 ({fault}); save it as UTF-8, or convert it, such as with "
        f"`iconv -f {source} -t UTF-8`",
        exit_code=USAGE,
    )


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_duration(text: str) -> timedelta:
    """Return the duration that a number and a unit name: `30m`, `2h` or `7d`."""
    try:
        found = _duration_in(text)
    except OverflowError as error:
        raise CommandError(f"{plain(text)!r} is too long", exit_code=USAGE) from error
    if found is None:
        raise CommandError(f"{plain(text)!r} is no duration; use such as 30m, 2h or 7d", exit_code=USAGE)
    return found


def parse_since(text: str, *, now: datetime | None = None) -> datetime:
    """Return the moment that `2h`, `7d`, or an ISO date or time here names."""
    try:
        if (ago := _duration_in(text)) is not None:
            return _check(text, (now or datetime.now(UTC)) - ago)
    except OverflowError as error:
        raise _fault(text) from error
    try:
        return _check(text, datetime.fromisoformat(text.strip()).astimezone(UTC))
    except (ValueError, OverflowError, OSError) as error:
        raise _fault(text) from error


def _duration_in(text: str) -> timedelta | None:
    match = re.fullmatch(r"(\d{1,9})\s*([smhdw])", text.strip().lower(), re.ASCII)
    return timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None


def _check(text: str, moment: datetime) -> datetime:
    if moment.year < 1970:
        raise _fault(text)
    return moment


def _fault(text: str) -> CommandError:
    return CommandError(
        f"{plain(text)!r} is no period; use such as 30m, 2h or 7d, or a date such as 2026-03-02",
        exit_code=USAGE,
    )


def parse_agent(name: str, who: str | None) -> "tuple[str, Principal | None]":
    """Return the agent of `AGENT` or `AGENT:TENANT`, and the principal of its runs."""
    found = _read_agent(name, who)
    if found is None:
        raise CommandError(
            f"{plain(name)!r} names no agent: AGENT, such as shop.clerk; of a tenant AGENT:TENANT",
            exit_code=USAGE,
        )
    return found


def _read_agent(name: str, who: str | None) -> "tuple[str, Principal | None] | None":
    from sojourn.contracts.principal import Principal

    agent_id, colon, tenant = name.partition(":")
    if not agent_id or bool(colon) != bool(tenant):
        return None
    return agent_id, Principal(subject=who or "sojourn", tenant=tenant) if tenant else None


def parse_conversation(name: str, who: str | None) -> "Callable[[Client], Session]":
    """Return a function that finds the conversation `AGENT@SESSION` with a client.

    If a tenant's conversation does not exist yet, it is started for `who`.
    """
    from sojourn.client.conversation_id import is_session_digest

    first, at, session_id = name.partition("@")
    found = _read_agent(first, who)
    if not (found and at and session_id):
        raise CommandError(
            f"{plain(name)!r} names no conversation: AGENT@SESSION, such as shop.clerk@desk-1; "
            "of a tenant AGENT:TENANT@SESSION",
            exit_code=USAGE,
        )
    agent_id, principal = found
    if principal and "+" in principal.tenant:
        raise CommandError(
            f"the tenant of {plain(name)} is not in its name; a program can send to it: client.session(principal=...)",
            exit_code=USAGE,
        )
    if is_session_digest(session_id):
        raise CommandError(
            f"the session of {plain(name)} is not in its name; a program can send to it: client.session(AGENT, SESSION)",
            exit_code=USAGE,
        )
    return lambda client: client.session(agent_id, session_id, principal=principal)


async def find_last_message(session: "Session", who: str | None) -> tuple[str, int]:
    """Return the id of the user's last message, and the number of branchings."""
    from sojourn.client.session import last_message

    timeline = await session.timeline()
    if message_id := last_message(timeline, who):
        return message_id, timeline.branches
    run_id = session.run.id
    why = (
        f"messages of {run_id} wait for a turn, so it is not clear which one is meant"
        if timeline.queued
        else f"no message of yours alone makes the last turn of {run_id}"
    )
    raise CommandError(
        f"{why}; `sojourn send … TEXT --edit ID` names the one to replace, and `show -v` has their ids",
        run_id=run_id,
    )


def parse_principal(
    subject: str | None, roles: list[str] | None = None, tenant: str | None = None
) -> "Principal | None":
    """Return the principal that the options name, or None without `--as`."""
    from sojourn.contracts.principal import Principal, principal_fault

    if subject is None:
        if roles or tenant is not None:
            raise CommandError("--role and --tenant say more of --as SUBJECT; give that too", exit_code=USAGE)
        return None
    principal = Principal(subject=subject, tenant=tenant or "", roles=roles or [])
    if fault := principal_fault(principal):
        raise CommandError(f"--as: {fault}", exit_code=USAGE)
    return principal


def role_note(role: str) -> str:
    """Return a note about a role that is none of the service's own."""
    return f"the role {plain(role)} opens no part of the service; tools, policies and lists of approvers may name it"


async def answerer(client: "Client", run_id: str, named: "Principal | None") -> "Principal | None":
    """Return the principal that answers, in the run's own tenant."""
    if named is None:
        return None
    status = await client.get_run(run_id).status()
    acts_for = status.acts_for or status.principal
    return named.model_copy(update={"tenant": acts_for.tenant}) if acts_for else named
