"""Replace the model of an agent in tests with another one or recorded responses.

    async def test_books(use_model):
        use_model(app, TestModel())                                                        # of pydantic-ai
        use_model(app, recorded("tests/exchanges/books.json", model="openai:gpt-5-mini"))  # real answers

The package decides which requests are equal, and which parts of an exchange a file has. It
imports pydantic-ai and `sojourn.models`, so it needs `sojourn[models]`; `import sojourn.testing`
imports neither. Begin with `recorded`; `cassette` describes its file format.
"""

from sojourn.testing.models.recorded import Player, Recorder, is_recording, recorded, use_model

__all__ = ["Player", "Recorder", "is_recording", "recorded", "use_model"]
