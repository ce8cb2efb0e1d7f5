"""recorded: answers from a file, or, when told to, from the model, into the file."""

import os
from collections.abc import Sequence
from os import PathLike

from pydantic_ai.models import Model

from sojourn.testing.models.player import Player
from sojourn.testing.models.recorder import Recorder

__all__ = ["is_recording", "recorded"]


def recorded(path: str | PathLike[str], *, model: str | Model, ignore: Sequence[str] = ()) -> Model:
    """A model that plays a file; one that records it where `SOJOURN_RECORD` is 1.

    Nothing is recorded by itself: a test whose file is missing fails, and asks no provider.

    Args:
        path: The file, from the current folder.
        model: Who is asked while recording; not looked up otherwise.
        ignore: As for `Recorder`.

    Raises:
        FileNotFoundError: nothing is recorded there.
        ValueError: it is no file of exchanges.
    """
    return Recorder(model, path, ignore=ignore) if is_recording() else Player(path, ignore=ignore)


def is_recording() -> bool:
    """Whether `SOJOURN_RECORD` is 1: answers are recorded, and real requests are meant."""
    return os.environ.get("SOJOURN_RECORD") == "1"
