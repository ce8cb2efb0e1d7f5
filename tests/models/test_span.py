"""Each request to a model is a span below the plan's span, without any text of the request or the answer."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from sojourn.testing.providers import HttpError, says

pytestmark = pytest.mark.usefixtures("processes")

SCRIPT = Path(__file__).with_name("spans_of_requests.py")


async def test_requests_are_spans(standin):
    """A plain, a streamed and a refused request have spans by OpenTelemetry's conventions for generative AI."""
    standin.script = [says("SECRET 1"), says("SECRET 2"), HttpError(error="bad_request")]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), env={**os.environ, **standin.environment}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert b"SECRET" not in out
    plain, streamed, refused, plan = map(json.loads, out.splitlines())
    assert plan["name"] == "plan"
    for span, streams in ((plain, False), (streamed, True)):
        assert (span["name"], span["kind"], span["has_parent"]) == ("chat gpt-5-mini", "CLIENT", True)
        assert span["status"] == "UNSET"
        assert span["attributes"] == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-5-mini",
            "gen_ai.request.stream": streams,
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 5,
            "gen_ai.response.model": "gpt-5-mini",
            "gen_ai.response.finish_reasons": ["stop"],
        }
    assert (refused["status"], refused["description"], refused["events"]) == ("ERROR", None, 0)
    assert "Rejected" in refused["attributes"]["error.type"]
