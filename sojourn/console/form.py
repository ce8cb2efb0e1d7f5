"""Form: the fields that a page's form sends, as a browser encodes them."""

from urllib.parse import parse_qs

from starlette.requests import Request

from sojourn.http.problems import Problem
from sojourn.http.security.requests import header_values

__all__ = ["Form", "form_of"]

MAX_FIELDS = 1_000
"""Most fields of a form."""


class Form:
    """The fields of a form.

    Args:
        fields: By name, the values in their order.
    """

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def __contains__(self, name: object) -> bool:
        """Whether a field was sent, also an empty one."""
        return name in self._fields

    def text(self, name: str) -> str:
        """The text of a field, with the ends of lines as they are everywhere else; empty where it was not sent."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def texts(self, name: str) -> list[str]:
        """The texts of all fields of a name."""
        return [each.replace("\r\n", "\n") for each in self._fields.get(name, [])]

    def names(self) -> list[str]:
        """The names of the fields."""
        return list(self._fields)


async def form_of(request: Request) -> Form:
    """The form that a request sends.

    Raises:
        Problem: It sends no form.
    """
    (given, *_) = [*header_values(request.scope, "content-type"), ""]
    if given.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise Problem(400, "bad_request", "this path takes a form", then="Send the form of the page.")
    try:
        text = (await request.body()).decode("utf-8")
        return Form(parse_qs(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"))
    except ValueError as error:
        raise Problem(
            400, "bad_request", "the form is not text in UTF-8, or has too many fields", then="Send less."
        ) from error
