"""The text of a server's question, as a person sees it."""

from mcp import types

from sojourn.mcp.elicitation import to_input_required


def test_a_question_shows_no_secret_and_no_control_character() -> None:
    """What a server asks, and what it says of a field, shows none of the toolset's credentials and nothing that a screen obeys."""
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": "is it secret-token?"}}}
    params = {"mode": "form", "message": "Log in with \x1b[31msecret-token?", "requestedSchema": schema}
    answer = types.InputRequiredResult.model_validate(
        {"inputRequests": {"one": {"method": "elicitation/create", "params": params}}, "requestState": "s"}
    )
    (form,) = to_input_required(answer, ["secret-token"]).forms
    assert form.message == "Log in with  [31m***?"
    assert form.form["properties"]["x"]["description"] == "is it ***?"
