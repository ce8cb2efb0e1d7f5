"""Listings of genuine MCP servers, as they were told in November 2026: no tool is left out, and no provider refuses what models are offered."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from mcp_types import Tool
from pydantic import ValidationError

from sojourn.contracts.plan import PlanInput, RunContext
from sojourn.contracts.tool_spec import Retry, ToolSpec
from sojourn.mcp.lenient_answers import readable
from sojourn.mcp.spec_from_listing import Terms, spec_from_listing
from sojourn.models.offered import offer
from sojourn.models.projection import limits_of
from sojourn.testing.providers import ToolOffer
from sojourn.testing.providers.rules import anthropic, google, openai

LISTINGS: dict[str, Any] = json.loads(
    lzma.decompress(Path(__file__).with_name("listings.json.xz").read_bytes())
)
"""By the server's short name: its package, the version, and the tools of `tools/list`."""

TERMS = Terms(None, Retry(), None, trusted=False, confirmation={}, bounded=())
RULES = {"openai": openai, "anthropic": anthropic, "google": google}


def spec_of(listed: dict[str, Any]) -> tuple[ToolSpec, str]:
    """Return the spec of a listed tool, and why its schema is not enforced; read as a session reads it."""
    try:
        tool = Tool.model_validate(listed)
    except ValidationError:
        tool = Tool.model_validate(readable(listed))
    return spec_from_listing("field.server", tool, TERMS)


def test_no_tool_is_left_out_or_refused(subtests: pytest.Subtests) -> None:
    """Each tool of the server has a spec whose schema is enforced, and the requests of each provider are within its rules."""
    for server in LISTINGS:
        with subtests.test(server=server):
            found = [spec_of(listed) for listed in LISTINGS[server]["tools"]]
            assert [(spec.id, why) for spec, why in found if why] == []
            assert len({spec.id for spec, _ in found}) == len(found)
            specs = sorted((spec for spec, _ in found), key=lambda spec: spec.id)
            turn = PlanInput(
                run=RunContext(run_id="r", agent_id="field.agent", interrupts_allowed=True),
                messages=[],
                tools=specs,
            )
            for provider, refusals in RULES.items():
                offered = offer(turn, limits_of([provider]), asks=True)
                tools = [
                    ToolOffer(each.name, each.description or "", each.parameters_json_schema)
                    for each in offered.tools
                ]
                assert list(refusals(tools)) == [], provider
                assert len(offered.deferred) + len(tools) >= len(specs)
