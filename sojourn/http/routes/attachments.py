"""Upload files, take forms with files in place of JSON, and download files."""

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, cast

from fastapi import APIRouter, Path, Request, Response
from starlette.datastructures import Headers

from sojourn.attachments import Upload
from sojourn.contracts.principal import Principal
from sojourn.http.files import download, read_files, store_upload
from sojourn.http.problems import Problem
from sojourn.http.replies import Uploaded, Uploads
from sojourn.http.routes.parameters import KnownQueryRoute, RunId, Serving, json_of, problems
from sojourn.http.security.principals import Asking, principal_of, require
from sojourn.http.security.requests import is_multipart
from sojourn.http.service import Service
from sojourn.values.json_text import DuplicateNameError, loads, name_given_twice

__all__ = ["FORM", "FilesRoute", "downloads", "routes"]

BODY, FILES = "body", "attachments"
"""Field of a form with the JSON that the path takes without files."""

FORM: dict[str, Any] = {
    "requestBody": {
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        BODY: {
                            "type": "string",
                            "description": "The JSON of `application/json`. Its text fields may be fields of the form too.",
                        },
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}},
                    },
                }
            }
        }
    }
}
"""The form with files, for the OpenAPI document."""


async def _read_form(
    request: Request, service: Service, asking: Principal
) -> tuple[list[tuple[str, str]], list[Upload]]:
    """Return the fields of a form, and its files, stored as uploads of the principal."""
    fields, files = await read_files(request, service.app.attachment_limits)
    try:
        return fields, [await store_upload(service, asking, file) for file in files]
    finally:
        for file in files:
            await file.close()


class FilesRoute(KnownQueryRoute):
    """Take a form with files in place of JSON.

    Its files become uploads, which the JSON names.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that reads a form first."""
        handle = super().get_route_handler()

        async def with_files(request: Request) -> Response:
            if self.methods != {"POST"} or not is_multipart(request.scope):
                return await handle(request)
            asking = principal_of(request.scope)
            if asking is None:
                return await handle(request)
            require(asking, "user")
            service: Service = request.app.state.service
            await service.open()
            fields, uploads = await _read_form(request, service, asking)
            return await handle(_as_json(request, _body_of(fields, uploads)))

        return with_files


def _body_of(fields: list[tuple[str, str]], uploads: list[Upload]) -> bytes:
    """Return the JSON that a form stands for, by the rules of a JSON body.

    Raises:
        Problem: The field `body` is no object of JSON, a name is given twice, or `attachments` is no list of references.
    """
    made: dict[str, Any] = {}
    named = [value for name, value in fields if name == FILES]
    for name, value in fields:
        if name == FILES:
            continue
        given = _object_of(value) if name == BODY else {name: value}
        if twice := next((each for each in given if each in made), None):
            raise Problem(400, "duplicate_name", name_given_twice(twice), then="Send each name once.")
        made |= given
    listed: Any = made.pop(FILES, [])
    if not isinstance(listed, list):
        raise Problem(422, "invalid_request", f"`{FILES}` is no list of references", then="Send a list.")
    if files := [*cast("list[Any]", listed), *named, *(each.reference for each in uploads)]:
        made[FILES] = files
    return json.dumps(made).encode()


def _object_of(text: str) -> dict[str, Any]:
    try:
        body = loads(text)
    except DuplicateNameError as error:
        raise Problem(400, "duplicate_name", str(error), then="Send each name once.") from error
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad_request", "the field `body` is not JSON", then="Send JSON.") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad_request", "the field `body` is no object", then="Send a JSON object.")
    return cast("dict[str, Any]", body)


def _as_json(request: Request, body: bytes) -> Request:
    changed = Headers(
        {**request.headers, "content-type": "application/json", "content-length": str(len(body))}
    )
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return left.pop() if left else await request.receive()

    return Request({**request.scope, "headers": changed.raw}, receive)


routes = APIRouter(prefix="/v1/attachments", tags=["attachments"], route_class=KnownQueryRoute)


@routes.post(
    "",
    status_code=201,
    response_model=Uploads,
    responses=problems(400),
    summary="Upload files",
    openapi_extra=FORM,
)
async def upload(request: Request, asking: Asking, service: Serving) -> Response:
    """Store the files of a form, to send them with runs and messages of the same principal by their `reference`."""
    require(asking, "user")
    if not is_multipart(request.scope):
        raise Problem(
            415, "not_a_form", "this path takes multipart/form-data", then="Send a form with a field `file`."
        )
    _, uploads = await _read_form(request, service, asking)
    if not uploads:
        raise Problem(422, "invalid_input", "the form has no file", then="Send a form with a field `file`.")
    made = [Uploaded(reference=each.reference, **each.model_dump(exclude={"claim"})) for each in uploads]
    return json_of(Uploads(attachments=made), 201)


downloads = APIRouter(prefix="/v1/runs", tags=["attachments"], route_class=KnownQueryRoute)


@downloads.get(
    "/{run_id:path}/attachments/{attachment_id}",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems(404, 502)},
    summary="Download an attachment",
)
async def get_attachment(
    run_id: RunId,
    attachment_id: Annotated[str, Path(examples=["att_3f1c0a9b7d2e4f5681c07d92e6a4b35f"], max_length=100)],
    asking: Asking,
    service: Serving,
) -> Response:
    """The content of a file that a person sent to the run, or that a tool made: treat name and type as hostile."""
    require(asking, "viewer")
    return await download(service, asking, run_id, attachment_id)
