"""The JSON of an output has the answer as text, and the history's does not have it twice."""

import json

from temporalio.api.common.v1 import Payload

from sojourn import Message, RunOutput, data_converter
from sojourn.answers import event_line
from sojourn.events import RunCompletedEvent

OUTPUT = RunOutput(run_id="r", agent_id="ops.desk", final=Message.assistant("Done."))


def test_the_json_of_an_output_has_its_text() -> None:
    """`model_dump` and `model_dump_json` have `text`, and the JSON is read back."""
    assert OUTPUT.model_dump()["text"] == "Done."
    assert json.loads(OUTPUT.model_dump_json())["text"] == "Done."
    assert RunOutput.model_validate_json(OUTPUT.model_dump_json()) == OUTPUT


def test_the_line_of_an_event_has_the_text_of_its_output() -> None:
    """A browser reads the answer of `run_completed` as `output.text`."""
    event = RunCompletedEvent.model_construct(type="run_completed", run_id="r", output=OUTPUT)
    assert json.loads(event_line(event))["output"]["text"] == "Done."


def test_a_history_has_the_answer_once() -> None:
    """What is recorded as a run's result has no `text` beside `final`."""
    recorded: Payload = data_converter.payload_converter.to_payloads([OUTPUT])[0]
    assert "text" not in json.loads(recorded.data)
    assert json.loads(recorded.data)["final"]["parts"][0]["text"] == "Done."
