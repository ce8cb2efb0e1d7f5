"""Injection: fill fields that callers must not choose, run the interceptors, and mask the values again."""

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from sojourn.authoring.interceptor import Interceptor
from sojourn.authoring.runnable import Filler
from sojourn.authoring.tool import injecting
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.core.payload import hints
from sojourn.core.payload.masking import Mask, mask_for
from sojourn.core.values.json_text import is_object
from sojourn.errors import ToolFailed

__all__ = ["Injection"]

_PUBLIC_IDS = {"run_id", "session_id", "turn_id", "tool_call_id"}
"""Ids that every event contains, and that are therefore no secrets."""


_log = structlog.get_logger("sojourn.tool")


class Injection:
    """The injected fields of one call, and the masks of their values.

    Args:
        fillers: The tool's injected fields, each with its filler, if it has one.
        interceptors: Run in order, after the fillers.
    """

    def __init__(self, fillers: Mapping[str, Filler | None], interceptors: Sequence[Interceptor]) -> None:
        self._fillers = fillers
        self._interceptors = interceptors
        self._secrets: dict[str, list[Any]] = {}
        self._marked: Mapping[str, Any] = {}
        self.mask: Mask | None = None
        """Masks the injected values."""
        self.whole: Mask | None = None
        """Masks the payload's own secrets too; one mask, so that of two overlapping secrets the longer is replaced first."""

    def mark(self, secrets: Mapping[str, Any]) -> None:
        """Mask the values of fields that the payload's schema marks as secret, too."""
        self._marked = secrets
        self.whole = mask_for(secrets)

    async def prepare(self, call: ToolRequest, meta: ToolCallMeta) -> ToolRequest:
        """The call with its fields filled; exceptions of a filler or an interceptor pass through.

        The model's text stays in `raw` only while the interceptors leave the arguments as they are.

        Args:
            call: The call, with its arguments parsed.
            meta: The run, turn and agent of the call.

        Raises:
            ToolFailed: An interceptor returned something else than this call.
        """
        for name, fill in self._fillers.items():
            if fill is not None:
                value: Any = fill(meta)
                if inspect.isawaitable(value):
                    value = await value
                call = self._hiding(call.model_copy(update={"payload": {**call.payload, name: value}}))
        if not self._interceptors:
            return call
        before = None if call.raw is None else copy.deepcopy(call.payload)  # one may change them in place
        token = injecting.set(self._hide)
        try:
            for interceptor in self._interceptors:
                call = self._hiding(await _intercepted(interceptor, meta, call))
        finally:
            injecting.reset(token)
        return call if call.payload == before else call.model_copy(update={"raw": None})

    def _hiding(self, call: ToolRequest) -> ToolRequest:
        self._hide({name: call.payload[name] for name in self._fillers if name in call.payload})
        return call

    def _hide(self, values: Mapping[str, Any]) -> None:
        """Mask these values too; a value that a later interceptor replaced stays masked."""
        for name, value in values.items():
            known = self._secrets.setdefault(name, [])
            if name not in _PUBLIC_IDS and value not in known:
                known.append(value)
        self.mask = mask_for(self._secrets)
        self.whole = mask_for({**self._marked, **self._secrets}) if self._marked else self.mask


async def _intercepted(interceptor: Interceptor, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
    made: Any = interceptor.intercept_tool_call(meta, call)
    if inspect.isawaitable(made):
        made = await made
    is_call = isinstance(made, ToolRequest) and is_object(made.payload)  # `model_copy` does not validate
    gave = "another call" if isinstance(made, ToolRequest) else type(made).__name__
    if is_call and made.raw is not None and (made.raw != call.raw or not made.is_parsed):
        gave = "a text in place of arguments"  # which the interceptors after it would not see
    elif is_call and (made.name, made.tool_call_id) == (call.name, call.tool_call_id):
        return made
    _log.error(
        "interceptor_gave_no_call",
        interceptor=type(interceptor).__qualname__,
        tool=call.name,
        run_id=meta.run_id,
        gave=gave,
        mend="return the call it was given, or call.model_copy(update={'payload': ...}) of it",
    )
    error, hint = hints.unavailable(call.name, "it could not be prepared; this is logged for its operator")
    raise ToolFailed(error.message, hint=hint)
