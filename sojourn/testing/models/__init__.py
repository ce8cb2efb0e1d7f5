"""Test an agent that a model decides for: another model in its place, or answers that were recorded.

    async def test_books(use_model):
        use_model(app, TestModel())                                                        # of pydantic-ai
        use_model(app, recorded("tests/exchanges/books.json", model="openai:gpt-5-mini"))  # real answers

The package decides which requests are the same request, and what of an exchange may stand in a file. It knows
pydantic-ai and `sojourn.models`, so it needs `sojourn[models]`; `import sojourn.testing` loads neither. Begin at
`recorded`, whose file format `cassette` describes.
"""

from sojourn.testing.models.recorded import Player, Recorder, is_recording, recorded
from sojourn.testing.models.use_model import use_model

__all__ = ["Player", "Recorder", "is_recording", "recorded", "use_model"]
