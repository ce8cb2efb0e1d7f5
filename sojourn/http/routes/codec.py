"""Decode and encode payloads for Temporal's UI and command line.

They send payloads and no word of the run that these belong to, so the service decides by the key: it opens what the key of the
principal's tenant has sealed, and gives back the rest as it came, which Temporal's tools show as encrypted.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import structlog
from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field
from temporalio.api.common.v1 import Payload

from sojourn.converter.codec import CodecFailedError, NoKeyError, codec_of_tenant, reason_of
from sojourn.http.bodies import JsonBody
from sojourn.http.problems import Problem
from sojourn.http.routes.parameters import Serving, problems
from sojourn.http.security import audit
from sojourn.http.security.principals import Asking, require

__all__ = ["routes"]

_log = structlog.get_logger("sojourn.http")

routes = APIRouter(prefix="/codec", tags=["codec"])

Base64Text = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/_-]*={0,2}$")]


class EncodedPayload(BaseModel):
    """A payload of Temporal, as JSON of its protocol buffer."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    metadata: dict[str, Base64Text] = Field(default_factory=dict[str, Base64Text])
    """Its encoding and more, each value in Base64."""
    data: Base64Text = ""
    """Its data in Base64."""

    @classmethod
    def of(cls, payload: Payload) -> "EncodedPayload":
        metadata = {name: b64encode(value).decode() for name, value in payload.metadata.items()}
        return cls(metadata=metadata, data=b64encode(payload.data).decode())

    def payload(self) -> Payload:
        metadata = {name: _bytes_of(value) for name, value in self.metadata.items()}
        return Payload(metadata=metadata, data=_bytes_of(self.data))


class EncodedPayloads(JsonBody):
    """Payloads, in order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "ImhpIg=="}]}]
        }
    )

    payloads: list[EncodedPayload] = Field(default_factory=list[EncodedPayload], max_length=10_000)
    """The payloads."""


def _bytes_of(text: str) -> bytes:
    try:
        return b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if {"-", "_"} & {*text} else None)
    except Base64Error as error:
        raise Problem(
            422, "invalid_request", "a payload is not Base64", then="Send payloads as Temporal's tools do."
        ) from error


@routes.post(
    "/decode",
    response_model=EncodedPayloads,
    responses=problems(400),
    summary="Decode payloads for Temporal's tools",
)
async def decode(body: EncodedPayloads, asking: Asking, service: Serving) -> Response:
    """Open the payloads that the key of your tenant has sealed. Any other one comes back as it was."""
    require(asking, "operator")
    given = [each.payload() for each in body.payloads]
    codec = codec_of_tenant(service.client.temporal.data_converter, asking.tenant)
    with _available():
        found = list(given) if codec is None else await codec.decode(given)
        if len(found) != len(given):
            raise CodecFailedError(f"the codec makes {len(found)} payloads of {len(given)}")
    opened = [before if reason_of(after) else after for before, after in zip(given, found, strict=True)]
    count = sum(before != after for before, after in zip(given, opened, strict=True))
    audit.bind(payloads=len(given), decoded=count)
    return _answer(opened)


@routes.post(
    "/encode",
    response_model=EncodedPayloads,
    responses=problems(400),
    summary="Encode payloads for Temporal's tools",
)
async def encode(body: EncodedPayloads, asking: Asking, service: Serving) -> Response:
    """Seal the payloads with the key of your tenant, for any of its runs."""
    require(asking, "operator")
    given = [each.payload() for each in body.payloads]
    codec = codec_of_tenant(service.client.temporal.data_converter, asking.tenant)
    audit.bind(payloads=len(given))
    with _available():
        sealed = given if codec is None else await codec.encode(given)
    return _answer(sealed)


@contextmanager
def _available() -> Generator[None]:
    try:
        yield
    except CodecFailedError as error:
        why = str(error) if isinstance(error, NoKeyError) else "the keys of this service cannot be used now"
        if not isinstance(error, NoKeyError):
            _log.warning("codec_unavailable", reason=str(error))  # it may name files of this machine
        raise Problem(
            503,
            "codec_unavailable",
            why,
            then="Ask the operator of the service, who finds the reason in its log, and try again.",
        ) from error


def _answer(payloads: list[Payload]) -> Response:
    found = EncodedPayloads.model_construct(payloads=[EncodedPayload.of(each) for each in payloads])
    return Response(found.model_dump_json(), media_type="application/json")
