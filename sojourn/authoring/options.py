"""Refuse arguments that a declaration does not take, and read who may approve.

Python's own `TypeError` names a function, not the agent or the tool, and a misspelt option in `**options`
would be no error at all. A text in place of a list would be read letter by letter, and `destructive="yes"`
as True.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, cast

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import suggestion
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import Retry
from sojourn.errors import DefinitionError
from sojourn.values.text import plain

__all__ = [
    "APPROVERS",
    "DURATION",
    "FLAG",
    "MAPPING",
    "POLICY",
    "RETRY",
    "ROLES",
    "TEXT",
    "TEXTS",
    "VISIBILITY",
    "ApproverCheck",
    "Approvers",
    "Kind",
    "approver_fields",
    "check_in",
    "check_kinds",
    "declares",
    "is_async",
    "list_of",
    "refuse_unknown",
    "show_value",
    "takes_options",
]

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

_MAX_SHOWN = 60

_PLAIN = (str, int, float, timedelta, type(None))


@dataclass(frozen=True, slots=True)
class Kind:
    words: str
    fits: Callable[[Any], bool]
    instead: Callable[[Any], str | None] = lambda _: None
    is_secret: bool = False
    """Whether a value may hold a secret. Messages then name only its class."""


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _is_texts(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, str) for each in value)


def show_value(value: Any) -> str:
    """Return a value as code, shortened.

    A function or a class becomes its name, any other object its class.
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    if isinstance(value, _PLAIN):
        return plain(repr(value), _MAX_SHOWN)
    if isinstance(value, (list, tuple, dict, set)):
        held = cast("list[object]", list(value.values() if isinstance(value, dict) else value))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        kind = type(cast("object", value)).__name__
        is_plain = all(isinstance(each, _PLAIN) for each in held)
        return plain(repr(cast("object", value)), _MAX_SHOWN) if is_plain else f"a {kind}"
    return f"an object of class {type(value).__name__}"


def _seconds(value: Any) -> str | None:
    return f"timedelta(seconds={value})" if type(value) in (int, float) else None


def _policy(value: Any) -> str | None:
    fields = cast("dict[object, object]", value) if isinstance(value, dict) else {}
    given = ", ".join(f"{name}={show_value(item)}" for name, item in fields.items())
    return f"RunPolicy({given})" if given else None


TEXT = Kind("a text", lambda value: isinstance(value, str))
FLAG = Kind("True or False", lambda value: isinstance(value, bool))
VISIBILITY = Kind('"tenant" or "subject"', lambda value: value in ("tenant", "subject"))
DURATION = Kind("a timedelta", lambda value: isinstance(value, timedelta), _seconds)
TEXTS = Kind("a list of texts", _is_texts, lambda value: f"[{value!r}]" if isinstance(value, str) else None)
RETRY = Kind(
    "a Retry",
    lambda value: isinstance(value, Retry),
    lambda value: f"Retry(max_attempts={value})" if type(value) is int else None,
)
POLICY = Kind("a RunPolicy", lambda value: isinstance(value, RunPolicy), _policy)
MAPPING = Kind("a mapping", lambda value: isinstance(value, Mapping))


def is_async(value: Any) -> bool:
    return inspect.iscoroutinefunction(value) or (
        not isinstance(value, type) and inspect.iscoroutinefunction(getattr(value, "__call__", None))  # noqa: B004 - its kind
    )


def list_of(noun: str, *, also: Callable[[Any], bool] = lambda _: False) -> Kind:
    """Return the kind of a list of things, whose items the declaration checks."""

    def instead(value: Any) -> str | None:
        return None if value is None or isinstance(value, (str, int, float)) else "[...]"

    return Kind(f"a list of {noun}", lambda value: _is_list(value) or also(value), instead)


