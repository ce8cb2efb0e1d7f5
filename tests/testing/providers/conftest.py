"""Fixtures: the stand-in provider of the models' tests, its protocols, and requests to it."""

from tests.models.conftest import ask, protocol, standin, streamed  # noqa: F401 - fixtures
