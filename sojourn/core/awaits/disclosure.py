"""Show a person a payload as text, and the commands, before a decision."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from sojourn.contracts.attachment import file_name, media_type_of
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.taint import Taint, TaintSource
from sojourn.contracts.wire_names import APPROVAL
from sojourn.core.payload.masking import HIDDEN
from sojourn.values.text import count_noun
from sojourn.values.visible import describe_mixed_scripts, fence, visible

__all__ = [
    "Disclosure",
    "describe_expiry",
    "describe_file",
    "describe_files",
    "describe_sources",
    "describe_taint",
    "disclose",
    "disclose_changes",
    "fence_query",
    "fence_signal",
    "indent_lines",
    "join_lines",
    "signal_line",
]

MAX_FIELDS = 30

MAX_TEXT = 200
"""Most characters of one value or name on a screen."""

MAX_DEPTH = 8

MAX_SOURCES = 3
"""Most sources of text from outside that a sentence names."""

_TAIL = 60
"""Characters of a shortened text that come from its end."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A payload as lines of text that are all safe to print."""

    lines: tuple[str, ...]
    """One line per field: `lines[0].sku = "a-1"`."""
    is_whole: bool


def disclose(payload: Mapping[str, Any], *, whole: bool = False) -> Disclosure:
    """Turn a payload into lines."""
    if not payload:
        return Disclosure(("no arguments",), is_whole=True)
    if whole:
        return Disclosure(tuple(_line(path, value) for path, value in _leaves(payload)), is_whole=True)
    leaves = list(islice(_leaves(payload), MAX_FIELDS + 1))
    if len(leaves) > MAX_FIELDS:
        return Disclosure(tuple(_shares(payload)), is_whole=False)
    return Disclosure(
        tuple(_short_line(path, value) for path, value in leaves),
        is_whole=not any(_is_long(path, value) for path, value in leaves),
    )


def disclose_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how arguments were changed, one line for each value: `to: "a@x" → "b@x"`."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    paths = [path for path in dict.fromkeys([*old, *new]) if path]
    changed = [
        path
        for path in paths
        if path not in old or path not in new or _literal(old[path]) != _literal(new[path])
    ]
    lines = [
        f"{_path(_short_path(path))}: {_part(old, path)} → {_part(new, path)}"
        for path in changed[:MAX_FIELDS]
    ]
    more = len(changed) - MAX_FIELDS
    return (*lines, f"… {count_noun(more, 'more change')}") if more > 0 else tuple(lines)


def _part(values: Mapping[_Path, Any], path: _Path) -> str:
    return _short_line((), values[path]).removeprefix(" = ") if path in values else "nothing"


