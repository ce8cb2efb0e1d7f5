"""Headers: a trace's context, as Temporal's SDKs of all languages pass it on.

Only the place in the trace goes along (W3C Trace Context), no baggage: a header of a workflow or an
activity is written into the history.
"""

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadConverter

__all__ = ["context_in", "with_context"]

_HEADER = "_tracer-data"
_W3C = TraceContextTextMapPropagator()


def with_context(headers: Mapping[str, Payload], context: Context | None) -> Mapping[str, Payload]:
    """The headers, with this context, or the current one, when it is in a trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return {**headers, _HEADER: PayloadConverter.default.to_payload(carrier)} if carrier else headers


def context_in(headers: Mapping[str, Payload]) -> Context:
    """The context that came along; an empty one when none did, or one that cannot be read."""
    payload = headers.get(_HEADER)
    if payload is None:
        return Context()
    try:
        carrier: Any = PayloadConverter.default.from_payload(payload)
    except Exception:  # noqa: BLE001 - anybody may have started the run; a trace is no reason to fail it
        return Context()
    if not isinstance(carrier, dict):
        return Context()
    texts = {key: value for key, value in carrier.items() if isinstance(value, str)}  # pyright: ignore[reportUnknownVariableType]
    return _W3C.extract(texts, Context())  # pyright: ignore[reportUnknownArgumentType]
