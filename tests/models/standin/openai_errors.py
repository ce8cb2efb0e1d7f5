"""The errors of OpenAI's APIs, with their statuses and bodies."""

from typing import Any

from tests.models.standin.reply import ErrorKind
from tests.models.standin.request import Request

PLANS = "please check your plan and billing details."


def error_of(kind: ErrorKind, request: Request) -> tuple[int, dict[str, Any]]:
    """Return the status, and the `error` of the body."""
    status, kind_of_error, code, message = {
        "bad_request": (400, "invalid_request_error", None, "Invalid value for 'temperature'."),
        "content_filter": (
            400,
            "invalid_request_error",
            "content_filter",
            "The response was filtered due to the prompt triggering our content management policy.",
        ),
        "image": (
            400,
            "invalid_request_error",
            "invalid_image_format",
            "You uploaded an unsupported image. Please make sure your image has of one the following formats: png.",
        ),
        "context_length": (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        "forbidden": (
            403,
            "invalid_request_error",
            "unsupported_country_region_territory",
            "Country, region, or territory not supported",
        ),
        "overloaded": (
            503,
            "service_unavailable_error",
            "server_is_overloaded",
            "Our servers are currently overloaded. Please try again later.",
        ),
        "quota": (
            429,
            "insufficient_quota",
            "insufficient_quota",
            f"You exceeded your current quota, {PLANS}",
        ),
        "rate_limit": (
            429,
            "requests",
            "rate_limit_exceeded",
            f"Rate limit reached for {request.model} on requests per min (RPM): Limit 3, Used 3, Requested 1.",
        ),
        "server_error": (
            500,
            "server_error",
            None,
            "The server had an error while processing your request. Sorry about that!",
        ),
        "unauthorized": (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided: sk-stand*****.",
        ),
        "unknown_model": (
            404,
            "invalid_request_error",
            "model_not_found",
            f"The model `{request.model}` does not exist or you do not have access to it.",
        ),
    }[kind]
    param = "model" if kind == "unknown_model" else None
    return status, {"message": message, "type": kind_of_error, "param": param, "code": code}