def _leaves(value: Any, path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    if value and isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, Any]", value).items():
            yield from _leaves(inner, (*path, name))
    elif value and isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def _shares(payload: Mapping[str, Any]) -> Iterator[str]:
    # Each top-level field gets some lines, so that none hides the others.
    names = list(payload)
    first = names if len(names) <= MAX_FIELDS else names[: 2 * MAX_FIELDS // 3]
    last = names[len(first) :][-MAX_FIELDS // 3 :]
    share = max(1, MAX_FIELDS // (len(first) + len(last)))
    for name in first:
        yield from _share(name, payload[name], share)
    if last:
        yield f"… {count_noun(len(names) - len(first) - len(last), 'field')} left out …"
    for name in last:
        yield from _share(name, payload[name], share)


def _share(name: str, value: Any, share: int) -> Iterator[str]:
    leaves = list(islice(_leaves(value, (name,)), share + 1))
    inner: Sequence[Any] | Mapping[str, Any] = value
    yield from (_short_line(path, leaf) for path, leaf in leaves[:share])
    if len(leaves) > share:
        kind = "fields" if isinstance(value, Mapping) else "items"
        yield f"{_path(_short_path((name,)))} … more of its {len(inner):,} {kind} left out …"


def _line(path: _Path, value: Any) -> str:
    return f"{_path(path)} = {_literal(value)}{_marks(path, value)}"


def _short_line(path: _Path, value: Any) -> str:
    if not _is_long(path, value):
        return _line(path, value)
    if not isinstance(value, str):
        return f"{_path(_short_path(path))} = {_literal(value)}{_marks(_short_path(path))}"
    head, tail = _ends(value)
    shown = f"{_literal(head)}{_count_omitted(value)}{_literal(tail)}" if tail else _literal(head)
    return f"{_path(_short_path(path))} = {shown}{_marks(_short_path(path), head, tail)}"


def _is_long(path: _Path, value: Any) -> bool:
    return _short_path(path) != path or (isinstance(value, str) and len(value) > MAX_TEXT)


def _ends(text: str) -> tuple[str, str]:
    return (text, "") if len(text) <= MAX_TEXT else (text[: MAX_TEXT - _TAIL], text[-_TAIL:])


def _count_omitted(text: str) -> str:
    return f" … {count_noun(len(text) - MAX_TEXT, 'character')} left out … "


def _short_path(path: _Path) -> _Path:
    steps = tuple(_short_name(step) if isinstance(step, str) else step for step in path)
    if len(steps) <= MAX_DEPTH:
        return steps
    return (*steps[: MAX_DEPTH // 2], "…", *steps[-MAX_DEPTH // 2 :])


def _short_name(name: str) -> str:
    head, tail = _ends(name)
    return f"{head}{_count_omitted(name)}{tail}" if tail else name


def _path(path: _Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{_literal(step)}]"
    return text


def _literal(value: Any) -> str:
    if value is HIDDEN:
        return repr(value)
    try:
        return visible(json.dumps(value, ensure_ascii=False, default=str))
    except ValueError:  # an integer with more digits than Python formats
        return hex(value)


def _marks(path: _Path, *values: Any) -> str:
    texts = [part for part in (*path, *values) if isinstance(part, str)]
    warnings = "; ".join(
        dict.fromkeys(warning for text in texts if (warning := describe_mixed_scripts(text)))
    )
    return f"  (! {warnings})" if warnings else ""


def fence_signal(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """Return the signal command, fenced for Markdown.

    No command is shown for a run id that a screen would alter.
    """
    if visible(run_id) != run_id:
        return f"Answer by the signal `{name}`; no command can be shown for this run's id."
    return fence(signal_line(run_id, name, answer))


def signal_line(run_id: str, name: str, answer: dict[str, Any]) -> str:
    """Return the `temporal` command that sends an answer."""
    return (
        f"temporal workflow signal --workflow-id {shlex.quote(run_id)} "
        f"--name {name} --input {shlex.quote(json.dumps(answer))}"
    )


def fence_query(run_id: str, await_id: str) -> str:
    """Return the command that queries a call in full, fenced for Markdown."""
    if visible(run_id) != run_id:
        return "The query `approval`; no command can be shown for this run's id."
    name = shlex.quote(json.dumps(await_id))
    return fence(
        f"temporal workflow query --workflow-id {shlex.quote(run_id)} --type {APPROVAL} --input {name}"
    )


def describe_file(file_id: str, name: str, media_type: str, size: int) -> str:
    """Describe a file in a line, with every character visible.

    A name has no quotation marks.
    """
    return visible(f'{file_id}: "{file_name(name)}" ({media_type_of(media_type)}, {size:,} bytes)')


def describe_files(wait: AwaitConfirmation, *, whole: bool = True) -> list[str]:
    """Return a line for each file that the arguments of a call name by its id.

    Unless `whole`, they are those of the first 30 files.
    """
    shown = wait.attachments if whole else wait.attachments[:MAX_FIELDS]
    lines = [describe_file(file.id, file.name, file.media_type, file.size) for file in shown]
    more = len(wait.attachments) - len(shown)
    return [*lines, f"… {count_noun(more, 'more file')}"] if more else lines


def indent_lines(seen: Disclosure) -> list[str]:
    return [f"  {line}" for line in seen.lines]


def describe_expiry(wait: Await) -> str:
    """Describe when a wait expires, as a sentence.

    Empty if the wait does not expire.
    """
    return f"Expires {wait.expires_after} after it was asked." if wait.expires_after else ""


def join_lines(texts: Iterable[str]) -> str:
    """Return the texts joined by line breaks, without empty ones."""
    return "\n".join(line for line in texts if line)


def describe_sources(taint: Taint) -> str:
    """Name the newest sources of text from outside that count, each with its call."""
    named = [_describe_source(source) for source in taint.active_sources[-MAX_SOURCES:]]
    more = taint.count - taint.lifted - len(named)
    last = f"{more} more" if more > 0 else named.pop() if named else "nothing"
    return " and ".join(filter(None, (", ".join(named), last)))


def describe_taint(taint: Taint) -> str:
    """Return the sentence that an approver reads about text from outside."""
    return f"The run has read text from outside: {describe_sources(taint)}."


def _describe_source(source: TaintSource) -> str:
    if not source.tool:
        return f"the file {visible(source.source)}"
    where = [f"call {visible(source.tool_call_id)}"]
    where += [f"run {visible(source.run_id)}"] if source.run_id else []
    where += [visible(source.source)] if source.source else []
    where += [f"{source.at:%H:%M} UTC"] if source.at else []
    return f"{visible(source.tool)} ({', '.join(where)})"