def check_kinds(place: str, options: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Reject a value of another kind than its option's. None counts as absent."""
    for name, value in options.items():
        kind = kinds.get(name)
        if kind and value is not None and not kind.fits(value):
            instead = kind.instead(value)
            mend = f"; write {name}={instead}" if instead else ""
            text = f"an object of class {type(value).__name__}" if kind.is_secret else show_value(value)
            raise DefinitionError(f"{place}: {name} is {kind.words}, not {text}{mend}")


def refuse_unknown(
    place: str, names: Iterable[str], known: Sequence[str], mends: Mapping[str, str] | None = None
) -> None:
    """Reject the first name that is not an option, with the closest one."""
    for name in names:
        if name not in known:
            close = suggestion(name, known) or f"; the options are {', '.join(known)}"
            mend = f"; write {mends[name]}" if mends and name in mends else close
            raise DefinitionError(f"{place}: there is no option {name!r}{mend}")


def takes_options(
    place: Callable[[Mapping[str, Any]], str],
    *,
    more: Iterable[str] = (),
    mends: Mapping[str, str] | None = None,
    **kinds: Kind,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function check its options.

    Unknown, missing and wrong options become a `DefinitionError` of its place.

    Args:
        place: Returns the place of the declaration, from the arguments by name.
        more: The names that `**options` of the function takes.
        mends: The code to write instead of an unknown or a missing option, by its name.
        **kinds: The kinds of the options that are checked here.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = list(inspect.signature(function).parameters.values())
        unnamed = [
            each.name
            for each in parameters
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        named = [
            each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        ]
        known = [*(name for name in named if name != "self"), *more]
        takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        required = [
            each.name for each in parameters if each.default is each.empty and each.name in {*unnamed, *named}
        ]

        @functools.wraps(function)
        def check_options(*args: P.args, **options: P.kwargs) -> R:
            given = {**dict(zip(unnamed, args, strict=False)), **options}
            where = place(given)
            refuse_unknown(where, options, known, mends)
            if len(args) > len(unnamed) and not takes_any:
                name = next((each for each in named if each not in unnamed), "NAME")
                raise DefinitionError(
                    f"{where}: {show_value(args[len(unnamed)])} has no name; write {name}=..."
                )
            if missing := next((name for name in required if name not in given), None):
                mend = mends.get(missing, f"{missing}=...") if mends else f"{missing}=..."
                raise DefinitionError(f"{where}: {missing} is missing; write {mend}")
            check_kinds(where, given, kinds)
            return function(*args, **options)

        return check_options

    return decorate


def declares(noun: str, *, mends: Mapping[str, str] | None = None, **kinds: Kind) -> Callable[[C], C]:
    """Make a class check its options, as `takes_options` does for a function."""

    def place(given: Mapping[str, Any]) -> str:
        name = given.get("id", given.get("name"))
        return f"{noun} {name}" if isinstance(name, str) else noun

    def decorate(kind: C) -> C:
        kind.__init__ = takes_options(place, mends=mends, **kinds)(kind.__init__)  # type: ignore[misc]
        return kind

    return decorate


ApproverCheck = Callable[[Principal, ToolRequest, AwaitConfirmation], bool | Awaitable[bool]]
"""A function, sync or async, of principal, call and wait, called once for each decision."""

Approvers = Sequence[str] | ApproverCheck
MAX_ROLES = 50
MAX_ROLE_CHARS = 100


def _is_roles(value: Any) -> bool:
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        return False
    roles = list(cast("Iterable[object]", value))
    return 0 < len(roles) <= MAX_ROLES and all(_is_role(role) for role in roles)


def _is_role(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_ROLE_CHARS and value.isprintable()


def _instead(value: Any) -> str | None:
    return f"[{value!r}]" if isinstance(value, str) else None


ROLES = Kind("a list of roles", _is_roles, _instead)

APPROVERS = Kind(
    "a list of roles, or a function of a principal, a call and a wait",
    lambda value: callable(value) or _is_roles(value),
    _instead,
)


def approver_fields(approvers: Approvers | None, *, four_eyes: bool) -> dict[str, Any]:
    """Return the fields of a `ToolSpec` that say who may decide."""
    fields: dict[str, Any] = {"four_eyes": True} if four_eyes else {}
    if callable(approvers):
        fields["approver_check"] = getattr(approvers, "__name__", type(approvers).__name__)
    elif approvers:
        fields["approvers"] = list(dict.fromkeys(approvers))
    return fields


def check_in(approvers: Approvers | None) -> ApproverCheck | None:
    """Return the function of the option, or None if it has roles, or nothing."""
    return approvers if callable(approvers) else None
