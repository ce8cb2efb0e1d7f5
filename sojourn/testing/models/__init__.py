"""Test an agent that a model decides for: another model in its place, or answers that were recorded.

    async def test_books(use_model):
        use_model(app, TestModel())                                                        # of pydantic-ai
        use_model(app, recorded("tests/exchanges/books.json", model="openai:gpt-5-mini"))  # real answers

Needs `sojourn[models]`, and imports pydantic-ai; `import sojourn.testing` does neither.
"""

from sojourn.testing.models.player import Player
from sojourn.testing.models.recorded import is_recording, recorded
from sojourn.testing.models.recorder import Recorder
from sojourn.testing.models.use import use_model

__all__ = ["Player", "Recorder", "is_recording", "recorded", "use_model"]
